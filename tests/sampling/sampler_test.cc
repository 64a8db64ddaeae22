#include "service/wings/graphs/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sampling/sampling_worlds.h"
#include "tests/sampling/slow_sampler.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unreadable_graph.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The seeds live as long as the thread.
DrawRequest SeedsOf(std::vector<uint32_t> seeds) {
  thread_local std::deque<std::vector<uint32_t>> kept;
  DrawRequest request;
  request.seeds = kept.emplace_back(std::move(seeds));
  return request;
}

SamplingOptions RandomOptions(const SourceGraphSchema& schema, SeededRandom& random) {
  SamplingOptions options;
  options.induced = random.Below(3) == 0;
  if (options.induced && random.Below(2) == 0) {
    for (const SourceEdgeSetSpec& set : schema.edge_sets()) {
      if (random.Below(2) == 0) options.induced_edge_sets.push_back(set.name);
    }
  }
  switch (random.Below(4)) {
    case 0:
      options.node_time_column = "year";
      options.untimed_sets = {"author", "field"};
      break;
    case 1:
      options.edge_time_column = "when";
      break;
    default:
      break;
  }
  const bool is_temporal = !options.node_time_column.empty() || !options.edge_time_column.empty();
  options.latest = is_temporal && random.Below(2) == 0;
  if (is_temporal && random.Below(2) == 0) options.time_window = 1 + random.Below(6);
  options.merge_parallel = random.Below(2) == 0;
  return options;
}

// Everything that an oracle can see of a world: which nodes, which edges, and their order.
void ExpectDrawnAsTheSlowSamplerDoes(uint64_t world, uint64_t scale, SamplerScratch& scratch,
                                     SampledGraph& sampled) {
  SeededRandom random(world);
  const auto graph = RandomGraph(random, scale);
  const tfgnn::SamplingSpec spec = RandomSpec(graph->schema(), random);
  const SamplingOptions options = RandomOptions(graph->schema(), random);
  const Sampler sampler = SamplerOf(*graph, spec, options);
  const SlowSampler slow(*graph, spec, options);
  const size_t seed_set = *graph->schema().NodeSetIndex(spec.seed_node_set);
  std::vector<uint32_t> seeds;
  for (uint64_t i = random.Below(4 * scale); i > 0; --i) {
    seeds.push_back(static_cast<uint32_t>(random.Below(graph->num_nodes(seed_set))));
  }
  DrawRequest request = SeedsOf(seeds);
  request.seed_number = random.Next();
  request.epoch = random.Below(5);
  std::vector<uint32_t> occurrences;
  if (random.Below(2) == 0) {
    for (size_t i = 0; i < seeds.size(); ++i) {
      occurrences.push_back(static_cast<uint32_t>(random.Below(3)));
    }
  }
  request.occurrences = occurrences;
  if (!options.edge_time_column.empty() || spec.seed_node_set == "author") {
    request.time = options.node_time_column.empty() ? static_cast<int64_t>(random.Below(8)) - 3
                                                    : 2000 + static_cast<int64_t>(random.Below(10));
  }
  const absl::Status status = sampler.Draw(request, scratch, sampled);
  ASSERT_TRUE(status.ok()) << status;
  const SlowGraph expected =
      slow.Draw(request.seed_number, request.epoch, seeds, request.occurrences, request.time);
  const SlowGraph drawn = ByNumbers(sampler.plan(), sampled);
  for (const auto& [set, nodes] : drawn.nodes) {
    const auto found = expected.nodes.find(set);
    ASSERT_EQ(nodes, found == expected.nodes.end() ? std::vector<uint32_t>() : found->second);
  }
  for (const PlannedEdgeSet& set : sampler.plan().edge_sets()) {
    const auto edges_of = [&](const SlowGraph& from) {
      const auto found = from.edges.find(set.edge_set);
      return found == from.edges.end() ? std::vector<SlowEdge>() : found->second;
    };
    ASSERT_TRUE(edges_of(drawn) == edges_of(expected))
        << graph->schema().edge_sets()[set.edge_set].name;
  }
  for (size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_EQ(sampled.node_sets[sampler.plan().seed_set()].numbers[sampled.seeds[i]], seeds[i]);
  }

  // Structure only: the same without numbers.
  SampledGraph structure;
  request.edge_numbers = false;
  ASSERT_TRUE(sampler.Draw(request, scratch, structure).ok());
  for (size_t e = 0; e < sampled.edge_sets.size(); ++e) {
    EXPECT_EQ(structure.edge_sets[e].sources, sampled.edge_sets[e].sources);
    EXPECT_EQ(structure.edge_sets[e].targets, sampled.edge_sets[e].targets);
    EXPECT_THAT(structure.edge_sets[e].numbers, IsEmpty());
  }
  const SampledCounts bound = sampler.UpperBound(seeds.size());
  for (size_t n = 0; n < sampled.node_sets.size(); ++n) {
    EXPECT_LE(sampled.node_sets[n].numbers.size(), bound.nodes[n]);
  }
  for (size_t e = 0; e < sampled.edge_sets.size(); ++e) {
    EXPECT_LE(sampled.edge_sets[e].sources.size(), bound.edges[e]);
  }
}

TEST(SamplerTest, DrawsAsTheSlowSamplerDoes) {
  SamplerScratch scratch;  // Used by all: what a draw leaves behind must not matter.
  SampledGraph sampled;
  for (uint64_t world = 0; world < 3000; ++world) {
    SCOPED_TRACE(world);
    // Of some hundreds of nodes tables grow, and rows are looked at in blocks.
    ExpectDrawnAsTheSlowSamplerDoes(world, world % 100 == 0 ? 80 : 1, scratch, sampled);
    if (HasFailure()) return;
  }
}

TEST(SamplerTest, SeedsComeFirst) {
  // A case in which TF-GNN's seed is not the first paper.
  MemoryNodeSet papers;
  papers.num_nodes = 5;
  MemoryNodeSet authors;
  authors.num_nodes = 2;
  const auto graph =
      MakeGraph({{"paper", {}}, {"author", {}}},
                {{"cites", 0, 0, {}, std::nullopt},
                 {"written", 0, 1, {}, std::nullopt},
                 {"writes", 1, 0, {}, std::nullopt}},
                {papers, authors}, {{{1}, {2}, {}}, {{0}, {0}, {}}, {{0, 0}, {1, 0}, {}}});
  const Sampler sampler = SamplerOf(
      *graph,
      SpecOf("paper",
             {UniformOp("c1", {"seed"}, "cites", 1000), UniformOp("w", {"seed"}, "written", 1000),
              UniformOp("r", {"w"}, "writes", 1000), UniformOp("c2", {"r"}, "cites", 1000)}));
  const SampledGraph drawn = Draw(sampler, SeedsOf({0}));
  EXPECT_THAT(drawn.node_sets[1].numbers, ElementsAre(0, 1, 2));
}

