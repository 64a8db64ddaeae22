#include "service/wings/partition/services/partition_server.h"

#include <memory>
#include <utility>

#include "packhouse/v1/partitioning.grpc.pb.h"
#include "service/wings/partition/services/joined_kind.h"
#include "service/wings/partition/services/partitioning_service.h"

namespace packhouse::rpc {
namespace {

class PartitionServer final : public ServerWing {
 public:
  PartitionServer(const WingSources& sources, std::unique_ptr<PartitionJobs> jobs)
      : jobs_(std::move(jobs)), service_(sources.context, jobs_.get(), sources.datasets) {}

  std::vector<Service> services() override {
    return {{&service_, v1::PartitioningService::service_full_name(), jobs_ != nullptr}};
  }
  const EpochKindReader* epoch_kind() const override { return &joined_; }
  uint64_t BytesOf(absl::string_view where) const override {
    return jobs_ == nullptr ? 0 : jobs_->BytesOf(where);
  }
  std::function<absl::Status(absl::string_view name)> graph_deletion() override {
    if (jobs_ == nullptr) return nullptr;
    return [jobs = jobs_.get()](absl::string_view name) { return jobs->DeleteGraph(name); };
  }
  void ForgetSourceGraph(absl::string_view name) override {
    if (jobs_ != nullptr) jobs_->ForgetGraph(name);
  }

 private:
  const std::unique_ptr<PartitionJobs> jobs_;  // May be null.
  PartitioningService service_;
  const JoinedKind joined_;
};

}  // namespace

MakeServerWing ServePartitions(SourceGraphStore* graphs, AssignmentEngine* engine,
                               PartitionJobs::Options options) {
  return [=](const WingSources& sources) -> std::unique_ptr<ServerWing> {
    std::unique_ptr<PartitionJobs> jobs;
    if (graphs != nullptr && !sources.shares_jobs) {
      PartitionJobs::Options of_server = options;
      of_server.quota = sources.disk_quota;
      jobs = std::make_unique<PartitionJobs>(graphs, engine, sources.clock, sources.working,
                                             of_server);
    }
    return std::make_unique<PartitionServer>(sources, std::move(jobs));
  };
}

}  // namespace packhouse::rpc
