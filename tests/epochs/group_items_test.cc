#include "service/engine/epochs/group_items.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

TEST(GroupItemsTest, SumsSizesKeepsOrderAndNamesWhatCannotFit) {
  const std::vector<uint32_t> counts = {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 0, 0};
  const std::vector<uint64_t> ids = {70, 5, 70, 9, 5, 5};
  PH_ASSERT_OK_AND_ASSIGN(
      const GroupItems groups,
      GroupItems::Create(NodesAndEdges(counts), ids, Limits::Create({6, 8, 3}).value()));
  ASSERT_EQ(groups.num_groups(), 2U);
  EXPECT_THAT(groups.group_ids(), ElementsAre(70, 5));
  EXPECT_THAT(groups.sizes().tuple(0), ElementsAre(6, 8, 2));
  EXPECT_THAT(groups.sizes().tuple(1), ElementsAre(4, 5, 3));
  EXPECT_THAT(groups.graphs(0), ElementsAre(0, 2));
  EXPECT_THAT(groups.graphs(1), ElementsAre(1, 4, 5));
  EXPECT_THAT(groups.GraphsOf({1, 0}), ElementsAre(1, 4, 5, 0, 2));
  EXPECT_THAT(groups.rejected(), ElementsAre(GroupRejection{9, 1, 0, 7, 6}));
  EXPECT_THAT(groups.limits().capacities(), ElementsAre(6, 8, 3, kUnlimited));
}

TEST(GroupItemsTest, TooManyGraphsAndSumsBeyondACountAreRejected) {
  const std::vector<uint32_t> counts = {~0U, 1, ~0U, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<uint64_t> ids = {1, 1, 2, 2, 2};
  PH_ASSERT_OK_AND_ASSIGN(
      const GroupItems groups,
      GroupItems::Create(NodesAndEdges(counts), ids, Limits::Create({kUnlimited, 9, 2}).value()));
  EXPECT_EQ(groups.num_groups(), 0U);
  EXPECT_THAT(groups.rejected(), ElementsAre(GroupRejection{1, 2, 0, 2 * uint64_t{~0U}, ~0U},
                                             GroupRejection{2, 3, 2, 3, 2}));
}

TEST(GroupItemsTest, RefusesWhatDoesNotBelongTogether) {
  const std::vector<uint32_t> counts = {1, 1, 1, 1};
  const Limits limits = Limits::Create({6, 6, 6}).value();
  EXPECT_EQ(GroupItems::Create(NodesAndEdges(counts), std::vector<uint64_t>{1}, limits).status(),
            absl::InvalidArgumentError("group_ids: 1 for 2 graphs"));
  EXPECT_EQ(GroupItems::Create(NodesAndEdges(counts), std::vector<uint64_t>{1, 1},
                               Limits::Create({6, 6}).value())
                .status(),
            absl::InvalidArgumentError("limits: of 1 components, graphs have 2"));
  EXPECT_EQ(GroupItems::Create(NodesAndEdges(counts), std::vector<uint64_t>{1, 1}, limits,
                               std::vector<uint32_t>{2})
                .status(),
            absl::InvalidArgumentError("selection: graph 2, the data set has 2 graphs"));
}

// All graphs of groups that cannot fit are counted, and the first groups are listed; those that are
// not selected count in nothing.
TEST(GroupItemsTest, FewAreListedAndAllAreCounted) {
  const std::vector<uint32_t> counts = {9, 0, 9, 0, 1, 0, 9, 0, 9, 0, 2, 0};
  const std::vector<uint64_t> ids = {7, 8, 9, 8, 7, 9};
  const Limits limits = Limits::Create({8, 8, 8}).value();
  PH_ASSERT_OK_AND_ASSIGN(GroupItems groups,
                          GroupItems::Create(NodesAndEdges(counts), ids, limits, std::nullopt, 1));
  EXPECT_THAT(groups.rejected(), ElementsAre(GroupRejection{7, 2, 0, 18, 8}));
  EXPECT_EQ(groups.num_rejected_graphs(), 4U);
  EXPECT_THAT(groups.group_ids(), ElementsAre(9));
  EXPECT_THAT(groups.graphs(0), ElementsAre(2, 5));
  PH_ASSERT_OK_AND_ASSIGN(groups, GroupItems::Create(NodesAndEdges(counts), ids, limits,
                                                     std::vector<uint32_t>{5, 3}, 1));
  EXPECT_THAT(groups.rejected(), ElementsAre(GroupRejection{8, 1, 0, 9, 8}));
  EXPECT_EQ(groups.num_rejected_graphs(), 1U);
  EXPECT_THAT(groups.graphs(0), ElementsAre(5));
}

// An epoch of groups: none is split, inner order is kept, batches keep the limits in graphs, too;
// and where in the data set a group is does not matter.
TEST(GroupItemsTest, EpochsKeepGroupsTogetherWhereverTheyAre) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t n = random.Between(1, 80);
    const std::vector<uint32_t> counts = FewSizes(n, seed);
    std::vector<uint64_t> ids(n);
    for (uint64_t& id : ids) id = random.Below(n / 2 + 1) * 1000;
    const Limits limits = Limits::Create({30, 36, 8}).value();

    const auto epoch_of = [&](const std::vector<uint32_t>& sizes,
                              const std::vector<uint64_t>& group_ids) {
      const GroupItems groups = GroupItems::Create(NodesAndEdges(sizes), group_ids, limits).value();
      const SizeClasses classes = SizeClasses::Create(groups.sizes()).value();
      const PackingPlan plan = QuickPlan(classes, groups.limits());
      const EpochBatches epoch =
          DrawEpoch(classes, absl::MakeConstSpan(&plan.patterns, 1), {seed, 1}, groups.group_ids())
              .value();
      std::vector<std::vector<uint64_t>> batches_of_ids;
      std::set<uint32_t> seen;
      for (const auto& batch : AllBatches(epoch)) {
        std::vector<uint64_t> batch_ids;
        for (const uint32_t group : batch) batch_ids.push_back(groups.group_ids()[group]);
        batches_of_ids.push_back(batch_ids);
        const std::vector<uint32_t> graphs = groups.GraphsOf(batch);
        uint64_t nodes = 0;
        for (size_t i = 0; i < graphs.size(); ++i) {
          nodes += sizes[2 * graphs[i]];
          EXPECT_TRUE(seen.insert(graphs[i]).second);
          if (i > 0 && group_ids[graphs[i]] == group_ids[graphs[i - 1]]) {
            EXPECT_LT(graphs[i - 1], graphs[i]);
          }
        }
        EXPECT_LE(nodes, 30U);
        EXPECT_LE(graphs.size(), 8U);
      }
      uint64_t rejected = 0;
      for (const GroupRejection& rejection : groups.rejected()) rejected += rejection.num_graphs;
      EXPECT_EQ(seen.size() + rejected, n);
      return batches_of_ids;
    };

    // The same graphs in another order.
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    std::vector<uint32_t> other_counts;
    std::vector<uint64_t> other_ids;
    for (const size_t i : order) {
      other_counts.insert(other_counts.end(), {counts[2 * i], counts[2 * i + 1]});
      other_ids.push_back(ids[i]);
    }
    EXPECT_EQ(epoch_of(counts, ids), epoch_of(other_counts, other_ids));
  }
}

}  // namespace
}  // namespace packhouse