TEST(SamplerTest, ParallelEdgesAreEdges) {
  const auto graph = GraphOf(3, {{0, 2}, {0, 1}, {0, 1}, {0, 2}, {0, 1}});
  // Several ops draw the same edges: each is there once.
  for (const tfgnn::SamplingSpec& spec :
       {SpecOf("a", {UniformOp("h", {"seed"}, "e", 1000)}),
        SpecOf("a", {UniformOp("h", {"seed"}, "e", 1000), UniformOp("i", {"seed"}, "e", 1000)})}) {
    const SampledGraph drawn = Draw(SamplerOf(*graph, spec), SeedsOf({0}));
    EXPECT_THAT(drawn.edge_sets[0].numbers, UnorderedElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(drawn.edge_sets[0].targets, UnorderedElementsAre(1, 1, 2, 2, 2));
    EXPECT_THAT(drawn.node_sets[0].numbers, ElementsAre(0, 2, 1));
  }
}

TEST(SamplerTest, TheFirstOfParallelEdgesStaysIfTheyBecomeOne) {
  const auto graph = GraphOf(3, {{0, 2}, {0, 1}, {0, 1}, {0, 2}, {0, 1}});
  SamplingOptions options;
  options.merge_parallel = true;
  const Sampler sampler =
      SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 1000)}), options);
  const SampledGraph drawn = Draw(sampler, SeedsOf({0}));
  EXPECT_THAT(drawn.edge_sets[0].numbers, ElementsAre(0, 1));
  EXPECT_THAT(drawn.edge_sets[0].targets, ElementsAre(1, 2));
  EXPECT_THAT(drawn.node_sets[0].numbers, ElementsAre(0, 2, 1));
}

// A graph whose edges were damaged after they had been checked.
class DamagedGraph final : public SourceGraph {
 public:
  DamagedGraph(const SourceGraph* graph, std::vector<uint64_t> offsets,
               std::vector<uint32_t> neighbours)
      : graph_(*graph), offsets_(std::move(offsets)), neighbours_(std::move(neighbours)) {}

  const SourceGraphSchema& schema() const override { return graph_.schema(); }
  uint64_t version() const override { return graph_.version(); }
  uint64_t num_nodes(size_t set) const override { return graph_.num_nodes(set); }
  uint64_t num_edges(size_t set) const override { return graph_.num_edges(set); }
  absl::StatusOr<Adjacency> BySource(size_t) const override { return Rows(); }
  absl::StatusOr<Adjacency> ByTarget(size_t) const override { return Rows(); }
  SourceColumn NodeColumn(size_t set, size_t column) const override {
    return graph_.NodeColumn(set, column);
  }
  SourceColumn EdgeColumn(size_t set, size_t column) const override {
    return graph_.EdgeColumn(set, column);
  }
  SourceColumn NodeIds(size_t set) const override { return graph_.NodeIds(set); }
  bool integer_ids(size_t set) const override { return graph_.integer_ids(set); }

 private:
  Adjacency Rows() const {
    Adjacency rows;
    rows.offsets = offsets_;
    rows.neighbours = neighbours_;
    return rows;
  }

  const SourceGraph& graph_;
  const std::vector<uint64_t> offsets_;
  const std::vector<uint32_t> neighbours_;
};

// Indices are looked at where they are used: no row and no node that there is not.
TEST(SamplerTest, DrawsOfADamagedGraphAreDataLoss) {
  const auto graph = GraphOf(3, {{0, 1}, {0, 2}, {1, 2}});
  const std::vector<std::pair<std::vector<uint64_t>, std::vector<uint32_t>>> damages = {
      {{0, 2, 3, 3}, {1, uint32_t{1} << 31, 2}},  // No node.
      {{0, 2, 3, 3}, {3, 2, 2}},                  // One beyond the last.
      {{0, uint64_t{1} << 60, 3, 3}, {1, 2, 2}},  // No end of a row.
      {{uint64_t{1} << 60, 2, 3, 3}, {1, 2, 2}},  // No beginning.
      {{0, 2, 3}, {1, 2, 2}},                     // No last row.
  };
  for (const auto& [offsets, neighbours] : damages) {
    for (const bool induced : {false, true}) {
      const DamagedGraph damaged(graph.get(), offsets, neighbours);
      SamplingOptions options;
      options.induced = induced;
      const Sampler sampler = SamplerOf(
          damaged, SpecOf("a", {UniformOp("h", {"seed"}, "e", 5), UniformOp("i", {"h"}, "e", 5)}),
          options);
      SamplerScratch scratch;
      SampledGraph sampled;
      const absl::Status status = sampler.Draw(SeedsOf({0, 1, 2}), scratch, sampled);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(status.message(), HasSubstr("is damaged"));
    }
  }
}

