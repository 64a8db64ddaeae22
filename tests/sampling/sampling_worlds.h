// Small source graphs and specs, chosen and at random.
#ifndef PACKHOUSE_TESTS_SAMPLING_SAMPLING_WORLDS_H_
#define PACKHOUSE_TESTS_SAMPLING_SAMPLING_WORLDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/wings/graphs/sampling/sampler.h"
#include "service/wings/graphs/sampling/sampling_plan.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/tfgnn/sampling_spec.h"

namespace packhouse {

template <typename T>
MemoryColumn ColumnOf(const std::vector<T>& values) {
  MemoryColumn column;
  column.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return column;
}

inline MemoryColumn TextColumnOf(const std::vector<std::string>& values) {
  MemoryColumn column;
  column.offsets.push_back(0);
  for (const std::string& value : values) {
    column.bytes += value;
    column.offsets.push_back(column.bytes.size());
  }
  return column;
}

inline std::unique_ptr<const SourceGraph> MakeGraph(std::vector<SourceNodeSetSpec> node_sets,
                                                    std::vector<SourceEdgeSetSpec> edge_sets,
                                                    std::vector<MemoryNodeSet> nodes,
                                                    std::vector<MemoryEdgeSet> edges) {
  auto schema = SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets));
  EXPECT_TRUE(schema.ok()) << schema.status();
  auto graph = MakeMemorySourceGraph(*std::move(schema), 1, std::move(nodes), std::move(edges));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// One node set `a` and one edge set `e`.
inline std::unique_ptr<const SourceGraph> GraphOf(
    uint64_t num_nodes, const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  MemoryNodeSet nodes;
  nodes.num_nodes = num_nodes;
  MemoryEdgeSet edges;
  for (const auto& [source, target] : pairs) {
    edges.sources.push_back(source);
    edges.targets.push_back(target);
  }
  return MakeGraph({{"a", {}}}, {{"e", 0, 0, {}, std::nullopt}}, {nodes}, {edges});
}

inline tfgnn::SamplingOp UniformOp(std::string name, std::vector<std::string> inputs,
                                   std::string edge_set, int32_t sample_size) {
  return {std::move(name), std::move(inputs), std::move(edge_set), sample_size,
          tfgnn::SamplingStrategy::kRandomUniform};
}

inline tfgnn::SamplingSpec SpecOf(std::string seed_set, std::vector<tfgnn::SamplingOp> ops) {
  return {"seed", std::move(seed_set), false, std::move(ops)};
}

inline Sampler SamplerOf(const SourceGraph& graph, const tfgnn::SamplingSpec& spec,
                         const SamplingOptions& options = {}) {
  auto plan = SamplingPlan::Create(graph.schema(), spec, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto sampler = Sampler::Create(std::make_shared<const SamplingPlan>(*std::move(plan)), &graph);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return *std::move(sampler);
}

inline SampledGraph Draw(const Sampler& sampler, const DrawRequest& request) {
  SamplerScratch scratch;
  SampledGraph result;
  const absl::Status status = sampler.Draw(request, scratch, result);
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

// Authors, papers and fields with parallel edges, self-loops, hubs, weights of which some are 0 or
// equal, and times. "written" is "writes" backwards, "cited" is "cites" backwards. `scale` times as
// many of all.
inline std::unique_ptr<const SourceGraph> RandomGraph(SeededRandom& random, uint64_t scale = 1) {
  const uint64_t counts[] = {1 + random.Below(12 * scale), 1 + random.Below(20 * scale),
                             1 + random.Below(4 * scale)};
  const auto number = [](std::string name, DType dtype) {
    return SourceColumnSpec{std::move(name), dtype, {}, false, false};
  };
  std::vector<MemoryNodeSet> nodes(3);
  for (size_t n = 0; n < 3; ++n) nodes[n].num_nodes = counts[n];
  std::vector<int32_t> years;
  for (uint64_t i = 0; i < counts[1]; ++i) years.push_back(2000 + random.Below(10));
  nodes[1].columns.push_back(ColumnOf(years));
  const auto edges = [&](size_t source, size_t target, uint64_t most) {
    MemoryEdgeSet set;
    const uint64_t count = random.Below(most * scale + 1);
    std::vector<float> weights;
    std::vector<int64_t> times;
    for (uint64_t e = 0; e < count; ++e) {
      // The smaller of two: the first nodes have many edges.
      set.sources.push_back(random.Below(1 + random.Below(counts[source])));
      set.targets.push_back(random.Below(1 + random.Below(counts[target])));
      weights.push_back(static_cast<float>(random.Below(6)) - 1);
      times.push_back(static_cast<int64_t>(random.Below(8)) - 3);
    }
    set.columns = {ColumnOf(weights), ColumnOf(times)};
    return set;
  };
  const std::vector<SourceColumnSpec> columns = {number("weight", DType::kFloat32),
                                                 number("when", DType::kInt64)};
  return MakeGraph({{"author", {}}, {"paper", {number("year", DType::kInt32)}}, {"field", {}}},
                   {{"writes", 0, 1, columns, std::nullopt},
                    {"written", 1, 0, {}, 0},
                    {"cites", 1, 1, columns, std::nullopt},
                    {"cited", 1, 1, {}, 2},
                    {"about", 1, 2, columns, std::nullopt}},
                   std::move(nodes), {edges(0, 1, 60), {}, edges(1, 1, 90), {}, edges(1, 2, 60)});
}

// Up to six ops, each with up to three inputs, on a graph of RandomGraph().
inline tfgnn::SamplingSpec RandomSpec(const SourceGraphSchema& schema, SeededRandom& random) {
  const size_t seed_set = random.Below(2);
  tfgnn::SamplingSpec spec = SpecOf(schema.node_sets()[seed_set].name, {});
  std::vector<std::pair<std::string, size_t>> given = {{"seed", seed_set}};
  const uint64_t num_ops = random.Below(7);
  for (uint64_t number = 0; number < num_ops; ++number) {
    const auto [input, node_set] = given[random.Below(given.size())];
    std::vector<size_t> leaving;
    for (size_t e = 0; e < schema.edge_sets().size(); ++e) {
      if (schema.edge_sets()[e].source == node_set) leaving.push_back(e);
    }
    if (leaving.empty()) continue;
    const size_t edge_set = leaving[random.Below(leaving.size())];
    tfgnn::SamplingOp op = UniformOp(absl::StrCat("op", number), {input},
                                     schema.edge_sets()[edge_set].name, 1 + random.Below(5));
    for (uint64_t more = random.Below(3); more > 0; --more) {
      const auto& [other, other_set] = given[random.Below(given.size())];
      if (other_set == node_set) op.inputs.push_back(other);
    }
    if (random.Below(8) == 0) op.sample_size = 1000;
    op.strategy = static_cast<tfgnn::SamplingStrategy>(random.Below(3));
    given.emplace_back(op.name, schema.edge_sets()[edge_set].target);
    spec.ops.push_back(std::move(op));
  }
  return spec;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SAMPLING_SAMPLING_WORLDS_H_
