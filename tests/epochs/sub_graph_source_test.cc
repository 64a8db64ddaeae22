// What is asked for of sub-graphs, in words; and estimates of their sizes.
#include "service/wings/graphs/epochs/sub_graph_source.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/engine/epochs/sampling_observer.h"
#include "service/wings/graphs/epochs/size_estimate.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/tfgnn/sampling_spec.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

SubGraphsRequest TwoHopsOf(const std::string& graph) {
  SubGraphsRequest request;
  request.graph = graph;
  request.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(4, 3)).value();
  return request;
}

// Whatever differs, the words do; what is asked for of another graph has the same.
TEST(SubGraphsRequestTest, WordsSayAllThatDecidesTheSubGraphs) {
  const std::string spec = TwoHopsOf("g").Words();
  EXPECT_THAT(spec, testing::MatchesRegex("spec [0-9a-f]+"));
  EXPECT_EQ(TwoHopsOf("h").Words(), spec);
  SubGraphsRequest other = TwoHopsOf("g");
  other.spec.ops[1].sample_size = 5;
  EXPECT_NE(other.Words(), spec);

  const std::pair<std::string, std::function<void(SubGraphsRequest&)>> options[] = {
      {"3 seeds a graph", [](auto& request) { request.seeds_per_graph = 3; }},
      {R"(weights "w\"")", [](auto& request) { request.options.weight_column = "w\""; }},
      {"induced", [](auto& request) { request.options.induced = true; }},
      {R"(induced set "a", induced set "b")",
       [](auto& request) {
         request.options.induced_edge_sets = {"a", "b"};
       }},
      {"merge parallel", [](auto& request) { request.options.merge_parallel = true; }},
      {R"(node times "t")", [](auto& request) { request.options.node_time_column = "t"; }},
      {R"(edge times "t")", [](auto& request) { request.options.edge_time_column = "t"; }},
      {R"(untimed set "a", untimed set "b")",
       [](auto& request) {
         request.options.untimed_sets = {"a", "b"};
       }},
      {"latest", [](auto& request) { request.options.latest = true; }},
      {"time window 5", [](auto& request) { request.options.time_window = 5; }},
      {R"(links of "n")", [](auto& request) { request.options.link_node_set = "n"; }},
      {R"(links as "e")", [](auto& request) { request.options.link_edge_set = "e"; }},
      {"without its links", [](auto& request) { request.options.exclude = ExcludeLinks::kSelf; }},
      {"without its links and their reverse",
       [](auto& request) { request.options.exclude = ExcludeLinks::kReverseTypes; }},
      {R"(reverse set "a", reverse set "b")",
       [](auto& request) {
         request.options.reverse_edge_sets = {"a", "b"};
       }},
      {"readout", [](auto& request) { request.options.readout = true; }},
      {absl::StrCat(R"(readout column "y )", static_cast<int>(DType::kInt64), R"( [2,3]")"),
       [](auto& request) {
         request.options.readout_columns = {{"y", DType::kInt64, {2, 3}}};
       }},
      {"without features", [](auto& request) { request.payload.features = false; }},
      {"numbers", [](auto& request) { request.payload.numbers = true; }},
      {"rows", [](auto& request) { request.payload.rows = true; }},
      {"ids", [](auto& request) { request.payload.ids = true; }}};
  SubGraphsRequest all = TwoHopsOf("g");
  std::string all_words = spec;
  for (const auto& [words, set] : options) {
    SubGraphsRequest request = TwoHopsOf("g");
    set(request);
    EXPECT_EQ(request.Words(), absl::StrCat(spec, ", ", words));
    set(all);
    // Only one of the two can be.
    if (words != "without its links") absl::StrAppend(&all_words, ", ", words);
  }
  EXPECT_EQ(all.Words(), all_words);
}

constexpr uint32_t kEstimatedNodes = 50;

// Nodes `n`, of which node i has i % 7 edges `e` with times below 10.
std::unique_ptr<const SourceGraph> TimedGraph() {
  const auto schema = SourceGraphSchema::Create(
      {{"n", {}}}, {{"e", 0, 0, {{"when", DType::kInt64, {}, false, false}}, std::nullopt}});
  std::vector<MemoryNodeSet> nodes(1);
  nodes[0].num_nodes = kEstimatedNodes;
  std::vector<MemoryEdgeSet> edges(1);
  std::vector<int64_t> times;
  SeededRandom random(7);
  for (uint32_t i = 0; i < kEstimatedNodes; ++i) {
    for (uint32_t j = 0; j < i % 7; ++j) {
      edges[0].sources.push_back(i);
      edges[0].targets.push_back(static_cast<uint32_t>(random.Below(kEstimatedNodes)));
      times.push_back(static_cast<int64_t>(random.Below(10)));
    }
  }
  MemoryColumn when;
  when.bytes.assign(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(int64_t));
  edges[0].columns.push_back(std::move(when));
  return MakeMemorySourceGraph(*schema, /*version=*/1, std::move(nodes), std::move(edges)).value();
}

std::shared_ptr<const SubGraphSource> SourceOfTimed(const SubGraphsRequest& request) {
  static auto* const graphs = new OneGraphStore(TimedGraph());
  return SubGraphSource::Create(graphs->Open("g").value(), request).value();
}

