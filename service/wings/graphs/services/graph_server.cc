#include "service/wings/graphs/services/graph_server.h"

#include <memory>
#include <vector>

#include "service/wings/graphs/services/samples_kind.h"

namespace packhouse::rpc {
namespace {

class GraphServer final : public ServerWing {
 public:
  explicit GraphServer(const SourceGraphStore* graphs) : samples_(graphs) {}

  std::vector<Service> services() override { return {}; }
  const EpochKindReader* epoch_kind() const override { return &samples_; }

 private:
  const SamplesKind samples_;
};

}  // namespace

MakeServerWing ServeGraphs(const SourceGraphStore* graphs) {
  return [graphs](const WingSources& /*sources*/) -> std::unique_ptr<ServerWing> {
    return std::make_unique<GraphServer>(graphs);
  };
}

}  // namespace packhouse::rpc
