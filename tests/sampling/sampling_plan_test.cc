#include "service/wings/graphs/sampling/sampling_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sampling/sampling_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using tfgnn::SamplingOp;
using tfgnn::SamplingSpec;
using tfgnn::SamplingStrategy;

SourceGraphSchema Library() {
  const auto column = [](std::string name, DType dtype) {
    return SourceColumnSpec{std::move(name), dtype, {}, false, false};
  };
  SourceColumnSpec text = column("title", DType::kUint8);
  text.text = text.ragged = true;
  auto schema = SourceGraphSchema::Create(
      {{"author", {}}, {"paper", {column("year", DType::kInt32), text}}, {"unused", {}}},
      {{"writes", 0, 1, {column("share", DType::kFloat64)}, std::nullopt},
       {"written", 1, 0, {}, 0},
       {"cites", 1, 1, {column("weight", DType::kFloat32), text}, std::nullopt},
       {"unused_cites", 2, 2, {}, std::nullopt}});
  EXPECT_TRUE(schema.ok()) << schema.status();
  return *std::move(schema);
}

std::string Refusal(const SamplingSpec& spec, const SamplingOptions& options = {}) {
  const auto plan = SamplingPlan::Create(Library(), spec, options);
  if (plan.ok()) return "accepted";
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(SamplingPlanTest, SetsAreThoseThatAreTouchedInTheOrderOfTheirNames) {
  const SamplingSpec spec = SpecOf("paper", {UniformOp("w", {"seed"}, "written", 3),
                                             UniformOp("c", {"seed", "seed"}, "cites", 4),
                                             UniformOp("w2", {"c", "seed"}, "written", 5)});
  PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan plan, SamplingPlan::Create(Library(), spec, {}));
  EXPECT_THAT(plan.node_sets(), ElementsAre(0, 1));
  ASSERT_EQ(plan.edge_sets().size(), 2U);
  EXPECT_EQ(plan.edge_sets()[0].edge_set, 2U);
  EXPECT_EQ(plan.edge_sets()[1].edge_set, 1U);
  EXPECT_EQ(plan.edge_sets()[0].num_ops, 1U);
  EXPECT_EQ(plan.edge_sets()[1].num_ops, 2U);
  EXPECT_THAT((std::vector<size_t>{plan.edge_sets()[0].source, plan.edge_sets()[0].target,
                                   plan.edge_sets()[1].source, plan.edge_sets()[1].target}),
              ElementsAre(1, 1, 1, 0));
  EXPECT_FALSE(plan.edge_sets()[0].induced);
  EXPECT_EQ(plan.seed_set(), 1U);
  EXPECT_THAT(plan.ops()[1].inputs, ElementsAre(PlannedOp::kSeeds));
  EXPECT_THAT(plan.ops()[2].inputs, ElementsAre(1, PlannedOp::kSeeds));
}

// Large ones by half, others by a quarter, and then from the last op on.
TEST(SamplingPlanTest, EachLevelTakesLess) {
  for (const int32_t most : {8192, 8194}) {
    const SamplingSpec spec = SpecOf(
        "paper", {UniformOp("a", {"seed"}, "cites", 5), UniformOp("b", {"a"}, "cites", most)});
    PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan plan, SamplingPlan::Create(Library(), spec, {}));
    std::vector<uint32_t> of_a = {5, 3, 2};
    std::vector<uint32_t> of_b = {static_cast<uint32_t>(most)};
    while (of_b.back() > 1) {
      of_b.push_back(of_b.back() > 4096 ? of_b.back() / 2 : std::max(1U, of_b.back() * 3 / 4));
    }
    of_a.resize(of_b.size() + 1, 1);
    of_a.push_back(0);
    of_b.resize(of_b.size() + 2, 0);
    ASSERT_EQ(plan.num_levels(), of_b.size());
    for (uint32_t level = 0; level < plan.num_levels(); ++level) {
      EXPECT_EQ(plan.SampleSize(0, level), of_a[level]) << level;
      EXPECT_EQ(plan.SampleSize(1, level), of_b[level]) << level;
    }
  }
}

