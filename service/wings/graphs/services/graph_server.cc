#include "service/wings/graphs/services/graph_server.h"

#include <memory>
#include <optional>

#include "packhouse/v1/sampling.grpc.pb.h"
#include "packhouse/v1/source_graph.grpc.pb.h"
#include "service/server/services/server_pools.h"
#include "service/wings/graphs/services/samples_kind.h"
#include "service/wings/graphs/services/sampling_service.h"
#include "service/wings/graphs/services/source_graph_service.h"
#include "service/wings/graphs/source_graphs/quota_source_graph_store.h"

namespace packhouse::rpc {
namespace {

class GraphServer final : public ServerWing {
 public:
  GraphServer(const WingSources& sources, SourceGraphStore* graphs)
      : graphs_(graphs),
        bounded_(graphs == nullptr || !sources.quotas_of
                     ? nullptr
                     : std::make_unique<QuotaSourceGraphStore>(graphs, sources.quotas_of,
                                                               sources.disk_quota)),
        source_graphs_(
            WaitingOn(sources.pools->lookups.get(), sources.pools->distant.get(), sources.context),
            bounded_ == nullptr ? graphs : bounded_.get(),
            [graphs, wings = sources.wings](absl::string_view name) {
              for (const auto& wing : *wings) {
                if (auto deleted = wing->DeleteSourceGraph(name)) return *std::move(deleted);
              }
              return graphs->Delete(name);
            },
            sources.catalog, sources.shares_jobs),
        // To open a source graph is to wait for S3. To draw from an open one is not.
        sampling_(OpeningOn(sources.pools->distant.get(), sources.context), sources.streams,
                  sources.histograms, sources.pack_observers, sources.live, graphs,
                  sources.datasets, sources.sampled),
        samples_(graphs) {}

  std::vector<Service> services() override {
    return {{&sampling_, v1::SamplingService::service_full_name(), graphs_ != nullptr},
            {&source_graphs_, v1::SourceGraphService::service_full_name(), graphs_ != nullptr}};
  }
  const EpochKindReader* epoch_kind() const override { return &samples_; }
  void CountUses(std::map<std::string, Use>& uses) const override {
    if (bounded_ == nullptr) return;
    // A store that cannot be read has other alarms; here it counts for nothing.
    const auto counted = bounded_->CountAll();
    if (!counted.ok()) return;
    for (const auto& [where, use] : *counted) {
      const auto found = uses.find(where);
      if (found == uses.end()) continue;
      found->second.disk_bytes += use.bytes;
      found->second.source_graphs += use.graphs;
    }
  }

 private:
  const SourceGraphStore* const graphs_;                  // May be null.
  const std::unique_ptr<QuotaSourceGraphStore> bounded_;  // Null: nothing is bounded.
  SourceGraphService source_graphs_;
  SamplingService sampling_;
  const SamplesKind samples_;
};

}  // namespace

MakeServerWing ServeGraphs(SourceGraphStore* graphs) {
  return [graphs](const WingSources& sources) -> std::unique_ptr<ServerWing> {
    return std::make_unique<GraphServer>(sources, graphs);
  };
}

}  // namespace packhouse::rpc
