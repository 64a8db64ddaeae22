// Source graphs.
#include <memory>

#include "service/program/wing.h"
#include "service/wings/graphs/services/graph_server.h"

namespace packhouse {
namespace {

class GraphsWing final : public Wing {
 public:
  rpc::MakeServerWing Serve(const ServedSources& sources) override {
    return rpc::ServeGraphs(sources.stores->source_graphs());
  }
};

}  // namespace

BuiltWing GraphsInProgram() {
  return {.name = "graphs", .make = [] { return std::unique_ptr<Wing>(new GraphsWing); }};
}

}  // namespace packhouse
