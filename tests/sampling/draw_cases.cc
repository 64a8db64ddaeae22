// Draws for tests in Python: reads a JSON text from standard input, writes one to standard output.
//
// In: a list of {nodes, sources, targets, node_times?, edge_times?, sizes, seeds, time?, induced,
// latest, epoch}: a graph of one node set and one edge set, and as many hops as there are sizes,
// each from the nodes of the hop before. Out: a list of {nodes, edges}, numbers in the graph.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "service/wings/graphs/sampling/sampler.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"

namespace packhouse {
namespace {

using Json = nlohmann::json;

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << "\n";
  std::exit(1);
}

MemoryColumn TimesOf(const Json& values) {
  const auto times = values.get<std::vector<int64_t>>();
  MemoryColumn column;
  column.bytes.assign(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(int64_t));
  return column;
}

Json DrawCase(const Json& given) {
  MemoryNodeSet nodes;
  nodes.num_nodes = given["nodes"].get<uint64_t>();
  MemoryEdgeSet edges;
  edges.sources = given["sources"].get<std::vector<uint32_t>>();
  edges.targets = given["targets"].get<std::vector<uint32_t>>();
  SourceNodeSetSpec node_set{"a", {}};
  SourceEdgeSetSpec edge_set{"e", 0, 0, {}, std::nullopt};
  const SourceColumnSpec time{"time", DType::kInt64, {}, false, false};
  SamplingOptions options;
  if (given.contains("node_times")) {
    node_set.columns.push_back(time);
    nodes.columns.push_back(TimesOf(given["node_times"]));
    options.node_time_column = "time";
  }
  if (given.contains("edge_times")) {
    edge_set.columns.push_back(time);
    edges.columns.push_back(TimesOf(given["edge_times"]));
    options.edge_time_column = "time";
  }
  options.induced = given["induced"].get<bool>();
  options.latest = given["latest"].get<bool>();
  auto schema = SourceGraphSchema::Create({node_set}, {edge_set});
  Must(schema.status());
  auto graph = MakeMemorySourceGraph(*std::move(schema), 1, {nodes}, {edges});
  Must(graph.status());
  tfgnn::SamplingSpec spec = {"seed", "a", false, {}};
  for (const Json& size : given["sizes"]) {
    const std::string input = spec.ops.empty() ? std::string("seed") : spec.ops.back().name;
    spec.ops.push_back({absl::StrCat("hop", spec.ops.size()),
                        {input},
                        "e",
                        size.get<int32_t>(),
                        tfgnn::SamplingStrategy::kRandomUniform});
  }
  auto plan = SamplingPlan::Create((*graph)->schema(), spec, options);
  Must(plan.status());
  auto sampler =
      Sampler::Create(std::make_shared<const SamplingPlan>(*std::move(plan)), graph->get());
  Must(sampler.status());
  const auto seeds = given["seeds"].get<std::vector<uint32_t>>();
  DrawRequest request;
  request.seeds = seeds;
  request.epoch = given["epoch"].get<uint64_t>();
  if (given.contains("time")) request.time = given["time"].get<int64_t>();
  SamplerScratch scratch;
  SampledGraph sampled;
  Must(sampler->Draw(request, scratch, sampled));
  Json drawn;
  drawn["nodes"] = sampled.node_sets[0].numbers;
  drawn["edges"] =
      sampled.edge_sets.empty() ? std::vector<uint64_t>() : sampled.edge_sets[0].numbers;
  return drawn;
}

}  // namespace
}  // namespace packhouse

int main() {
  nlohmann::json results = nlohmann::json::array();
  const nlohmann::json cases = nlohmann::json::parse(std::cin);
  for (const nlohmann::json& given : cases) {
    results.push_back(packhouse::DrawCase(given));
  }
  std::cout << results << "\n";
  return 0;
}