// Of how many seeds each sub-graph is.
class SeedsOfDraws final : public SamplingObserver {
 public:
  void OnDrawn(uint64_t seeds, uint64_t /*nodes*/, uint64_t /*edges*/,
               uint32_t /*level*/) override {
    seeds_.push_back(seeds);
  }
  const std::vector<uint64_t>& seeds() const { return seeds_; }

 private:
  std::vector<uint64_t> seeds_;
};

// Each seed is a sub-graph of its own, which is drawn here as well.
void ExpectEstimated(const SubGraphsRequest& request, const SeedList& seeds) {
  const EpochSeed seed = {3, 1};
  const std::shared_ptr<const SubGraphSource> source = SourceOfTimed(request);
  ASSERT_THAT(source->CheckSeeds(seeds), IsOk());
  const size_t ends = source->nodes_per_graph();
  const uint64_t num_seeds = source->NumSeeds(seeds);
  SubGraphDrawer drawer = SubGraphDrawer::Create(source, nullptr, nullptr).value();
  SizeHistogram sizes(source->schema().num_components());
  uint64_t bytes = 0;
  for (size_t i = 0; i < num_seeds; ++i) {
    const std::vector<uint32_t> number = {static_cast<uint32_t>(i)};
    SubGraphDrawer::Draw draw;
    draw.seed_number = seed.seed;
    draw.epoch = seed.epoch;
    draw.seeds = seeds.nodes == nullptr ? absl::MakeConstSpan(number)
                                        : absl::MakeConstSpan(*seeds.nodes).subspan(ends * i, ends);
    if (!seeds.occurrences.empty()) draw.occurrences = {&seeds.occurrences[i], 1};
    if (!seeds.times.empty()) draw.time = seeds.times[i];
    ASSERT_THAT(drawer.Next(draw), IsOk());
    ASSERT_THAT(sizes.Add(drawer.tuple()), IsOk());
    bytes += drawer.num_bytes();
  }
  EXPECT_GT(sizes.num_distinct(), 5U);
  SeedsOfDraws draws;
  PH_ASSERT_OK_AND_ASSIGN(const SizeEstimate estimate,
                          EstimateSizes(source, seeds, seed, num_seeds, Making(), &draws));
  EXPECT_TRUE(estimate.histogram == sizes);
  EXPECT_EQ(estimate.num_seeds, num_seeds);
  EXPECT_EQ(estimate.num_graphs, num_seeds);
  EXPECT_DOUBLE_EQ(estimate.mean_bytes,
                   static_cast<double>(bytes) / static_cast<double>(num_seeds));
  EXPECT_EQ(draws.seeds(), std::vector<uint64_t>(num_seeds, ends));
  // Of fewer, each is one of them.
  PH_ASSERT_OK_AND_ASSIGN(const SizeEstimate fewer,
                          EstimateSizes(source, seeds, seed, num_seeds / 2, Making(), nullptr));
  EXPECT_EQ(fewer.histogram.num_graphs(), num_seeds / 2);
  EXPECT_THAT(sizes.Subtract(fewer.histogram), IsOk());
}

TEST(SizeEstimateTest, IsOfTheSubGraphsThatAreDrawn) {
  SubGraphsRequest request = TwoHopsOf("g");
  SeedList seeds;
  ExpectEstimated(request, seeds);
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < 60; ++i) {
    nodes.push_back(i % 20);
    seeds.occurrences.push_back(i / 20);
  }
  seeds.nodes = std::make_shared<const std::vector<uint32_t>>(nodes);
  ExpectEstimated(request, seeds);
  request.options.edge_time_column = "when";
  for (int64_t i = 0; i < 60; ++i) seeds.times.push_back(i % 11);
  ExpectEstimated(request, seeds);
  request.spec.link_seeds = true;
  request.spec.seed_node_set = "";
  request.options.link_node_set = "n";
  seeds.occurrences.resize(30);
  seeds.times.resize(30);
  ExpectEstimated(request, seeds);
}

TEST(SizeEstimateTest, SeedsThatShareASubGraphAreTogether) {
  SubGraphsRequest request = TwoHopsOf("g");
  request.seeds_per_graph = 4;
  const std::shared_ptr<const SubGraphSource> source = SourceOfTimed(request);
  SeedList seeds;
  seeds.nodes = std::make_shared<const std::vector<uint32_t>>(
      std::vector<uint32_t>{5, 12, 19, 26, 33, 40, 47, 6, 13, 20});
  const auto seeds_of_draws = [&](uint64_t num_graphs) {
    SeedsOfDraws draws;
    const auto estimate = EstimateSizes(source, seeds, {3, 1}, num_graphs, Making(), &draws);
    EXPECT_THAT(estimate, IsOk());
    EXPECT_EQ(estimate->num_seeds, 10U);
    EXPECT_EQ(estimate->num_graphs, 3U);
    EXPECT_EQ(estimate->histogram.num_graphs(), draws.seeds().size());
    return draws.seeds();
  };
  using testing::ElementsAre;
  EXPECT_THAT(seeds_of_draws(9), ElementsAre(4, 4, 2));
  EXPECT_THAT(seeds_of_draws(2), ElementsAre(4, 4));
  EXPECT_THAT(seeds_of_draws(0), ElementsAre());
  seeds.times.assign(3, 5);
  EXPECT_THAT(EstimateSizes(source, seeds, {3, 1}, 2, Making(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("seeds_per_graph")));
}

}  // namespace
}  // namespace packhouse
