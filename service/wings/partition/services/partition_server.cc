#include "service/wings/partition/services/partition_server.h"

#include <memory>
#include <utility>

#include "packhouse/v1/partitioning.grpc.pb.h"
#include "service/server/services/server_pools.h"
#include "service/wings/partition/services/joined_kind.h"
#include "service/wings/partition/services/partitioning_service.h"

namespace packhouse::rpc {
namespace {

class PartitionServer final : public ServerWing {
 public:
  PartitionServer(const WingSources& sources, std::unique_ptr<PartitionJobs> jobs)
      : jobs_(std::move(jobs)),
        service_(
            WaitingOn(sources.pools->distant.get(), sources.pools->distant.get(), sources.context),
            jobs_.get(), sources.datasets) {}

  std::vector<Service> services() override {
    return {{&service_, v1::PartitioningService::service_full_name(), jobs_ != nullptr}};
  }
  const EpochKindReader* epoch_kind() const override { return &joined_; }
  void CountUses(std::map<std::string, Use>& uses) const override {
    if (jobs_ == nullptr) return;
    // A store that cannot be read has other alarms; here it counts for nothing.
    const auto bytes = jobs_->BytesByNamespace();
    if (!bytes.ok()) return;
    for (const auto& [where, of_namespace] : *bytes) {
      const auto found = uses.find(where);
      if (found != uses.end()) found->second.disk_bytes += of_namespace;
    }
  }
  std::optional<absl::Status> DeleteSourceGraph(absl::string_view name) override {
    if (jobs_ == nullptr) return std::nullopt;
    return jobs_->DeleteGraph(name);
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
    if (graphs != nullptr && (options.shared != nullptr || !sources.shares_jobs)) {
      PartitionJobs::Options of_server = options;
      of_server.quota = sources.disk_quota;
      jobs = std::make_unique<PartitionJobs>(graphs, engine, sources.context.clock,
                                             sources.context.working, of_server);
    }
    return std::make_unique<PartitionServer>(sources, std::move(jobs));
  };
}

}  // namespace packhouse::rpc