TEST(SamplingPlanTest, RefusalsNameTheOp) {
  const auto refusal = [](SamplingOp op) { return Refusal(SpecOf("paper", {std::move(op)})); };
  EXPECT_THAT(refusal(UniformOp("", {"seed"}, "cites", 3)), HasSubstr("op number 0"));
  EXPECT_THAT(refusal(UniformOp("h", {}, "cites", 3)), HasSubstr("op 'h': input_op_names"));
  EXPECT_THAT(refusal(UniformOp("h", {"x"}, "cites", 3)), HasSubstr("op 'h': input_op_names: 'x'"));
  EXPECT_THAT(refusal(UniformOp("h", {"h"}, "cites", 3)), HasSubstr("before it is defined"));
  EXPECT_THAT(refusal(UniformOp("h", {"seed"}, "site", 3)),
              HasSubstr("op 'h': edge_set_name: there is no edge set 'site'"));
  EXPECT_THAT(refusal(UniformOp("h", {"seed"}, "writes", 3)),
              HasSubstr("op 'h': the edges of 'writes' leave nodes of 'author', but the input "
                        "'seed' gives nodes of 'paper'"));
  EXPECT_THAT(refusal(UniformOp("h", {"seed"}, "cites", 0)), HasSubstr("op 'h': sample_size: 0"));
  EXPECT_THAT(refusal(UniformOp("h", {"seed"}, "cites", -3)), HasSubstr("sample_size: -3"));
  EXPECT_THAT(refusal(UniformOp("seed", {"seed"}, "cites", 3)), HasSubstr("op 'seed': op_name"));
  SamplingOp op = UniformOp("h", {"seed"}, "cites", 3);
  op.strategy = SamplingStrategy::kLatestK;
  EXPECT_THAT(refusal(op), HasSubstr("op 'h': strategy: LATEST_K"));
  op.strategy = SamplingStrategy::kTopK;
  EXPECT_EQ(refusal(op), "accepted");
  op.edge_set = "written";
  EXPECT_THAT(refusal(op), HasSubstr("op 'h': strategy: TOP_K needs a column of weights"));
  EXPECT_THAT(Refusal(SpecOf("paper", {UniformOp("h2", {"h1"}, "cites", 3),
                                       UniformOp("h1", {"seed"}, "cites", 3)})),
              HasSubstr("op 'h2': input_op_names: 'h1' is used before it is defined"));
  EXPECT_THAT(Refusal(SpecOf("paper", {UniformOp("h", {"seed"}, "cites", 3),
                                       UniformOp("h", {"seed"}, "cites", 3)})),
              HasSubstr("op 'h': op_name: two ops"));
  EXPECT_THAT(Refusal(SpecOf("book", {})), HasSubstr("op 'seed': node_set_name"));
  SamplingSpec nameless = SpecOf("paper", {});
  nameless.seed_op = "";
  EXPECT_THAT(Refusal(nameless), HasSubstr("the seed op has no op_name"));
}

TEST(SamplingPlanTest, AsManyOpsAsAllowedAreTakenAndNoMore) {
  std::vector<SamplingOp> ops;
  while (ops.size() < SamplingPlan::kMaxOps) {
    ops.push_back(UniformOp("op" + std::to_string(ops.size()), {"seed"}, "cites", 3));
  }
  EXPECT_EQ(Refusal(SpecOf("paper", ops)), "accepted");
  ops.push_back(UniformOp("more", {"seed"}, "cites", 3));
  EXPECT_THAT(Refusal(SpecOf("paper", ops)), HasSubstr("1025 ops, at most 1024"));
}

TEST(SamplingPlanTest, WeightsAreANamedColumn) {
  SamplingOp op = UniformOp("h", {"seed"}, "written", 3);
  op.strategy = SamplingStrategy::kRandomWeighted;
  SamplingOptions options;
  options.weight_column = "share";
  // The reversed set has the columns of the other.
  PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan plan,
                          SamplingPlan::Create(Library(), SpecOf("paper", {op}), options));
  EXPECT_EQ(plan.ops()[0].weight_column, 0U);
  op.edge_set = "cites";
  options.weight_column = "title";
  EXPECT_THAT(Refusal(SpecOf("paper", {op}), options), HasSubstr("is not one integer, float32"));
  options.weight_column = "w";
  EXPECT_THAT(Refusal(SpecOf("paper", {op}), options), EndsWith("has no column 'w'"));
  op.edge_set = "written";
  EXPECT_THAT(Refusal(SpecOf("paper", {op})), EndsWith("has no column 'weight' or '#weight'"));
  const SourceColumnSpec weight = {"weight", DType::kFloat32, {}, false, false};
  SourceColumnSpec hashed = weight;
  hashed.name = "#weight";
  const SourceGraphSchema both =
      *SourceGraphSchema::Create({{"n", {}}}, {{"e", 0, 0, {weight, hashed}, std::nullopt}});
  op.edge_set = "e";
  PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan hashes,
                          SamplingPlan::Create(both, SpecOf("n", {op}), {}));
  EXPECT_EQ(hashes.ops()[0].weight_column, 1U);
}