// Whatever a draw reads must be there, and sound; of induced edges one order is enough.
TEST(SamplerTest, AGraphThatCannotBeReadIsNotDrawnFrom) {
  const SourceColumnSpec time = {"t", DType::kInt64, {}, false, false};
  const SourceColumnSpec weight = {"w", DType::kFloat32, {}, false, false};
  tfgnn::SamplingOp op = UniformOp("h", {"seed"}, "e", 5);
  op.strategy = tfgnn::SamplingStrategy::kRandomWeighted;
  SamplingOptions options;
  options.weight_column = "w";
  options.induced = true;
  options.induced_edge_sets = {"f"};
  std::optional<SampledEdges> induced;
  const auto read = [&](const auto& change) {
    MemoryNodeSet nodes;
    nodes.num_nodes = 2;
    nodes.columns = {ColumnOf<int64_t>({9, 9})};
    const MemoryEdgeSet weighted = {
        {0, 0}, {0, 1}, {ColumnOf<int64_t>({3, 4}), ColumnOf<float>({1, 2})}};
    const MemoryEdgeSet timed = {{0, 1, 0}, {1, 0, 0}, {ColumnOf<int64_t>({3, 4, 5})}};
    UnreadableGraph graph(
        MakeGraph({{"a", {time}}, {"b", {time}}},
                  {{"e", 0, 1, {time, weight}, std::nullopt}, {"f", 0, 1, {time}, std::nullopt}},
                  {nodes, nodes}, {weighted, timed}));
    change(graph);
    auto plan = SamplingPlan::Create(graph.schema(), SpecOf("a", {op}), options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    const auto sampler =
        Sampler::Create(std::make_shared<const SamplingPlan>(*std::move(plan)), &graph);
    if (!sampler.ok()) return sampler.status().ToString();
    DrawRequest request = SeedsOf({0});
    request.time = 9;
    const SampledGraph sampled = Draw(*sampler, request);
    EXPECT_EQ(sampled.edge_sets[1].sources.size(), 2U);
    if (!induced) induced = sampled.edge_sets[1];
    EXPECT_EQ(sampled.edge_sets[1].sources, induced->sources);
    EXPECT_EQ(sampled.edge_sets[1].targets, induced->targets);
    return std::string("OK");
  };
  using Graph = UnreadableGraph;
  const auto damage = [](absl::string_view array, uint64_t bytes) {
    return "DATA_LOSS: " + Graph::DamageOf(array, bytes);
  };
  const absl::Status none = absl::FailedPreconditionError("no such order");
  const absl::Status other = absl::FailedPreconditionError("nor this one");
  const absl::Status lost = absl::DataLossError("rows are lost");
  for (const bool by_nodes : {false, true}) {
    options.node_time_column = by_nodes ? "t" : "";
    options.edge_time_column = by_nodes ? "" : "t";
    const auto said = [](bool is_read, const std::string& damaged) {
      return is_read ? damaged : std::string("OK");
    };
    EXPECT_EQ(read([](Graph&) {}), "OK");
    EXPECT_EQ(read([](Graph& g) { g.DamageNodeColumn(0, 0); }),
              said(by_nodes, damage("node 0 0", 16)));
    EXPECT_EQ(read([](Graph& g) { g.DamageNodeColumn(1, 0); }),
              said(by_nodes, damage("node 1 0", 16)));
    EXPECT_EQ(read([](Graph& g) { g.DamageEdgeColumn(0, 0); }),
              said(!by_nodes, damage("edge 0 0", 16)));
    EXPECT_EQ(read([](Graph& g) { g.DamageEdgeColumn(0, 1); }), damage("edge 0 1", 8));
    EXPECT_EQ(read([](Graph& g) { g.DamageEdgeColumn(1, 0); }),
              said(!by_nodes, damage("edge 1 0", 24)));
  }
  EXPECT_EQ(read([&](Graph& g) { g.RefuseBySource(0, none); }), none.ToString());
  EXPECT_EQ(read([&](Graph& g) { g.RefuseByTarget(0, lost); }), "OK");
  EXPECT_EQ(read([&](Graph& g) { g.RefuseBySource(1, none); }), "OK");
  EXPECT_EQ(read([&](Graph& g) { g.RefuseByTarget(1, none); }), "OK");
  EXPECT_EQ(read([&](Graph& g) { g.RefuseBySource(1, lost); }), lost.ToString());
  EXPECT_EQ(read([&](Graph& g) { g.RefuseByTarget(1, lost); }), lost.ToString());
  EXPECT_EQ(read([&](Graph& g) {
              g.RefuseBySource(1, none);
              g.RefuseByTarget(1, other);
            }),
            none.ToString());
}

TEST(SamplerTest, NoSeedsGiveAnEmptySubgraph) {
  const auto graph = GraphOf(3, {{0, 1}});
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 5)}));
  const SampledGraph drawn = Draw(sampler, SeedsOf({}));
  EXPECT_EQ(drawn.num_nodes(), 0U);
  EXPECT_EQ(drawn.num_edges(), 0U);
}

// A node that is reached on two paths is drawn for once.
TEST(SamplerTest, FanOutIsKeptPerOpAndNode) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  for (uint32_t target = 4; target < 24; ++target) pairs.emplace_back(3, target);
  const auto graph = GraphOf(24, pairs);
  const Sampler sampler = SamplerOf(
      *graph, SpecOf("a", {UniformOp("h1", {"seed"}, "e", 10), UniformOp("h2", {"h1"}, "e", 10),
                           UniformOp("h3", {"h2"}, "e", 3)}));
  for (uint64_t epoch = 0; epoch < 100; ++epoch) {
    DrawRequest request = SeedsOf({0});
    request.epoch = epoch;
    EXPECT_EQ(Draw(sampler, request).num_edges(), 4U + 3U);
  }
}

TEST(SamplerTest, DrawsDependOnSeedNumberEpochAndSeed) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t target = 2; target < 102; ++target) {
    pairs.emplace_back(0, target);
    pairs.emplace_back(1, target);
  }
  const auto graph = GraphOf(102, pairs);
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 10)}));
  std::set<std::vector<uint32_t>> seen;
  for (uint64_t seed_number = 0; seed_number < 3; ++seed_number) {
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (uint32_t seed = 0; seed < 2; ++seed) {
        DrawRequest request = SeedsOf({seed});
        request.seed_number = seed_number;
        request.epoch = epoch;
        std::vector<uint32_t> drawn = Draw(sampler, request).node_sets[0].numbers;
        EXPECT_EQ(drawn, Draw(sampler, request).node_sets[0].numbers);
        drawn.erase(drawn.begin());
        seen.insert(drawn);
      }
    }
  }
  EXPECT_EQ(seen.size(), 18U);
}

