#include "service/wings/tfgnn/size_constraints.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tfgnn/golden_files.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::HasSubstr;

// The sizes of the graphs of examples/NAME.json.
std::vector<uint32_t> GoldenSizes(const std::string& name, const GraphSets& sets) {
  std::vector<uint32_t> counts;
  const Json graphs = GoldenJson("examples/" + name + ".json")["graphs"];
  for (const Json& item : graphs) {
    std::vector<uint32_t> tuple(sets.schema().num_components());
    const auto add = [&](const char* kind, const RowSet& set) {
      tuple[set.component] = item["graph"][kind][set.name]["sizes"][0].get<uint32_t>();
    };
    for (const RowSet& set : sets.node_sets()) add("node_sets", set);
    for (const EdgeSet& set : sets.edge_sets()) add("edge_sets", set);
    counts.insert(counts.end(), tuple.begin(), tuple.end());
  }
  return counts;
}

SizeConstraints ConstraintsOf(const Json& golden, const GraphSets& sets) {
  SizeConstraints constraints;
  constraints.total_graphs = golden["total_num_components"].get<uint64_t>();
  for (const RowSet& set : sets.node_sets()) {
    constraints.total_nodes.push_back(golden["total_num_nodes"][set.name].get<uint64_t>());
  }
  for (const EdgeSet& set : sets.edge_sets()) {
    constraints.total_edges.push_back(golden["total_num_edges"][set.name].get<uint64_t>());
  }
  return constraints;
}

TEST(FindTightSizeConstraintsTest, FindsWhatTheLibraryFinds) {
  PH_SKIP_WITHOUT_GOLDENS();
  size_t seen = 0;
  const Json cases = GoldenJson("padding/size_constraints.json")["cases"];
  for (const Json& item : cases) {
    if (item.contains("already_batched_by")) continue;
    SCOPED_TRACE(item.dump());
    const std::string name = item["examples"].get<std::string>();
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets,
                            GraphSets::FromTfgnnFile(GoldenBytes("schemas/" + name + ".pbtxt")));
    const std::vector<uint32_t> counts = GoldenSizes(name, sets);
    const size_t l = sets.schema().num_components();
    PH_ASSERT_OK_AND_ASSIGN(const SizesView sizes, SizesView::Create(counts.size() / l, l, counts));
    std::vector<uint64_t> min_nodes;
    for (const RowSet& set : sets.node_sets()) {
      min_nodes.push_back(item["min_nodes_per_component"].value(set.name, uint64_t{0}));
    }
    const uint64_t batch_size =
        item["target_batch_size"].is_null() ? 1 : item["target_batch_size"].get<uint64_t>();
    PH_ASSERT_OK_AND_ASSIGN(const SizeConstraints found,
                            FindTightSizeConstraints(sets, sizes, batch_size, min_nodes));
    EXPECT_EQ(found, ConstraintsOf(item["find_tight_size_constraints"], sets));
    ++seen;
  }
  EXPECT_GE(seen, 16U);
}

// The library draws at random, too: totals agree within a tenth, or within three rows.
TEST(LearnFitOrSkipSizeConstraintsTest, IsNearWhatTheLibraryLearns) {
  PH_SKIP_WITHOUT_GOLDENS();
  const Json cases = GoldenJson("padding/size_constraints.json")["learn_fit_or_skip_is_random"];
  for (const Json& item : cases) {
    SCOPED_TRACE(item.dump());
    const std::string name = item["examples"].get<std::string>();
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets,
                            GraphSets::FromTfgnnFile(GoldenBytes("schemas/" + name + ".pbtxt")));
    const std::vector<uint32_t> counts = GoldenSizes(name, sets);
    const size_t l = sets.schema().num_components();
    PH_ASSERT_OK_AND_ASSIGN(const SizesView sizes, SizesView::Create(counts.size() / l, l, counts));
    LearnOptions options;
    options.batch_size = item["batch_size"].get<uint64_t>();
    options.success_ratio = item["success_ratio"].get<double>();
    options.sample_size = item["sample_size"].get<uint64_t>();
    options.num_thresholds = item["num_thresholds"].get<uint64_t>();
    SeededRandom random(1);
    PH_ASSERT_OK_AND_ASSIGN(const SizeConstraints learned,
                            LearnFitOrSkipSizeConstraints(sets, sizes, options, random));
    const SizeConstraints expected = ConstraintsOf(item["constraints"], sets);
    EXPECT_EQ(learned.total_graphs, expected.total_graphs);
    // The extremes of a sample vary most.
    if (options.success_ratio == 0.0) continue;
    const auto near = [](const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
      for (size_t s = 0; s < a.size(); ++s) {
        const double x = static_cast<double>(a[s]);
        const double y = static_cast<double>(b[s]);
        EXPECT_NEAR(x, y, std::max(3.0, 0.1 * y));
      }
    };
    near(learned.total_nodes, expected.total_nodes);
    near(learned.total_edges, expected.total_edges);
  }
}

