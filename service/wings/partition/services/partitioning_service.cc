#include "service/wings/partition/services/partitioning_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/wire/wire_datasets.h"
#include "service/wings/partition/epochs/part_graphs.h"
#include "service/wings/partition/services/wire_partitions.h"

namespace packhouse::rpc {
namespace {

absl::Status NoPartitions() {
  return absl::FailedPreconditionError(
      "partitions are kept with source graphs (--data-dir, or --store s3://): a server without "
      "these, or that has a copy of a folder (--ledger without --store), makes none");
}

absl::StatusOr<v1::PartitionJob> JobOf(const absl::StatusOr<PartitionJobInfo>& info) {
  PH_RETURN_IF_ERROR(info.status());
  v1::PartitionJob job;
  PartitionJobToWire(*info, job);
  return job;
}

absl::StatusOr<v1::PartitionDatasetResponse> MakeParts(
    const v1::PartitionDatasetRequest& wire, const PartitionJobs& partitions,
    DatasetStore& datasets, ProgressSink<v1::PartitionDatasetResponse>& sink) {
  PH_RETURN_IF_ERROR(CheckDatasetName(wire.dataset()));
  const Making making(sink.call().context().working, sink.call().cancellation());
  PH_ASSIGN_OR_RETURN(PartitionJobs::Parts given,
                      partitions.PartsOf(wire.graph(), wire.partition()));
  PartGraphsOptions options;
  options.halo = wire.halo();
  options.features = !wire.without_features();
  options.ids = wire.ids();
  PH_ASSIGN_OR_RETURN(const auto parts, PartGraphs::Create(given.graph, given.part, given.num_parts,
                                                           options, making));
  // Large, and not needed any more.
  given = PartitionJobs::Parts();
  v1::PartitionDatasetResponse response;
  response.set_num_graphs_total(parts->num_parts());
  PH_ASSIGN_OR_RETURN(const DatasetInfo info,
                      MakePartDataset(*parts, {wire.dataset(), wire.max_bytes(), "parts"}, datasets,
                                      making, [&](uint64_t num_graphs) {
                                        response.set_num_graphs(num_graphs);
                                        sink.Report(response);
                                      }));
  response.set_num_graphs(info.num_graphs);
  DatasetToWire(info, *response.mutable_dataset());
  return response;
}

absl::StatusOr<v1::PartitionJob> Started(const v1::PartitionRequest& request,
                                         PartitionJobs& partitions, const ClientId& client) {
  PH_ASSIGN_OR_RETURN(const PartitionPlan plan, PartitionPlanFromWire(request));
  return JobOf(partitions.Partition(request.graph(), plan, client));
}

absl::StatusOr<v1::ListPartitionsResponse> List(const v1::ListPartitionsRequest& request,
                                                const PartitionJobs& partitions) {
  PH_ASSIGN_OR_RETURN(const std::vector<PartitionJobInfo> list, partitions.List(request.graph()));
  v1::ListPartitionsResponse response;
  for (const PartitionJobInfo& info : list) PartitionJobToWire(info, *response.add_partitions());
  return response;
}

absl::StatusOr<v1::DeletePartitionResponse> Delete(const v1::DeletePartitionRequest& request,
                                                   PartitionJobs& partitions,
                                                   const CallContext& context) {
  PH_RETURN_IF_ERROR(partitions.Delete(request.graph(), request.name()));
  LogDeletion(context.log, context.client, "partition",
              absl::StrCat(request.graph(), "/", request.name()));
  return v1::DeletePartitionResponse();
}

absl::StatusOr<v1::ReadPartitionFileResponse> ReadFile(const v1::ReadPartitionFileRequest& request,
                                                       const PartitionJobs& partitions,
                                                       RequestCall& call) {
  const CallContext& context = call.context();
  const uint64_t bytes = PartitionFileBytes(request.max_bytes(), context.max_response_bytes);
  MemoryHold memory;
  if (context.working != nullptr) {
    PH_ASSIGN_OR_RETURN(memory, context.working->Hold("the bytes of a file", bytes));
  }
  PH_ASSIGN_OR_RETURN(PartitionJobs::FileBytes read,
                      partitions.ReadFile(request.graph(), request.name(), request.path(),
                                          request.offset(), bytes));
  v1::ReadPartitionFileResponse response;
  response.set_data(std::move(read.data));
  response.set_num_bytes(read.num_bytes);
  return response;
}

}  // namespace

PartitioningService::PartitioningService(const CallContext& context, PartitionJobs* partitions,
                                         DatasetStore* datasets)
    : EarlyService(v1::PartitioningService::service_full_name(), context) {
  const absl::Status lacks = partitions == nullptr ? NoPartitions() : absl::OkStatus();
  Serve({
      Row(Method::kPartition, Waits::kStore, lacks,
          [partitions](const v1::PartitionRequest& request, RequestCall& call) {
            return Started(request, *partitions, call.context().client);
          }),
      Row(Method::kGetPartition, Waits::kStore, lacks,
          [partitions](const v1::GetPartitionRequest& request, RequestCall& /*call*/) {
            return JobOf(partitions->Get(request.graph(), request.name()));
          }),
      Row(Method::kListPartitions, Waits::kStore, lacks,
          [partitions](const v1::ListPartitionsRequest& request, RequestCall& /*call*/) {
            return List(request, *partitions);
          }),
      Row(Method::kCancelPartition, Waits::kStore, lacks,
          [partitions](const v1::CancelPartitionRequest& request, RequestCall& /*call*/) {
            return JobOf(partitions->Cancel(request.graph(), request.name()));
          }),
      Row(Method::kDeletePartition, Waits::kStore, lacks,
          [partitions](const v1::DeletePartitionRequest& request, RequestCall& call) {
            return Delete(request, *partitions, call.context());
          }),
      Row(Method::kReadPartitionFile, Waits::kStore, lacks,
          [partitions](const v1::ReadPartitionFileRequest& request, RequestCall& call) {
            return ReadFile(request, *partitions, call);
          }),
      Row(Method::kPartitionDataset, Waits::kPlans, datasets == nullptr ? NoPartitions() : lacks,
          [partitions, datasets](const v1::PartitionDatasetRequest& request,
                                 ProgressSink<v1::PartitionDatasetResponse>& sink) {
            return MakeParts(request, *partitions, *datasets, sink);
          }),
  });
}

}  // namespace packhouse::rpc