// What a release drew, later releases draw.
TEST(SamplerTest, DrawsAreTheSameInEveryRelease) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<float> weights;
  for (uint32_t target = 1; target < 200; ++target) {
    pairs.emplace_back(0, target);
    weights.push_back(0.5F + static_cast<float>(target % 7));
  }
  MemoryNodeSet nodes;
  nodes.num_nodes = 200;
  MemoryEdgeSet edges;
  for (const auto& [source, target] : pairs) {
    edges.sources.push_back(source);
    edges.targets.push_back(target);
  }
  edges.columns.push_back(ColumnOf(weights));
  const auto graph = MakeGraph(
      {{"a", {}}}, {{"e", 0, 0, {{"weight", DType::kFloat32, {}, false, false}}, std::nullopt}},
      {nodes}, {edges});
  tfgnn::SamplingOp op = UniformOp("h", {"seed"}, "e", 6);
  DrawRequest request = SeedsOf({0});
  request.seed_number = 7;
  request.epoch = 3;
  EXPECT_THAT(Draw(SamplerOf(*graph, SpecOf("a", {op})), request).node_sets[0].numbers,
              ElementsAre(0, 173, 140, 167, 147, 80, 188));
  op.strategy = tfgnn::SamplingStrategy::kRandomWeighted;
  EXPECT_THAT(Draw(SamplerOf(*graph, SpecOf("a", {op})), request).node_sets[0].numbers,
              ElementsAre(0, 153, 151, 27, 196, 188, 61));
  op.strategy = tfgnn::SamplingStrategy::kRandomUniform;
  op.sample_size = 40;  // More than are looked through one by one.
  const std::vector<uint32_t> many =
      Draw(SamplerOf(*graph, SpecOf("a", {op})), request).node_sets[0].numbers;
  EXPECT_THAT(std::vector<uint32_t>(many.end() - 6, many.end()),
              ElementsAre(20, 195, 93, 24, 96, 199));
}

TEST(SamplerTest, DrawsAreTheSameOnEveryThread) {
  SeededRandom random(5);
  const auto graph = RandomGraph(random);
  const Sampler sampler =
      SamplerOf(*graph, SpecOf("paper", {UniformOp("c", {"seed"}, "cites", 2),
                                         UniformOp("w", {"seed", "c"}, "written", 2),
                                         UniformOp("r", {"w"}, "writes", 2)}));
  const uint32_t num_papers = static_cast<uint32_t>(graph->num_nodes(1));
  const auto draw_all = [&](bool backwards) {
    std::vector<std::vector<uint32_t>> all(num_papers);
    SamplerScratch scratch;
    for (uint32_t i = 0; i < num_papers; ++i) {
      const uint32_t seed = backwards ? num_papers - 1 - i : i;
      SampledGraph sampled;
      EXPECT_TRUE(sampler.Draw(SeedsOf({seed}), scratch, sampled).ok());
      all[seed] = sampled.node_sets[1].numbers;
    }
    return all;
  };
  std::vector<std::vector<uint32_t>> there;
  std::thread thread([&] { there = draw_all(true); });
  const std::vector<std::vector<uint32_t>> here = draw_all(false);
  thread.join();
  EXPECT_EQ(here, there);
}

TEST(SamplerTest, RequestsAreChecked) {
  const auto graph = GraphOf(3, {{0, 1}, {0, 2}});
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 5)}));
  SamplerScratch scratch;
  SampledGraph sampled;
  absl::Status status = sampler.Draw(SeedsOf({0, 3}), scratch, sampled);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("seed 3: the node set 'a' has 3 nodes"));

  DrawRequest request = SeedsOf({0});
  request.max_rows = 4;
  status = sampler.Draw(request, scratch, sampled);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("seed 0 has more than 4"));
  request.max_rows = 5;
  EXPECT_TRUE(sampler.Draw(request, scratch, sampled).ok());
  // Node 1 has no edges: seeds that fill the bound exactly fit.
  request = SeedsOf({1});
  request.max_rows = 1;
  EXPECT_TRUE(sampler.Draw(request, scratch, sampled).ok());
  request.max_rows = 0;
  EXPECT_EQ(sampler.Draw(request, scratch, sampled).code(), absl::StatusCode::kResourceExhausted);
  request.max_rows = DrawRequest::kMostRows + 1;
  EXPECT_EQ(sampler.Draw(request, scratch, sampled).code(), absl::StatusCode::kInvalidArgument);
  request = SeedsOf({0});
  request.level = sampler.plan().num_levels();
  EXPECT_EQ(sampler.Draw(request, scratch, sampled).code(), absl::StatusCode::kInvalidArgument);
  request = SeedsOf({0});
  request.limits.nodes = {1, 2};
  EXPECT_EQ(sampler.Draw(request, scratch, sampled).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SamplerTest, LinkSeedsArePairs) {
  const auto graph = GraphOf(4, {{0, 1}, {2, 3}});
  tfgnn::SamplingSpec spec = SpecOf("", {UniformOp("h", {"seed"}, "e", 5)});
  spec.link_seeds = true;
  SamplingOptions options;
  options.link_node_set = "a";
  const Sampler sampler = SamplerOf(*graph, spec, options);
  EXPECT_TRUE(sampler.plan().has_readout());
  const SampledGraph drawn = Draw(sampler, SeedsOf({2, 0}));
  EXPECT_THAT(drawn.node_sets[0].numbers, ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(drawn.seeds, ElementsAre(0, 1));
  SamplerScratch scratch;
  SampledGraph sampled;
  const absl::Status status = sampler.Draw(SeedsOf({1}), scratch, sampled);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("pairs"));
}

// On many worlds: what is drawn within limits is within them; it is the first level that is; and it
// is what that level draws without limits.
TEST(SamplerTest, SubgraphsBeyondLimitsAreDrawnSmaller) {
  uint64_t num_smaller = 0;
  for (uint64_t world = 0; world < 600; ++world) {
    SCOPED_TRACE(world);
    SeededRandom random(world);
    const auto graph = RandomGraph(random);
    const tfgnn::SamplingSpec spec = RandomSpec(graph->schema(), random);
    SamplingOptions options;
    options.induced = random.Below(4) == 0;
    const Sampler sampler = SamplerOf(*graph, spec, options);
    DrawRequest request = SeedsOf({0});
    request.seed_number = world;
    for (size_t n = 0; n < sampler.plan().node_sets().size(); ++n) {
      request.limits.nodes.push_back(random.Below(10));
    }
    for (size_t e = 0; e < sampler.plan().edge_sets().size(); ++e) {
      request.limits.edges.push_back(random.Below(10));
    }
    SamplerScratch scratch;
    SampledGraph sampled;
    const absl::Status status = sampler.Draw(request, scratch, sampled);
    const auto is_within = [&](const SampledGraph& drawn) {
      for (size_t n = 0; n < drawn.node_sets.size(); ++n) {
        if (drawn.node_sets[n].numbers.size() > request.limits.nodes[n]) return false;
      }
      for (size_t e = 0; e < drawn.edge_sets.size(); ++e) {
        if (drawn.edge_sets[e].sources.size() > request.limits.edges[e]) return false;
      }
      return true;
    };
    DrawRequest free = request;
    free.limits = {};
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
      EXPECT_THAT(status.message(), HasSubstr("the seeds alone do not fit"));
      free.level = sampler.plan().num_levels() - 1;
      EXPECT_FALSE(is_within(Draw(sampler, free)));
      continue;
    }
    EXPECT_TRUE(is_within(sampled));
    if (sampled.level > 0) {
      ++num_smaller;
      free.level = sampled.level - 1;
      EXPECT_FALSE(is_within(Draw(sampler, free)));
    }
    free.level = sampled.level;
    const SampledGraph same = Draw(sampler, free);
    for (size_t n = 0; n < same.node_sets.size(); ++n) {
      EXPECT_EQ(same.node_sets[n].numbers, sampled.node_sets[n].numbers);
    }
  }
  EXPECT_GT(num_smaller, 50U);
}