TEST(SamplingPlanTest, WeightsAndTimesAreOneNumber) {
  for (int dtype = static_cast<int>(DType::kBool); dtype <= static_cast<int>(DType::kFloat64);
       ++dtype) {
    SCOPED_TRACE(dtype);
    const auto type = static_cast<DType>(dtype);
    const bool is_float = type == DType::kFloat32 || type == DType::kFloat64;
    const bool is_time = IsInteger(type) && type != DType::kUint64;
    for (const bool is_one : {true, false}) {
      SourceColumnSpec column = {"x", type, {}, false, false};
      if (!is_one) column.row_shape = {1};
      const SourceGraphSchema schema =
          *SourceGraphSchema::Create({{"n", {column}}}, {{"e", 0, 0, {column}, std::nullopt}});
      SamplingOp op = UniformOp("h", {"seed"}, "e", 3);
      SamplingOptions options;
      options.edge_time_column = "x";
      const auto said = [&] {
        return std::string(
            SamplingPlan::Create(schema, SpecOf("n", {op}), options).status().message());
      };
      const std::string no_time = " is not one integer (not uint64) a row";
      EXPECT_EQ(said(), is_time && is_one ? ""
                                          : "sampling options: edge_time_column: the column 'x' of "
                                            "'e'" +
                                                no_time);
      options = {};
      options.node_time_column = "x";
      EXPECT_EQ(said(), is_time && is_one ? ""
                                          : "sampling options: node_time_column: the column 'x' of "
                                            "'n'" +
                                                no_time);
      options = {};
      options.weight_column = "x";
      op.strategy = SamplingStrategy::kTopK;
      EXPECT_EQ(said(), (IsInteger(type) || is_float) && is_one
                            ? ""
                            : "sampling spec: op 'h': strategy: the column 'x' of the edge set "
                              "'e' is not one integer, float32 or float64 an edge");
    }
  }
}

// What has no times is never late: that must be said, or what is later comes in by silence.
TEST(SamplingPlanTest, SetsWithoutTimesAreNamedOrRefused) {
  const auto column = [](std::string name) {
    return SourceColumnSpec{std::move(name), DType::kInt64, {}, false, false};
  };
  const SourceGraphSchema schema = *SourceGraphSchema::Create(
      {{"user", {column("born")}}, {"item", {}}}, {{"buys", 0, 1, {column("t")}, std::nullopt},
                                                   {"likes", 0, 1, {column("time")}, std::nullopt},
                                                   {"bought", 1, 0, {}, 0}});
  const auto status = [&](std::vector<std::string> edge_sets, auto change) {
    SamplingSpec spec = SpecOf("user", {});
    for (const std::string& set : edge_sets) {
      spec.ops.push_back(UniformOp(set + "-op", {"seed"}, set, 3));
    }
    SamplingOptions options;
    change(options);
    return SamplingPlan::Create(schema, spec, options).status();
  };
  EXPECT_TRUE(status({"buys"}, [](auto& o) { o.edge_time_column = "t"; }).ok());
  const absl::Status refused = status({"buys", "likes"}, [](auto& o) { o.edge_time_column = "t"; });
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("op 'likes-op': the edge set 'likes' has no column 't'"),
                    HasSubstr("untimed_sets")));
  const auto untimed = [](std::string time, std::vector<std::string> sets) {
    return [time, sets](auto& o) {
      o.edge_time_column = time;
      o.untimed_sets = sets;
    };
  };
  EXPECT_TRUE(status({"buys", "likes"}, untimed("t", {"likes"})).ok());
  EXPECT_THAT(status({"buys"}, untimed("t", {"buys"})).message(), HasSubstr("has the column 't'"));
  EXPECT_THAT(status({"buys"}, untimed("t", {"sells"})).message(),
              HasSubstr("untimed_sets: there is no edge set 'sells'"));
  EXPECT_THAT(status({"buys"}, untimed("", {"buys"})).message(),
              HasSubstr("there is no time column"));
  // Induced edges, and nodes that edges lead to, are under the same law.
  EXPECT_THAT(status({"buys"},
                     [](auto& o) {
                       o.edge_time_column = "t";
                       o.induced = true;
                       o.induced_edge_sets = {"likes"};
                     })
                  .message(),
              HasSubstr("induced edge set 'likes'"));
  EXPECT_THAT(status({"buys"}, [](auto& o) { o.node_time_column = "born"; }).message(),
              HasSubstr("the node set 'item' has no column 'born'"));
  EXPECT_TRUE(status({"buys"}, [](auto& o) {
                o.node_time_column = "born";
                o.untimed_sets = {"item"};
              }).ok());
}