TEST(LearnFitOrSkipSizeConstraintsTest, SoManyRandomBatchesFit) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(R"(
      node_sets { key: "a" value { } }
      edge_sets { key: "e" value { source: "a" target: "a" } })"));
  std::vector<uint32_t> counts;
  SeededRandom random(5);
  for (int i = 0; i < 1000; ++i) {
    counts.push_back(static_cast<uint32_t>(random.Below(50)));
    counts.push_back(static_cast<uint32_t>(random.Below(500)));
  }
  PH_ASSERT_OK_AND_ASSIGN(const SizesView sizes, SizesView::Create(1000, 2, counts));
  LearnOptions options;
  options.batch_size = 8;
  options.sample_size = 5000;
  uint64_t before = 0;
  for (const double ratio : {0.2, 0.5, 0.9, 1.0}) {
    options.success_ratio = ratio;
    PH_ASSERT_OK_AND_ASSIGN(const SizeConstraints learned,
                            LearnFitOrSkipSizeConstraints(sets, sizes, options, random));
    EXPECT_EQ(learned.total_graphs, 9U);
    EXPECT_GE(learned.total_edges[0], before);
    before = learned.total_edges[0];
    int fitting = 0;
    for (int batch = 0; batch < 5000; ++batch) {
      uint64_t nodes = 1;
      uint64_t edges = 0;
      for (int j = 0; j < 8; ++j) {
        const uint64_t graph = random.Below(1000);
        nodes += counts[2 * graph];
        edges += counts[2 * graph + 1];
      }
      fitting += nodes <= learned.total_nodes[0] && edges <= learned.total_edges[0] ? 1 : 0;
    }
    EXPECT_NEAR(fitting / 5000.0, ratio, 0.03);
  }
  for (const double ratio : {-0.1, 1.1, std::nan("")}) {
    options.success_ratio = ratio;
    EXPECT_THAT(LearnFitOrSkipSizeConstraints(sets, sizes, options, random),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("success_ratio")));
  }
  EXPECT_THAT(FindTightSizeConstraints(sets, sizes, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch_size 0")));
}

// Room for padding: a node where edges could begin or end, or what is asked for.
TEST(FindTightSizeConstraintsTest, EachTotalIsSoManyTimesTheLargestAndRoom) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(R"(
      node_sets { key: "a" value { } }
      node_sets { key: "b" value { } }
      node_sets { key: "c" value { } }
      edge_sets { key: "e" value { source: "a" target: "b" } })"));
  const size_t l = sets.schema().num_components();
  const auto graphs = [&](const std::vector<std::vector<uint32_t>>& rows) {
    std::vector<uint32_t> counts(rows.size() * l, 0);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t s = 0; s < 3; ++s) counts[i * l + sets.node_sets()[s].component] = rows[i][s];
      counts[i * l + sets.edge_sets()[0].component] = rows[i][3];
    }
    return counts;
  };
  const std::vector<uint32_t> some = graphs({{3, 7, 1, 5}, {4, 2, 6, 0}});
  const SizesView sizes = SizesView::Create(2, l, some).value();
  using Nodes = std::vector<uint64_t>;
  for (const auto& [least, nodes] :
       std::vector<std::pair<Nodes, Nodes>>{{{}, {8 + 1, 14 + 1, 12}},
                                            {{0, 3}, {8 + 1, 14 + 3, 12}},
                                            {{2, 0, 5}, {8 + 2, 14 + 1, 12 + 5}},
                                            {{0, 0, 0, 9}, {8 + 1, 14 + 1, 12}}}) {
    EXPECT_THAT(FindTightSizeConstraints(sets, sizes, 2, least),
                IsOkAndHolds(SizeConstraints{3, nodes, {10}}));
  }
  // Up to the largest total.
  const std::vector<uint32_t> large = graphs({{1, 1, ~uint32_t{0}, 1}});
  const SizesView one = SizesView::Create(1, l, large).value();
  constexpr uint64_t kBatch = uint64_t{1} << 31;
  PH_ASSERT_OK_AND_ASSIGN(const SizeConstraints most,
                          FindTightSizeConstraints(sets, one, kBatch, {0, 0, kBatch - 1}));
  EXPECT_EQ(most.total_nodes[2], (uint64_t{1} << 63) - 1);
  const auto refused = [](absl::string_view what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(what)));
  };
  for (const uint64_t least : {kBatch, ~uint64_t{0}}) {
    EXPECT_THAT(FindTightSizeConstraints(sets, one, kBatch, {0, 0, least}),
                refused("a total exceeds 9223372036854775807"));
  }
  EXPECT_THAT(FindTightSizeConstraints(sets, one, kBatch + 1),
              refused("is not in [1, 2147483648]"));
  const SizesView none = SizesView::Create(0, l, {}).value();
  EXPECT_THAT(FindTightSizeConstraints(sets, none, 1), refused("there is no graph"));
  // Graphs that are all alike leave nothing to learn.
  SeededRandom random(1);
  LearnOptions options;
  options.sample_size = 10;
  options.batch_size = 3;
  for (const double ratio : {0.0, 1.0}) {
    options.success_ratio = ratio;
    const std::vector<uint32_t> alike = graphs({{3, 7, 1, 5}, {3, 7, 1, 5}});
    EXPECT_THAT(LearnFitOrSkipSizeConstraints(sets, SizesView::Create(2, l, alike).value(), options,
                                              random),
                IsOkAndHolds(SizeConstraints{4, {9 + 1, 21 + 1, 3}, {15}}));
  }
  EXPECT_THAT(LearnFitOrSkipSizeConstraints(sets, none, options, random),
              refused("there is no graph"));
  options.sample_size = 0;
  EXPECT_THAT(LearnFitOrSkipSizeConstraints(sets, one, options, random), refused("sample_size is"));
  options.sample_size = 10;
  options.num_thresholds = 0;
  EXPECT_THAT(LearnFitOrSkipSizeConstraints(sets, one, options, random),
              refused("num_thresholds is 0"));
  options.num_thresholds = 1;
  options.batch_size = 0;
  EXPECT_THAT(LearnFitOrSkipSizeConstraints(sets, one, options, random), refused("batch_size 0"));
}

}  // namespace
}  // namespace packhouse::tfgnn