TEST(SamplerTest, LevelsEndAtTheSeeds) {
  const auto graph = GraphOf(3, {{0, 1}, {1, 2}});
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {UniformOp("h1", {"seed"}, "e", 8),
                                                         UniformOp("h2", {"h1"}, "e", 10000)}));
  const SamplingPlan& plan = sampler.plan();
  const uint32_t last = plan.num_levels() - 1;
  EXPECT_EQ(plan.SampleSize(0, 0), 8U);
  EXPECT_EQ(plan.SampleSize(0, 1), 6U);
  EXPECT_EQ(plan.SampleSize(1, 1), 5000U);
  EXPECT_EQ(plan.SampleSize(0, last), 0U);
  EXPECT_EQ(plan.SampleSize(1, last), 0U);
  EXPECT_EQ(plan.SampleSize(0, last - 1), 1U);
  EXPECT_EQ(plan.SampleSize(1, last - 1), 0U);
  EXPECT_EQ(plan.SampleSize(1, last - 2), 1U);
  EXPECT_EQ(plan.SampleSize(1, last - 3), 2U);
  for (uint32_t level = 1; level <= last; ++level) {
    for (size_t op = 0; op < 2; ++op) {
      EXPECT_LE(plan.SampleSize(op, level), plan.SampleSize(op, level - 1));
    }
  }
}

// A seed that comes again is drawn around anew: which edges it gets is as random as between epochs.
TEST(SamplerTest, EachOccurrenceOfASeedIsADrawOfItsOwn) {
  std::vector<std::pair<uint32_t, uint32_t>> star;
  for (uint32_t leaf = 1; leaf <= 4; ++leaf) star.emplace_back(0, leaf);
  const auto graph = GraphOf(5, star);
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 2)}));
  DrawRequest request = SeedsOf({0});
  const auto draw = [&](std::vector<uint32_t> occurrences) {
    request.occurrences = occurrences;
    std::vector<uint64_t> edges = Draw(sampler, request).edge_sets[0].numbers;
    std::sort(edges.begin(), edges.end());
    return edges;
  };
  // The first time is as if nothing was said.
  EXPECT_EQ(draw({0}), draw({}));
  EXPECT_EQ(draw({7}), draw({7}));
  // Chi-square over the six pairs of leaves, five degrees of freedom: 20.5 is exceeded once in a
  // thousand times.
  std::map<std::vector<uint64_t>, double> counts;
  constexpr uint32_t kDraws = 6000;
  for (uint32_t occurrence = 0; occurrence < kDraws; ++occurrence) counts[draw({occurrence})] += 1;
  EXPECT_EQ(counts.size(), 6U);
  double chi_square = 0;
  for (const auto& [edges, count] : counts) {
    chi_square += (count - kDraws / 6.0) * (count - kDraws / 6.0) / (kDraws / 6.0);
  }
  EXPECT_LT(chi_square, 20.5);

  SamplerScratch scratch;
  SampledGraph sampled;
  const std::vector<uint32_t> too_many = {0, 1};
  request.occurrences = too_many;
  const absl::Status status = sampler.Draw(request, scratch, sampled);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("occurrences of 2 seeds, but there are 1"));
}

// PyG's rule for times of nodes: what is later than the seed is not there.
TEST(SamplerTest, NothingIsLaterThanTheSeed) {
  for (uint64_t world = 0; world < 300; ++world) {
    SeededRandom random(world);
    const auto graph = RandomGraph(random);
    tfgnn::SamplingSpec spec = RandomSpec(graph->schema(), random);
    if (spec.seed_node_set != "paper") continue;
    SamplingOptions options;
    options.node_time_column = "year";
    options.untimed_sets = {"author", "field"};
    options.induced = random.Below(2) == 0;
    const Sampler sampler = SamplerOf(*graph, spec, options);
    const SampledGraph drawn = Draw(sampler, SeedsOf({0}));
    const NumberColumn years(graph->NodeColumn(1, 0), DType::kInt32);
    for (const uint32_t paper : drawn.node_sets[sampler.plan().seed_set()].numbers) {
      EXPECT_LE(years.Integer(paper), years.Integer(0));
    }
  }
}

// One to three pairs: links that are there, and others.
std::vector<uint32_t> RandomLinks(const SourceGraph& graph, const Adjacency& writes,
                                  SeededRandom& random) {
  std::vector<uint32_t> seeds;
  for (uint64_t i = 1 + random.Below(3); i > 0; --i) {
    const auto author = static_cast<uint32_t>(random.Below(graph.num_nodes(0)));
    const uint64_t degree = writes.degree(author);
    seeds.push_back(author);
    seeds.push_back(degree != 0 && random.Below(4) != 0
                        ? writes.neighbours[writes.offsets[author] + random.Below(degree)]
                        : static_cast<uint32_t>(random.Below(graph.num_nodes(1))));
  }
  return seeds;
}