TEST(SamplingPlanTest, LinksMayJoinTwoSets) {
  const SourceGraphSchema schema = *SourceGraphSchema::Create(
      {{"user", {}}, {"item", {}}}, {{"buys", 0, 1, {}, std::nullopt},
                                     {"bought", 1, 0, {}, 0},
                                     {"returned_by", 1, 0, {}, std::nullopt},
                                     {"like", 1, 1, {}, std::nullopt}});
  SamplingSpec spec =
      SpecOf("", {UniformOp("a", {"seed"}, "buys", 3), UniformOp("b", {"seed"}, "bought", 3),
                  UniformOp("c", {"seed"}, "returned_by", 3)});
  spec.link_seeds = true;
  SamplingOptions options;
  options.link_edge_set = "buys";
  options.exclude = ExcludeLinks::kReverseTypes;
  options.reverse_edge_sets = {"returned_by"};
  PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan plan, SamplingPlan::Create(schema, spec, options));
  // Sets are in the order of their names: item, user; bought, buys, returned_by.
  EXPECT_EQ(plan.seed_set(0), 1U);
  EXPECT_EQ(plan.seed_set(1), 0U);
  ASSERT_EQ(plan.excluded().size(), 3U);
  EXPECT_EQ(plan.excluded()[0].edge_set, 1U);
  EXPECT_FALSE(plan.excluded()[0].reversed);
  EXPECT_EQ(plan.excluded()[1].edge_set, 0U);
  EXPECT_TRUE(plan.excluded()[1].reversed);
  EXPECT_EQ(plan.excluded()[2].edge_set, 2U);
  EXPECT_TRUE(plan.excluded()[2].reversed);
  const auto refusal = [&](auto change) {
    SamplingOptions changed = options;
    change(changed);
    const absl::Status status = SamplingPlan::Create(schema, spec, changed).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](auto& o) { o.link_edge_set = "sells"; }),
              HasSubstr("no edge set 'sells'"));
  EXPECT_THAT(refusal([](auto& o) { o.link_node_set = "user"; }), HasSubstr("link_node_set too"));
  EXPECT_THAT(refusal([](auto& o) { o.reverse_edge_sets = {"like"}; }),
              HasSubstr("does not lead from 'item' to 'user'"));
  EXPECT_THAT(refusal([](auto& o) { o.exclude = ExcludeLinks::kSelf; }),
              HasSubstr("reverse_edge_sets"));
  EXPECT_THAT(refusal([](auto& o) {
                o.link_edge_set = "";
                o.link_node_set = "user";
              }),
              HasSubstr("give link_edge_set"));
  EXPECT_THAT(refusal([](auto& o) { o.time_window = 3; }), HasSubstr("time_window"));
  EXPECT_THAT(refusal([](auto& o) {
                o = {};
                o.link_node_set = "shop";
              }),
              HasSubstr("link_node_set: there is no node set 'shop'"));
  // The reverse of a reverse is what is stored.
  spec.ops.pop_back();
  SamplingOptions reverse;
  reverse.link_edge_set = "bought";
  reverse.exclude = ExcludeLinks::kReverseTypes;
  PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan bought, SamplingPlan::Create(schema, spec, reverse));
  ASSERT_EQ(bought.excluded().size(), 2U);
  EXPECT_EQ(bought.excluded()[0].edge_set, 0U);
  EXPECT_FALSE(bought.excluded()[0].reversed);
  EXPECT_EQ(bought.excluded()[1].edge_set, 1U);
  EXPECT_TRUE(bought.excluded()[1].reversed);
  spec.ops.push_back(UniformOp("d", {"b"}, "like", 3));
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("the edges of 'like' leave nodes of 'item'"));
}

