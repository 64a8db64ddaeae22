#include "service/wings/partition/services/partitioning_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/calls_grpc/server_streaming_call.h"
#include "service/server/calls_grpc/unary_call.h"
#include "service/server/wire/wire_datasets.h"
#include "service/wings/partition/epochs/part_graphs.h"
#include "service/wings/partition/services/wire_partitions.h"

namespace packhouse::rpc {
namespace {

absl::Status NoPartitions() {
  return absl::FailedPreconditionError(
      "partitions are kept in the folder of one server, with its source graphs (--data-dir): a "
      "server without one, or that shares its jobs with others (--ledger), makes none");
}

v1::PartitionJob JobOf(const PartitionJobInfo& info) {
  v1::PartitionJob job;
  PartitionJobToWire(info, job);
  return job;
}

using DatasetSource = ResponseSource<v1::PartitionDatasetResponse>;

// The last response.
class PartsAnswer final : public DatasetSource {
 public:
  explicit PartsAnswer(v1::PartitionDatasetResponse response) : response_(std::move(response)) {}

  absl::StatusOr<std::optional<v1::PartitionDatasetResponse>> Next() override {
    return std::exchange(response_, std::nullopt);
  }

 private:
  std::optional<v1::PartitionDatasetResponse> response_;
};

absl::StatusOr<std::unique_ptr<DatasetSource>> MakeParts(
    const v1::PartitionDatasetRequest& wire, const PartitionJobs& partitions,
    DatasetStore& datasets, MemoryBudget* working,
    ProgressSink<v1::PartitionDatasetResponse>& sink) {
  PH_RETURN_IF_ERROR(CheckDatasetName(wire.dataset()));
  const Making making(working, [&sink] { return sink.given_up(); });
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
  return std::make_unique<PartsAnswer>(std::move(response));
}

}  // namespace

PartitioningService::PartitioningService(const CallContext& context, PartitionJobs* partitions,
                                         DatasetStore* datasets)
    : EarlyService(v1::PartitioningService::service_full_name()),
      context_(context.OnAppendPool()),
      partitions_(partitions),
      datasets_(datasets) {
  Serve("Partition", &PartitioningService::Partition);
  Serve("GetPartition", &PartitioningService::Get);
  Serve("ListPartitions", &PartitioningService::List);
  Serve("CancelPartition", &PartitioningService::Cancel);
  Serve("DeletePartition", &PartitioningService::Delete);
  Serve("ReadPartitionFile", &PartitioningService::ReadFile);
  Serve("PartitionDataset", &PartitioningService::MakeDataset);
}

CallReactor* PartitioningService::Partition(grpc::CallbackServerContext* call) {
  return RunUnary<v1::PartitionRequest>(
      context_, Method::kPartition, call,
      [this](const v1::PartitionRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::PartitionJob> {
        if (partitions_ == nullptr) return NoPartitions();
        PH_ASSIGN_OR_RETURN(const PartitionPlan plan, PartitionPlanFromWire(parsed));
        PH_ASSIGN_OR_RETURN(const PartitionJobInfo info,
                            partitions_->Partition(parsed.graph(), plan, context.client));
        return JobOf(info);
      });
}

CallReactor* PartitioningService::Get(grpc::CallbackServerContext* call) {
  return RunUnary<v1::GetPartitionRequest>(
      context_, Method::kGetPartition, call,
      [this](const v1::GetPartitionRequest& parsed) -> absl::StatusOr<v1::PartitionJob> {
        if (partitions_ == nullptr) return NoPartitions();
        PH_ASSIGN_OR_RETURN(const PartitionJobInfo info,
                            partitions_->Get(parsed.graph(), parsed.name()));
        return JobOf(info);
      });
}

CallReactor* PartitioningService::List(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ListPartitionsRequest>(
      context_, Method::kListPartitions, call,
      [this](
          const v1::ListPartitionsRequest& parsed) -> absl::StatusOr<v1::ListPartitionsResponse> {
        if (partitions_ == nullptr) return NoPartitions();
        PH_ASSIGN_OR_RETURN(const std::vector<PartitionJobInfo> list,
                            partitions_->List(parsed.graph()));
        v1::ListPartitionsResponse response;
        for (const PartitionJobInfo& info : list) {
          PartitionJobToWire(info, *response.add_partitions());
        }
        return response;
      });
}

CallReactor* PartitioningService::Cancel(grpc::CallbackServerContext* call) {
  return RunUnary<v1::CancelPartitionRequest>(
      context_, Method::kCancelPartition, call,
      [this](const v1::CancelPartitionRequest& parsed) -> absl::StatusOr<v1::PartitionJob> {
        if (partitions_ == nullptr) return NoPartitions();
        PH_ASSIGN_OR_RETURN(const PartitionJobInfo info,
                            partitions_->Cancel(parsed.graph(), parsed.name()));
        return JobOf(info);
      });
}

CallReactor* PartitioningService::Delete(grpc::CallbackServerContext* call) {
  return RunUnary<v1::DeletePartitionRequest>(
      context_, Method::kDeletePartition, call,
      [this](const v1::DeletePartitionRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::DeletePartitionResponse> {
        if (partitions_ == nullptr) return NoPartitions();
        PH_RETURN_IF_ERROR(partitions_->Delete(parsed.graph(), parsed.name()));
        LogDeletion(context.log, context.client, "partition",
                    absl::StrCat(parsed.graph(), "/", parsed.name()));
        return v1::DeletePartitionResponse();
      });
}

CallReactor* PartitioningService::ReadFile(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ReadPartitionFileRequest>(
      context_, Method::kReadPartitionFile, call,
      [this](const v1::ReadPartitionFileRequest& parsed)
          -> absl::StatusOr<v1::ReadPartitionFileResponse> {
        if (partitions_ == nullptr) return NoPartitions();
        const uint64_t bytes = PartitionFileBytes(parsed.max_bytes(), context_.max_response_bytes);
        MemoryHold hold;
        if (context_.working != nullptr) {
          PH_ASSIGN_OR_RETURN(hold, context_.working->Hold("the bytes of a file", bytes));
        }
        PH_ASSIGN_OR_RETURN(PartitionJobs::FileBytes read,
                            partitions_->ReadFile(parsed.graph(), parsed.name(), parsed.path(),
                                                  parsed.offset(), bytes));
        v1::ReadPartitionFileResponse response;
        response.set_data(std::move(read.data));
        response.set_num_bytes(read.num_bytes);
        return response;
      });
}

CallReactor* PartitioningService::MakeDataset(grpc::CallbackServerContext* call) {
  return ServerStreamingCall<v1::PartitionDatasetRequest, v1::PartitionDatasetResponse>::Start(
      context_, *call, Method::kPartitionDataset,
      [this](const v1::PartitionDatasetRequest& parsed,
             ProgressSink<v1::PartitionDatasetResponse>& sink)
          -> absl::StatusOr<std::unique_ptr<DatasetSource>> {
        if (partitions_ == nullptr || datasets_ == nullptr) return NoPartitions();
        return MakeParts(parsed, *partitions_, *datasets_, context_.working, sink);
      });
}

}  // namespace packhouse::rpc