// What is excluded is not there: all that can be drawn is drawn as from the graph without these
// edges.
TEST(SamplerTest, ALinksOwnEdgesAreNotDrawn) {
  SamplerScratch scratch;
  SampledGraph sampled;
  for (uint64_t world = 0; world < 300; ++world) {
    SCOPED_TRACE(world);
    SeededRandom random(world);
    const auto graph = RandomGraph(random);
    tfgnn::SamplingSpec spec = SpecOf("", {UniformOp("a", {"seed"}, "writes", 1000),
                                           UniformOp("b", {"seed", "a"}, "written", 1000),
                                           UniformOp("c", {"b"}, "writes", 1000)});
    spec.link_seeds = true;
    SamplingOptions options;
    options.link_edge_set = "writes";
    options.exclude = world % 3 == 0   ? ExcludeLinks::kNone
                      : world % 3 == 1 ? ExcludeLinks::kSelf
                                       : ExcludeLinks::kReverseTypes;
    options.induced = random.Below(3) == 0;
    options.merge_parallel = random.Below(3) == 0;
    const Sampler sampler = SamplerOf(*graph, spec, options);
    const Adjacency writes = *graph->BySource(0);
    const std::vector<uint32_t> seeds = RandomLinks(*graph, writes, random);
    DrawRequest request = SeedsOf(seeds);
    ASSERT_TRUE(sampler.Draw(request, scratch, sampled).ok());
    for (size_t i = 0; i < seeds.size(); ++i) {
      const size_t set = sampler.plan().seed_set(i % 2);
      EXPECT_EQ(sampled.node_sets[set].numbers[sampled.seeds[i]], seeds[i]);
    }
    // What can be reached, by hand.
    std::set<std::pair<uint32_t, uint32_t>> links;
    for (size_t i = 0; i < seeds.size(); i += 2) links.insert({seeds[i], seeds[i + 1]});
    const bool self = options.exclude != ExcludeLinks::kNone;
    const bool reverse = options.exclude == ExcludeLinks::kReverseTypes;
    std::set<uint32_t> authors;
    std::set<uint32_t> papers;
    for (const auto& [author, paper] : links) {
      authors.insert(author);
      papers.insert(paper);
    }
    const std::set<uint32_t> first_authors = authors;
    std::set<uint64_t> forth;
    std::set<uint64_t> back;
    const auto follow = [&](bool by_author, const std::set<uint32_t>& from, bool excludes,
                            std::set<uint32_t>& to, std::set<uint64_t>& edges) {
      for (const uint32_t node : from) {
        const Adjacency rows = by_author ? *graph->BySource(0) : *graph->ByTarget(0);
        for (uint64_t at = rows.offsets[node]; at < rows.offsets[node + 1]; ++at) {
          const uint32_t other = rows.neighbours[at];
          const auto link = by_author ? std::make_pair(node, other) : std::make_pair(other, node);
          if (excludes && links.count(link) != 0) continue;
          to.insert(other);
          edges.insert(rows.edge(at));
        }
      }
    };
    follow(true, first_authors, self, papers, forth);
    const std::set<uint32_t> given_papers = papers;
    std::set<uint32_t> reached;
    follow(false, given_papers, reverse, reached, back);
    authors.insert(reached.begin(), reached.end());
    follow(true, reached, self, papers, forth);
    const SlowGraph drawn = ByNumbers(sampler.plan(), sampled);
    const auto node_set = [&](size_t set) {
      const auto& nodes = drawn.nodes.at(set);
      return std::set<uint32_t>(nodes.begin(), nodes.end());
    };
    EXPECT_EQ(node_set(0), authors);
    EXPECT_EQ(node_set(1), papers);
    if (options.merge_parallel) continue;
    const auto edge_set = [&](size_t set) {
      std::set<uint64_t> numbers;
      const auto found = drawn.edges.find(set);
      if (found == drawn.edges.end()) return numbers;
      for (const SlowEdge& edge : found->second) numbers.insert(edge.number);
      return numbers;
    };
    if (options.induced) {
      const auto between = [&](bool excludes) {
        std::set<uint64_t> edges;
        std::set<uint32_t> ignored;
        follow(true, authors, excludes, ignored, edges);
        std::set<uint64_t> within;
        for (const uint32_t author : authors) {
          for (uint64_t at = writes.offsets[author]; at < writes.offsets[author + 1]; ++at) {
            if (edges.count(writes.edge(at)) != 0 && papers.count(writes.neighbours[at]) != 0) {
              within.insert(writes.edge(at));
            }
          }
        }
        return within;
      };
      forth = between(self);
      back = between(reverse);
    }
    EXPECT_EQ(edge_set(0), forth);
    EXPECT_EQ(edge_set(1), back);
  }
}

// Of the edges that are left every choice is as likely as any other.
TEST(SamplerTest, WhatIsExcludedDoesNotSkewTheDraw) {
  std::vector<std::pair<uint32_t, uint32_t>> star = {{0, 1}, {0, 2}, {0, 3},
                                                     {0, 4}, {0, 5}, {0, 5}};
  const auto graph = GraphOf(6, star);
  tfgnn::SamplingSpec spec = SpecOf("", {UniformOp("h", {"seed"}, "e", 2)});
  spec.link_seeds = true;
  SamplingOptions options;
  options.link_edge_set = "e";
  options.exclude = ExcludeLinks::kSelf;
  const Sampler sampler = SamplerOf(*graph, spec, options);
  DrawRequest request = SeedsOf({0, 5});
  std::map<std::vector<uint64_t>, double> counts;
  constexpr uint32_t kDraws = 6000;
  for (request.epoch = 0; request.epoch < kDraws; ++request.epoch) {
    std::vector<uint64_t> edges = Draw(sampler, request).edge_sets[0].numbers;
    std::sort(edges.begin(), edges.end());
    counts[edges] += 1;
  }
  // The six pairs of the four leaves that are not the link's.
  EXPECT_EQ(counts.size(), 6U);
  double chi_square = 0;
  for (const auto& [edges, count] : counts) {
    EXPECT_LT(edges.back(), 4U);
    chi_square += (count - kDraws / 6.0) * (count - kDraws / 6.0) / (kDraws / 6.0);
  }
  EXPECT_LT(chi_square, 20.5);
}

TEST(SamplerTest, ATimeMustBeKnown) {
  SeededRandom random(1);
  const auto graph = RandomGraph(random);
  SamplingOptions options;
  options.edge_time_column = "when";
  const Sampler sampler =
      SamplerOf(*graph, SpecOf("paper", {UniformOp("h", {"seed"}, "cites", 3)}), options);
  SamplerScratch scratch;
  SampledGraph sampled;
  const absl::Status status = sampler.Draw(SeedsOf({0}), scratch, sampled);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("needs a time"));
}

