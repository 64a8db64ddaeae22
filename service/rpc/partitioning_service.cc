#include "service/rpc/partitioning_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/rpc/unary_call.h"
#include "service/wire/wire_datasets.h"
#include "service/wire/wire_partitions.h"

namespace packhouse::rpc {
namespace {

v1::PartitionJob JobOf(const PartitionJobInfo& info) {
  v1::PartitionJob job;
  PartitionJobToWire(info, job);
  return job;
}

}  // namespace

PartitioningService::PartitioningService(const CallContext& context, PartitionJobs* partitions)
    : EarlyService(v1::PartitioningService::service_full_name()),
      context_(context.OnAppendPool()),
      partitions_(partitions) {
  Serve("Partition", &PartitioningService::Partition);
  Serve("GetPartition", &PartitioningService::Get);
  Serve("ListPartitions", &PartitioningService::List);
  Serve("CancelPartition", &PartitioningService::Cancel);
  Serve("DeletePartition", &PartitioningService::Delete);
  Serve("ReadPartitionFile", &PartitioningService::ReadFile);
}

CallReactor* PartitioningService::Partition(grpc::CallbackServerContext* call) {
  return RunUnary<v1::PartitionRequest>(
      context_, Method::kPartition, call,
      [this](const v1::PartitionRequest& parsed) -> absl::StatusOr<v1::PartitionJob> {
        if (partitions_ == nullptr) return NoDataFolder();
        PH_ASSIGN_OR_RETURN(const PartitionPlan plan, PartitionPlanFromWire(parsed));
        PH_ASSIGN_OR_RETURN(const PartitionJobInfo info,
                            partitions_->Partition(parsed.graph(), plan));
        return JobOf(info);
      });
}

CallReactor* PartitioningService::Get(grpc::CallbackServerContext* call) {
  return RunUnary<v1::GetPartitionRequest>(
      context_, Method::kGetPartition, call,
      [this](const v1::GetPartitionRequest& parsed) -> absl::StatusOr<v1::PartitionJob> {
        if (partitions_ == nullptr) return NoDataFolder();
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
        if (partitions_ == nullptr) return NoDataFolder();
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
        if (partitions_ == nullptr) return NoDataFolder();
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
        if (partitions_ == nullptr) return NoDataFolder();
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
        if (partitions_ == nullptr) return NoDataFolder();
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

}  // namespace packhouse::rpc
