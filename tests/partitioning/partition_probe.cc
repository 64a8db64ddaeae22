// Reads a graph, parts and options from standard input, and writes new ids and all parts, for
// golden_test.py. Numbers are separated by white space:
//   node types: count, then name and size of each
//   edge types: count, then source type, relation, target type and number of each, and its pairs
//   parts, hops, 1 for a halo of in-edges only
//   part of each homogeneous node; or the word metis
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/new_ids.h"
#include "service/wings/partition/cutting/part_cutter.h"
#include "service/wings/partition/engines/metis_engine.h"

namespace packhouse {
namespace {

template <typename Numbers>
void Print(const std::string& name, const Numbers& numbers) {
  std::cout << name;
  for (const auto number : numbers) std::cout << ' ' << number;
  std::cout << '\n';
}

void PrintMap(const std::string& name, const std::vector<std::vector<IdRange>>& map, size_t type) {
  std::vector<uint64_t> ends;
  for (const IdRange& range : map[type]) {
    ends.push_back(range.begin);
    ends.push_back(range.end);
  }
  Print(name, ends);
}

absl::Status Probe(const char* metis) {
  std::vector<SourceNodeSetSpec> node_specs;
  std::vector<MemoryNodeSet> node_sets;
  std::unordered_map<std::string, size_t> set_of;
  size_t count = 0;
  std::cin >> count;
  for (size_t i = 0; i < count; ++i) {
    std::string name;
    uint64_t size = 0;
    std::cin >> name >> size;
    set_of[name] = i;
    node_specs.push_back({name, {}});
    node_sets.push_back({size, {}, {}, {}});
  }
  std::vector<SourceEdgeSetSpec> edge_specs;
  std::vector<MemoryEdgeSet> edge_sets;
  std::cin >> count;
  for (size_t i = 0; i < count; ++i) {
    std::string source;
    std::string relation;
    std::string target;
    uint64_t size = 0;
    std::cin >> source >> relation >> target >> size;
    edge_specs.push_back({relation, set_of[source], set_of[target], {}, std::nullopt});
    MemoryEdgeSet set;
    for (uint64_t e = 0; e < size; ++e) {
      uint32_t a = 0;
      uint32_t b = 0;
      std::cin >> a >> b;
      set.sources.push_back(a);
      set.targets.push_back(b);
    }
    edge_sets.push_back(std::move(set));
  }
  const auto source = *MakeMemorySourceGraph(*SourceGraphSchema::Create(node_specs, edge_specs), 1,
                                             std::move(node_sets), std::move(edge_sets));
  const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
  PartitionOptions options;
  int in_edges = 0;
  std::cin >> options.num_parts >> options.num_hops >> in_edges;
  if (in_edges != 0) options.halo = HaloKind::kInEdges;
  std::vector<uint32_t> part(graph.num_nodes());
  std::string word;
  std::cin >> word;
  if (word == "metis") {
    const auto engine = *MakeMetisEngine(metis);
    const absl::StatusOr<Assignment> assignment = AssignParts(graph, options, engine.get());
    if (!assignment.ok()) return assignment.status();
    part = assignment->part;
  } else {
    part[0] = static_cast<uint32_t>(std::stoul(word));
    for (size_t node = 1; node < part.size(); ++node) std::cin >> part[node];
  }
  const NewIds ids = *NewIds::Create(&graph, part, options.num_parts);
  for (size_t t = 0; t < graph.node_types().size(); ++t) {
    PrintMap("node_map/" + graph.node_types()[t].name, ids.node_map(), t);
  }
  for (size_t t = 0; t < graph.edge_types().size(); ++t) {
    PrintMap("edge_map/" + graph.edge_types()[t].name, ids.edge_map(), t);
  }
  PartCutter cutter(&ids, options.num_hops, options.halo);
  for (uint32_t p = 0; p < options.num_parts; ++p) {
    const absl::StatusOr<Part> cut = cutter.Cut(p);
    if (!cut.ok()) return cut.status();
    const std::string prefix = std::to_string(p) + "/";
    Print(prefix + "inner", std::vector<uint64_t>{cut->num_inner_nodes, cut->num_inner_edges});
    Print(prefix + "nid", cut->nodes);
    Print(prefix + "eid", cut->edges);
    Print(prefix + "orig_nid", cut->original_nodes);
    Print(prefix + "orig_eid", cut->original_edges);
    Print(prefix + "src", cut->sources);
    Print(prefix + "dst", cut->targets);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  const absl::Status status = packhouse::Probe(argc > 1 ? argv[1] : "");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