// The larger the number, the larger its rank; no number is below all.
TEST(NumberColumnTest, RanksAreInTheOrderOfNumbers) {
  const auto ranks = [](const MemoryColumn& column, DType dtype) {
    SourceColumn source;
    source.data = column.bytes.data();
    const NumberColumn numbers(source, dtype);
    EXPECT_TRUE(numbers.exists());
    std::vector<uint64_t> all;
    for (uint64_t row = 0; row < column.bytes.size() / ElementBytes(dtype); ++row) {
      all.push_back(numbers.Rank(row));
    }
    return all;
  };
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<uint64_t> of_doubles =
      ranks(ColumnOf<double>({std::nan(""), -infinite, -2, -1, -0.0, 0, 1e-300, 1, infinite}),
            DType::kFloat64);
  EXPECT_EQ(of_doubles[0], 0U);
  EXPECT_EQ(of_doubles[4], of_doubles[5]);
  for (size_t i = 1; i < of_doubles.size(); ++i) {
    if (i != 5) {
      EXPECT_LT(of_doubles[i - 1], of_doubles[i]) << i;
    }
  }
  const std::vector<uint64_t> of_integers =
      ranks(ColumnOf<int64_t>({INT64_MIN, -1, 0, 1, INT64_MAX}), DType::kInt64);
  EXPECT_THAT(of_integers, ElementsAre(0, (uint64_t{1} << 63) - 1, uint64_t{1} << 63,
                                       (uint64_t{1} << 63) + 1, ~uint64_t{0}));
  EXPECT_THAT(ranks(ColumnOf<uint64_t>({0, 7, ~uint64_t{0}}), DType::kUint64),
              ElementsAre(0, 7, ~uint64_t{0}));
  EXPECT_FALSE(NumberColumn().exists());
}

// Of sets that are exactly full nothing is said.
TEST(SamplerTest, SeedsThatDoNotFitAreToldByTheirSet) {
  MemoryNodeSet nodes;
  nodes.num_nodes = 5;
  const auto graph = MakeGraph(
      {{"a", {}}, {"b", {}}}, {{"e", 0, 1, {}, std::nullopt}, {"f", 0, 1, {}, std::nullopt}},
      {nodes, nodes}, {{{0, 0, 1}, {0, 1, 0}, {}}, {{0, 0, 1}, {0, 1, 0}, {}}});
  tfgnn::SamplingSpec spec = SpecOf("", {});
  spec.link_seeds = true;
  SamplingOptions options;
  options.link_edge_set = "e";
  options.induced = true;
  options.induced_edge_sets = {"e", "f"};
  const Sampler sampler = SamplerOf(*graph, spec, options);
  DrawRequest request = SeedsOf({0, 0, 0, 1, 1, 2});
  const auto refused = [&](SampledCounts limits, uint64_t max_rows, const std::string& why) {
    request.limits = std::move(limits);
    request.max_rows = max_rows;
    SamplerScratch scratch;
    SampledGraph sampled;
    const absl::Status status = sampler.Draw(request, scratch, sampled);
    if (why.empty()) {
      EXPECT_TRUE(status.ok()) << status;
      return;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(std::string(status.message()), "the seeds alone do not fit: " + why);
  };
  refused({{2, 3}, {3, 3}}, 11, "");
  refused({{1, 3}, {3, 3}}, 11, "node set 'a' has 2 of them, the limit is 1");
  refused({{2, 2}, {3, 3}}, 11, "node set 'b' has 3 of them, the limit is 2");
  refused({{2, 3}, {2, 3}}, 11, "edge set 'e' has more than 2 edges between them");
  refused({{2, 3}, {3, 2}}, 11, "edge set 'f' has more than 2 edges between them");
  refused({{2, 3}, {3, 3}}, 10,
          "with the edges between them there are more than 10 nodes and edges");
}

TEST(SamplerTest, RequestsAreRefusedByWhatIsWrong) {
  const auto graph = GraphOf(3, {{0, 1}, {0, 2}});
  tfgnn::SamplingSpec spec = SpecOf("", {UniformOp("h", {"seed"}, "e", 5)});
  spec.link_seeds = true;
  SamplingOptions options;
  options.link_edge_set = "e";
  const Sampler sampler = SamplerOf(*graph, spec, options);
  const auto said = [&](auto change) {
    DrawRequest request = SeedsOf({0, 1, 0, 2});
    change(request);
    SamplerScratch scratch;
    SampledGraph sampled;
    const absl::Status status = sampler.Draw(request, scratch, sampled);
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  using Asked = DrawRequest;
  static const std::vector<uint32_t> three = {0, 0, 0};
  const uint32_t num_levels = sampler.plan().num_levels();
  EXPECT_EQ(said([](Asked& r) { r.seeds = three; }),
            "link seeds are pairs of source and target, not 3 nodes");
  EXPECT_EQ(said([](Asked& r) { r.occurrences = three; }),
            "occurrences of 3 seeds, but there are 2");
  EXPECT_EQ(said([](Asked& r) { r.occurrences = absl::MakeConstSpan(three).first(2); }), "");
  EXPECT_EQ(said([&](Asked& r) { r.level = num_levels; }),
            "level " + std::to_string(num_levels) + ": there are " + std::to_string(num_levels));
  EXPECT_EQ(said([&](Asked& r) { r.level = num_levels - 1; }), "");
  EXPECT_EQ(said([](Asked& r) { r.max_rows = (uint64_t{1} << 27) + 1; }),
            "max_rows 134217729, at most 134217728");
  EXPECT_EQ(said([](Asked& r) { r.max_rows = uint64_t{1} << 27; }), "");
  const std::string limits = " edge sets, but sub-graphs have 1 and 1";
  EXPECT_EQ(said([](Asked& r) { r.limits.nodes = {9}; }), "limits of 1 node sets and 0" + limits);
  EXPECT_EQ(said([](Asked& r) { r.limits.edges = {9}; }), "limits of 0 node sets and 1" + limits);
  EXPECT_EQ(said([](Asked& r) {
              r.limits.nodes = {9, 9};
              r.limits.edges = {9};
            }),
            "limits of 2 node sets and 1" + limits);
  EXPECT_EQ(said([](Asked& r) {
              r.limits.nodes = {9};
              r.limits.edges = {9, 9};
            }),
            "limits of 1 node sets and 2" + limits);
}

// The product of the fan-outs, and no more than there is.
TEST(SamplerTest, BoundsAreThoseOfFanOutsAndSets) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t i = 0; i < 60; ++i) pairs.emplace_back(i, i + 1);
  const auto graph = GraphOf(100, pairs);
  const auto spec =
      SpecOf("a", {UniformOp("h", {"seed"}, "e", 3), UniformOp("i", {"h", "seed"}, "e", 4)});
  const Sampler sampler = SamplerOf(*graph, spec);
  EXPECT_THAT(sampler.UpperBound(0).nodes, ElementsAre(0));
  EXPECT_THAT(sampler.UpperBound(1).nodes, ElementsAre(1 + 3 + 16));
  EXPECT_THAT(sampler.UpperBound(1).edges, ElementsAre(3 + 16));
  EXPECT_THAT(sampler.UpperBound(2).nodes, ElementsAre(2 + 6 + 32));
  EXPECT_THAT(sampler.UpperBound(2).edges, ElementsAre(6 + 32));
  // Of 50 seeds each op has all edges.
  EXPECT_THAT(sampler.UpperBound(50).nodes, ElementsAre(100));
  EXPECT_THAT(sampler.UpperBound(50).edges, ElementsAre(60));
  EXPECT_THAT(sampler.UpperBound(~uint64_t{0}).nodes, ElementsAre(100));
  SamplingOptions induced;
  induced.induced = true;
  EXPECT_THAT(SamplerOf(*graph, spec, induced).UpperBound(1).edges, ElementsAre(60));
  // Both ends of links.
  MemoryNodeSet nodes;
  nodes.num_nodes = 9;
  const auto two = MakeGraph({{"a", {}}, {"b", {}}}, {{"e", 0, 1, {}, std::nullopt}},
                             {nodes, nodes}, {{{0}, {1}, {}}});
  tfgnn::SamplingSpec links = SpecOf("", {});
  links.link_seeds = true;
  SamplingOptions of_links;
  of_links.link_edge_set = "e";
  EXPECT_THAT(SamplerOf(*two, links, of_links).UpperBound(6).nodes, ElementsAre(6, 6));
}