TEST(SamplingPlanTest, OptionsAreChecked) {
  const SamplingSpec spec = SpecOf("paper", {UniformOp("h", {"seed"}, "cites", 3)});
  const auto refusal = [&](auto change) {
    SamplingOptions options;
    change(options);
    return Refusal(spec, options);
  };
  EXPECT_THAT(refusal([](auto& o) { o.induced_edge_sets = {"cites"}; }), HasSubstr("`induced`"));
  EXPECT_THAT(refusal([](auto& o) {
                o.induced = true;
                o.induced_edge_sets = {"sites"};
              }),
              HasSubstr("no edge set 'sites'"));
  EXPECT_THAT(refusal([](auto& o) { o.node_time_column = "month"; }),
              HasSubstr("no node set has a column 'month'"));
  EXPECT_THAT(refusal([](auto& o) { o.node_time_column = "title"; }), HasSubstr("not one integer"));
  EXPECT_THAT(refusal([](auto& o) { o.edge_time_column = "month"; }),
              HasSubstr("no edge set has a column 'month'"));
  EXPECT_THAT(refusal([](auto& o) { o.edge_time_column = "weight"; }),
              HasSubstr("not one integer"));
  EXPECT_THAT(refusal([](auto& o) { o.node_time_column = o.edge_time_column = "year"; }),
              HasSubstr("node_time_column too"));
  EXPECT_THAT(refusal([](auto& o) { o.latest = true; }), HasSubstr("latest"));
  EXPECT_THAT(refusal([](auto& o) { o.link_node_set = "paper"; }),
              HasSubstr("link_node_set: the seeds are no links"));
  EXPECT_THAT(refusal([](auto& o) { o.link_edge_set = "cites"; }),
              HasSubstr("link_edge_set: the seeds are no links"));
  EXPECT_THAT(refusal([](auto& o) { o.exclude = ExcludeLinks::kSelf; }),
              HasSubstr("exclude: which edges the links are is not known"));
  EXPECT_THAT(refusal([](auto& o) {
                o.readout_columns = {{"label", DType::kInt64, {}}};
              }),
              HasSubstr("readout_columns"));
  EXPECT_THAT(refusal([](auto& o) {
                o.readout = true;
                o.readout_columns = {{"label", DType::kInt64, {}, true, false}};
              }),
              HasSubstr("'label' is ragged"));
}

TEST(SamplingPlanTest, LinkSeedsFindTheirSetInTheSchema) {
  const auto schema = [](size_t source_of_target, bool has_target) {
    std::vector<SourceEdgeSetSpec> edge_sets = {{"e", 0, 0, {}, std::nullopt},
                                                {"_readout/source", 0, 2, {}, std::nullopt}};
    if (has_target) {
      edge_sets.push_back({"_readout/target", source_of_target, 2, {}, std::nullopt});
    }
    auto created = SourceGraphSchema::Create(
        {{"a", {}}, {"b", {}}, {"_readout", {{"label", DType::kInt64, {}, false, false}}}},
        std::move(edge_sets));
    EXPECT_TRUE(created.ok()) << created.status();
    return *std::move(created);
  };
  SamplingSpec spec = SpecOf("", {UniformOp("h", {"seed"}, "e", 3)});
  spec.link_seeds = true;
  PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan plan, SamplingPlan::Create(schema(0, true), spec, {}));
  EXPECT_EQ(plan.seeds_per_row(), 2U);
  EXPECT_EQ(plan.readout_columns().size(), 1U);
  EXPECT_EQ(plan.seed_set(0), plan.seed_set(1));
  // The two ends may be of two sets; what begins at neither is refused.
  PH_ASSERT_OK_AND_ASSIGN(const SamplingPlan two, SamplingPlan::Create(schema(1, true), spec, {}));
  EXPECT_EQ(two.seed_set(0), 0U);
  EXPECT_EQ(two.seed_set(1), 1U);
  EXPECT_THAT(SamplingPlan::Create(schema(0, false), spec, {}).status().message(),
              HasSubstr("op 'seed': the schema has no edge set '_readout/target'"));
  const SourceGraphSchema elsewhere = *SourceGraphSchema::Create(
      {{"a", {}}},
      {{"_readout/source", 0, 0, {}, std::nullopt}, {"_readout/target", 0, 0, {}, std::nullopt}});
  EXPECT_THAT(SamplingPlan::Create(elsewhere, spec, {}).status().message(),
              HasSubstr("the edge set '_readout/source' leads to 'a', not to '_readout'"));
}

}  // namespace
}  // namespace packhouse