// In words of the draw: for each count, and a block of 4,096 more, three times so many bytes.
TEST(SamplerTest, DrawBytesAreThoseOfEachCount) {
  struct Part {
    uint64_t count;
    uint64_t bytes;
  };
  const auto sum = [](const std::vector<Part>& parts) {
    uint64_t bytes = 0;
    for (const Part& part : parts) bytes += 3 * (part.count + 4096) * part.bytes;
    return bytes;
  };
  constexpr uint64_t kNode = 8 + 32 + 12;
  constexpr uint64_t kEdge = 8 + 8;
  constexpr uint64_t kInRow = 16 + 8 + 48;
  const auto graph = GraphOf(100, {{0, 1}});
  const auto one = UniformOp("h", {"seed"}, "e", 3);
  const auto two = UniformOp("i", {"h"}, "e", 4);
  const SampledCounts counts = {{10}, {20}};
  EXPECT_EQ(SamplerOf(*graph, SpecOf("a", {one})).DrawBytes(counts),
            sum({{10, kNode}, {20, kEdge + 4}, {10, 4}, {20, kInRow}}));
  // With runs, places and what was before; but not if parallel edges become one.
  EXPECT_EQ(SamplerOf(*graph, SpecOf("a", {one, two})).DrawBytes(counts),
            sum({{10, kNode}, {20, kEdge + 8 + 16 + 12}, {10, 4}, {10, 4}, {20, kInRow}}));
  SamplingOptions options;
  options.merge_parallel = true;
  EXPECT_EQ(SamplerOf(*graph, SpecOf("a", {one, two}), options).DrawBytes(counts),
            sum({{10, kNode}, {20, kEdge + 8 + 16}, {10, 4}, {10, 4}, {20, kInRow}}));
  options.induced = true;
  EXPECT_EQ(SamplerOf(*graph, SpecOf("a", {one}), options).DrawBytes(counts),
            sum({{10, kNode}, {20, kEdge + 4 + 16}, {10, 4}, {20, kInRow}}));
  // The links that are left out of one set, or of two.
  MemoryNodeSet nodes;
  nodes.num_nodes = 9;
  const auto both =
      MakeGraph({{"a", {}}, {"b", {}}}, {{"e", 0, 1, {}, std::nullopt}, {"f", 1, 0, {}, 0}},
                {nodes, nodes}, {{{0}, {1}, {}}, {}});
  tfgnn::SamplingSpec links =
      SpecOf("", {UniformOp("h", {"seed"}, "e", 3), UniformOp("i", {"seed"}, "f", 3)});
  links.link_seeds = true;
  for (const uint64_t excluded : {1, 2}) {
    SamplingOptions of_links;
    of_links.link_edge_set = "e";
    of_links.exclude = excluded == 1 ? ExcludeLinks::kSelf : ExcludeLinks::kReverseTypes;
    EXPECT_EQ(SamplerOf(*both, links, of_links).DrawBytes({{10, 30}, {20, 40}}),
              sum({{10, kNode},
                   {30, kNode},
                   {40, 8 * excluded},
                   {20, kEdge + 4},
                   {40, kEdge + 4},
                   {30, 4},
                   {40, kInRow}}));
  }
}

// What is reserved for a draw before it begins is enough.
TEST(SamplerTest, DrawBytesBoundWhatADrawHolds) {
  for (uint64_t world = 0; world < 200; ++world) {
    SCOPED_TRACE(world);
    SeededRandom random(world);
    const auto graph = RandomGraph(random);
    SamplingOptions options;
    options.induced = world % 2 == 0;
    const Sampler sampler = SamplerOf(*graph, RandomSpec(graph->schema(), random), options);
    SamplerScratch scratch;
    SampledGraph sampled;
    ASSERT_TRUE(sampler.Draw(SeedsOf({0}), scratch, sampled).ok());
    SampledCounts counts;
    uint64_t bytes = scratch.num_bytes();
    for (const SampledNodes& set : sampled.node_sets) {
      counts.nodes.push_back(set.numbers.size());
      bytes += set.numbers.capacity() * sizeof(uint32_t);
    }
    for (const SampledEdges& set : sampled.edge_sets) {
      counts.edges.push_back(set.sources.size());
      bytes +=
          set.sources.capacity() * 2 * sizeof(uint32_t) + set.numbers.capacity() * sizeof(uint64_t);
    }
    EXPECT_LE(bytes, sampler.DrawBytes(counts));
  }
}

}  // namespace
}  // namespace packhouse
