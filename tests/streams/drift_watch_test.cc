#include "service/engine/streams/drift_watch.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/streams/drift_judgement.h"
#include "tests/streams/profile_worlds.h"

namespace packhouse {
namespace {

// Graphs of `low` to `high` nodes and `ratio` times as many edges.
std::vector<uint32_t> DrawnSizes(Random& random, size_t graphs, uint32_t low, uint32_t high,
                                 uint32_t ratio) {
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < graphs; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(low, high));
    counts.insert(counts.end(), {nodes, ratio * nodes});
  }
  return counts;
}

SizeHistogram CountedSizes(const std::vector<uint32_t>& counts) {
  SizeHistogram histogram(2);
  EXPECT_THAT(histogram.AddTable(SizesView::Create(counts.size() / 2, 2, counts).value()), IsOk());
  return histogram;
}

// The changes that a watch finds if the sizes come in chunks of `at_once`.
std::vector<SizeChange> ChangesIn(const std::vector<uint32_t>& counts, size_t at_once) {
  DriftWatch watch(2, 500, std::nullopt);
  std::vector<SizeChange> changes;
  const size_t graphs = counts.size() / 2;
  for (size_t begin = 0; begin < graphs; begin += at_once) {
    const size_t n = std::min(at_once, graphs - begin);
    const auto chunk = absl::MakeConstSpan(counts).subspan(2 * begin, 2 * n);
    EXPECT_THAT(watch.Observe(SizesView::Create(n, 2, chunk).value()), IsOk());
    while (watch.has_change()) changes.push_back(watch.TakeChange());
  }
  return changes;
}

TEST(DriftWatchTest, WhatIsFoundDoesNotDependOnTheChunks) {
  Random random(1);
  std::vector<uint32_t> counts = DrawnSizes(random, 3000, 10, 30, 2);
  for (const uint32_t low : {20U, 5U}) {
    const std::vector<uint32_t> more = DrawnSizes(random, 6000, low, low + 20, 2);
    counts.insert(counts.end(), more.begin(), more.end());
  }
  const std::vector<SizeChange> whole = ChangesIn(counts, counts.size());
  ASSERT_EQ(whole.size(), 2U);
  EXPECT_EQ(whole[0].graphs.num_graphs(), 500U);
  EXPECT_GE(whole[0].found_graph, 3000U);
  EXPECT_LE(whole[0].found_graph, 3500U);
  EXPECT_LE(whole[0].first_graph, whole[0].found_graph);
  EXPECT_EQ(whole[0].end_graph, whole[0].found_graph + 501);
  EXPECT_GE(whole[1].found_graph, 9000U);
  for (const size_t at_once : {size_t{1}, size_t{997}}) {
    const std::vector<SizeChange> parts = ChangesIn(counts, at_once);
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(parts[i].first_graph, whole[i].first_graph);
      EXPECT_EQ(parts[i].found_graph, whole[i].found_graph);
      EXPECT_EQ(parts[i].end_graph, whole[i].end_graph);
      EXPECT_EQ(parts[i].graphs, whole[i].graphs);
    }
  }
}

// Kinds that take turns are judged a few times, and not at every turn.
TEST(DriftWatchTest, SizesInSomeOrderAreJudgedRarely) {
  Random random(2);
  std::vector<uint32_t> counts;
  for (int turn = 0; turn < 100; ++turn) {
    const uint32_t low = turn % 2 == 0 ? 10 : 100;
    const std::vector<uint32_t> more = DrawnSizes(random, 2000, low, 2 * low, 2);
    counts.insert(counts.end(), more.begin(), more.end());
  }
  EXPECT_LE(ChangesIn(counts, 1000).size(), 5U);
}

TEST(DriftWatchTest, GraphsThatNoLimitsTakeCountInNothing) {
  DeviceProfile profile;
  profile.components = {{.max_rows = 50}, {.max_rows = 500}, {.max_rows = 0, .relative_cost = 0}};
  DriftWatch watch(2, 500, profile);
  Random random(3);
  const SizeHistogram reference = CountedSizes(DrawnSizes(random, 1000, 10, 60, 2));
  PH_ASSERT_OK_AND_ASSIGN(DriftReference known, DriftReferenceOf(reference, &profile));
  EXPECT_EQ(known.sample.maximum(0), 50U);
  EXPECT_LT(known.means[0], 31);
  watch.SetReference(std::move(known), 0);
  // Most are too large for the profile; the others are as before.
  std::vector<uint32_t> counts;
  for (int i = 0; i < 3000; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(10, 500));
    counts.insert(counts.end(), {nodes, 2 * nodes});
  }
  ASSERT_THAT(watch.Observe(SizesView::Create(3000, 2, counts).value()), IsOk());
  EXPECT_FALSE(watch.has_change());
}

TEST(ThinnedOutTest, KeepsTheSharesOfSizes) {
  SizeHistogram histogram(1);
  for (const auto& [size, count] : {std::pair{1U, 3000U}, {2U, 6000U}, {3U, 1000U}}) {
    ASSERT_THAT(histogram.Add({size}, count), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram thinned, ThinnedOut(histogram, 100));
  EXPECT_EQ(thinned.CountOf({1}), 30U);
  EXPECT_EQ(thinned.CountOf({2}), 60U);
  EXPECT_EQ(thinned.CountOf({3}), 10U);
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram all, ThinnedOut(histogram, 20'000));
  EXPECT_EQ(all, histogram);
  EXPECT_EQ(MeanRows(histogram)[0], 1.8);
}

TEST(ProfileWithinTest, LeavesAChoiceBelowEachLimit) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  BatchShapeOptions batches;
  batches.whole_graphs = false;
  PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile profile,
                          ProfileWithin({64, 4096, kUnlimited}, schema, batches));
  EXPECT_EQ(profile.components[0].max_rows, 64U);
  EXPECT_EQ(profile.components[0].multiple_of, 4U);
  EXPECT_EQ(profile.components[1].multiple_of, 128U);
  PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile odd, ProfileWithin({7, 1000, 9}, schema, batches));
  EXPECT_EQ(odd.components[0].multiple_of, 1U);
  EXPECT_EQ(odd.components[1].multiple_of, 8U);
  EXPECT_EQ(odd.components[2].max_rows, 9U);
}

class DriftJudgementTest : public ::testing::Test {
 protected:
  DriftJudgementTest() {
    search_.shapes.batches.whole_graphs = false;
    search_.shapes.batches.padding = Padding::kMasked;
    search_.min_loss = 0.02;
    const std::vector<uint64_t> limits = {1024, 2048, 128};
    search_.present.push_back(
        {BatchShape::Resolve(*schema_, limits, search_.shapes.batches).value(), limits});
    search_.profile = ProfileWithin(limits, *schema_, search_.shapes.batches).value();
  }

  absl::StatusOr<DriftJudgement> Judge(const std::vector<uint32_t>& reference,
                                       const std::vector<uint32_t>& recent) {
    return JudgeDrift(CountedSizes(reference), CountedSizes(recent), *schema_, search_);
  }

  Random random_{4};
  const std::shared_ptr<const GraphSchema> schema_ = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  DriftSearch search_;
};

TEST_F(DriftJudgementTest, TheSameSizesLoseNothing) {
  PH_ASSERT_OK_AND_ASSIGN(
      const DriftJudgement judgement,
      Judge(DrawnSizes(random_, 2000, 10, 30, 2), DrawnSizes(random_, 2000, 10, 30, 2)));
  EXPECT_LT(judgement.LossByChange(), 0.01);
  EXPECT_EQ(judgement.look_ahead, search_.shapes.packing.look_ahead);
}

// Half as many edges a node: half of the edges' capacity is empty, a quarter of all rows and more.
TEST_F(DriftJudgementTest, ALossIsMeasuredAndOtherLimitsAreOffered) {
  PH_ASSERT_OK_AND_ASSIGN(
      const DriftJudgement judgement,
      Judge(DrawnSizes(random_, 2000, 10, 30, 2), DrawnSizes(random_, 2000, 10, 30, 1)));
  EXPECT_GT(judgement.loss, 0.25);
  EXPECT_LT(judgement.loss, 0.4);
  EXPECT_GT(judgement.LossByChange(), 0.25);
  ASSERT_TRUE(judgement.offered);
  const std::vector<uint64_t>& offered = judgement.offered->shapes[0].requested;
  EXPECT_LE(offered[0], 1024U);
  EXPECT_LT(offered[1], 1200U);
  EXPECT_EQ(offered[1] % 128, 0U);
  EXPECT_GT(judgement.reference_efficiencies[1], 0.95);
  EXPECT_LT(judgement.present_efficiencies[1], 0.55);
  EXPECT_GT(judgement.offered_efficiencies[1], 0.9);
}

// Graphs of which few go together when they are packed as they come: to look further ahead helps.
TEST_F(DriftJudgementTest, ALargerLookAheadIsOfferedWhereItHelps) {
  search_.shapes.packing.look_ahead = 1;
  const std::vector<uint32_t> halves = DrawnSizes(random_, 2000, 480, 512, 1);
  std::vector<uint32_t> mixed;
  for (int i = 0; i < 2000; ++i) {
    const auto nodes = static_cast<uint32_t>(random_.Below(2) == 0 ? 700 : 320);
    mixed.insert(mixed.end(), {nodes, nodes});
  }
  PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement judgement, Judge(halves, mixed));
  EXPECT_EQ(judgement.look_ahead, 4U);
  EXPECT_GT(judgement.loss, search_.min_loss);
  EXPECT_GT(judgement.offered_efficiencies[0], judgement.present_efficiencies[0] + 0.02);
  // It would have helped before, too: this is no drift.
  PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement as_before, Judge(mixed, mixed));
  EXPECT_EQ(as_before.look_ahead, 1U);
  EXPECT_LT(as_before.LossByChange(), 0.01);
}

// Of a stream that is packed without limits to choose, nothing is lost.
TEST_F(DriftJudgementTest, WithoutAProfileNothingIsJudged) {
  search_.profile.reset();
  PH_ASSERT_OK_AND_ASSIGN(
      const DriftJudgement judgement,
      Judge(DrawnSizes(random_, 20, 10, 30, 2), DrawnSizes(random_, 20, 10, 30, 1)));
  EXPECT_EQ(judgement.loss, 0);
  EXPECT_FALSE(judgement.offered);
  EXPECT_EQ(judgement.look_ahead, search_.shapes.packing.look_ahead);
  const std::vector<double> full = {1, 1, 1};
  EXPECT_EQ(judgement.reference_efficiencies, full);
  EXPECT_EQ(judgement.present_efficiencies, full);
  EXPECT_EQ(judgement.offered_efficiencies, full);
}

// Whichever question is answered "the caller is gone": that is what is told.
TEST_F(DriftJudgementTest, AtEachQuestionTheJudgementIsGivenUp) {
  search_.shapes.packing.look_ahead = 1;
  search_.min_loss = 0;
  const std::vector<uint32_t> reference = DrawnSizes(random_, 100, 480, 512, 1);
  const std::vector<uint32_t> recent = DrawnSizes(random_, 100, 200, 700, 1);
  uint64_t questions = 0;
  uint64_t gone_at = UINT64_MAX;
  search_.shapes.is_cancelled = [&] { return questions++ == gone_at; };
  PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement judgement, Judge(reference, recent));
  EXPECT_EQ(judgement.look_ahead, 4U);
  const uint64_t all = questions;
  EXPECT_GE(all, 8U);
  // Few of those that searches for shapes ask one after another.
  for (gone_at = 0; gone_at < all; gone_at += gone_at + 8 < all ? 7 : 1) {
    SCOPED_TRACE(testing::Message() << gone_at << " of " << all);
    questions = 0;
    EXPECT_THAT(
        Judge(reference, recent).status(),
        StatusIs(absl::StatusCode::kCancelled, testing::EndsWith(": given up by the caller")));
    EXPECT_EQ(questions, gone_at + 1);
  }
}

// No limits take any graph: there is nothing to compare, and nothing to offer.
TEST_F(DriftJudgementTest, WhereNoGraphFitsNothingIsLost) {
  const std::vector<uint32_t> huge = {5000, 5000, 6000, 6000};
  const std::vector<uint32_t> fitting = DrawnSizes(random_, 500, 10, 30, 1);
  const std::vector<double> full = {1, 1, 1};
  for (const bool before : {false, true}) {
    PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement judgement,
                            before ? Judge(huge, fitting) : Judge(huge, huge));
    EXPECT_EQ(judgement.reference_loss, 0);
    EXPECT_EQ(judgement.reference_efficiencies, full);
    EXPECT_EQ(judgement.offered.has_value(), before);
    if (before) continue;
    EXPECT_EQ(judgement.loss, 0);
    EXPECT_EQ(judgement.present_efficiencies, full);
    EXPECT_EQ(judgement.offered_efficiencies, full);
    EXPECT_EQ(judgement.look_ahead, search_.shapes.packing.look_ahead);
  }
}

// The largest look-ahead is not raised, and one near it is raised to it.
TEST_F(DriftJudgementTest, ALookAheadHasABound) {
  search_.min_loss = 0;
  const std::vector<uint32_t> sizes = DrawnSizes(random_, 200, 100, 700, 1);
  for (const size_t look_ahead :
       {OnlinePackerOptions::kMaxLookAhead, OnlinePackerOptions::kMaxLookAhead / 2}) {
    search_.shapes.packing.look_ahead = look_ahead;
    PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement judgement, Judge(sizes, sizes));
    EXPECT_EQ(judgement.look_ahead, OnlinePackerOptions::kMaxLookAhead);
  }
}

// Each pack counts with the last of the shapes that takes it, and what has no limit counts nowhere.
TEST_F(DriftJudgementTest, EachPackIsOfTheSmallestShapeThatTakesIt) {
  // Packs of one graph: the half of them has the smaller shape.
  std::vector<uint32_t> sizes;
  for (int i = 0; i < 400; ++i) {
    sizes.insert(sizes.end(), {900, 900});
    sizes.insert(sizes.end(), {400, 1200});
  }
  search_.shapes.packing.look_ahead = OnlinePackerOptions::kMaxLookAhead;
  search_.profile->max_distinct_shapes = 1;
  PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement one, Judge(sizes, sizes));
  const std::vector<uint64_t> smaller = {1000, 1024, 2};
  search_.present.push_back(
      {BatchShape::Resolve(*schema_, smaller, search_.shapes.batches).value(), smaller, 0.5});
  PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement two, Judge(sizes, sizes));
  std::string told;
  for (const DriftJudgement* const judgement : {&one, &two}) {
    for (const double efficiency : judgement->present_efficiencies) {
      absl::StrAppendFormat(&told, " %.3f", efficiency);
    }
    absl::StrAppendFormat(&told, " %.3f;", judgement->loss);
  }
  EXPECT_EQ(told, " 0.670 0.502 0.008 0.271; 0.679 0.704 0.018 0.094;");

  // Without padding, nodes alone have a limit.
  search_.shapes.batches.padding = Padding::kNone;
  const std::vector<uint64_t> nodes = {1024, kUnlimited, kUnlimited};
  search_.present = {{BatchShape::Resolve(*schema_, nodes, search_.shapes.batches).value(), nodes}};
  search_.profile = ProfileWithin(nodes, *schema_, search_.shapes.batches).value();
  PH_ASSERT_OK_AND_ASSIGN(const DriftJudgement ragged, Judge(sizes, sizes));
  told.clear();
  for (const double efficiency : ragged.present_efficiencies) {
    absl::StrAppendFormat(&told, " %.3f", efficiency);
  }
  EXPECT_EQ(told, " 0.852 1.000 1.000");
}

// The limits were bad from the beginning: this is no drift.
TEST_F(DriftJudgementTest, WhatTheLimitsLostBeforeDoesNotCount) {
  PH_ASSERT_OK_AND_ASSIGN(
      const DriftJudgement judgement,
      Judge(DrawnSizes(random_, 2000, 10, 30, 1), DrawnSizes(random_, 2000, 12, 32, 1)));
  EXPECT_GT(judgement.loss, 0.25);
  EXPECT_LT(judgement.LossByChange(), 0.02);
}

// What is judged of sizes, to the last digit that people see: no release changes it unawares.
TEST_F(DriftJudgementTest, TheSameSizesAreJudgedAlikeInEveryRelease) {
  std::string told;
  for (const uint32_t ratio : {1U, 2U}) {
    for (const size_t look_ahead : {1, 8}) {
      Random random(ratio);
      search_.shapes.packing.look_ahead = look_ahead;
      search_.shapes.packing.max_age = look_ahead == 1 ? 0 : 40;
      PH_ASSERT_OK_AND_ASSIGN(
          const DriftJudgement judgement,
          Judge(DrawnSizes(random, 500, 200, 500, 2), DrawnSizes(random, 500, 100, 700, ratio)));
      absl::StrAppendFormat(&told, "%.4f of %.4f with %d:", judgement.loss,
                            judgement.reference_loss, judgement.look_ahead);
      for (const auto* const efficiencies :
           {&judgement.reference_efficiencies, &judgement.present_efficiencies,
            &judgement.offered_efficiencies}) {
        for (const double efficiency : *efficiencies) {
          absl::StrAppendFormat(&told, " %.4f", efficiency);
        }
        told += ";";
      }
      if (judgement.offered) {
        for (const StreamShape& shape : judgement.offered->shapes) {
          absl::StrAppend(&told, " ", absl::StrJoin(shape.requested, ","));
        }
      }
      told += "\n";
    }
  }
  EXPECT_EQ(
      told,
      "0.3333 of 0.0000 with 1: 0.8278 0.8278 0.0190; 0.7596 0.3798 0.0150; 0.7596 0.7596 0.0150; "
      "1024,1024,128\n"
      "0.3333 of 0.0000 with 8: 0.9709 0.9709 0.0225; 0.9616 0.4808 0.0193; 0.9616 0.9616 0.0193; "
      "1024,1024,128\n"
      "0.0000 of 0.0000 with 1: 0.8199 0.8199 0.0190; 0.7495 0.7495 0.0156; 0.7495 0.7495 0.0156;\n"
      "0.0000 of 0.0000 with 8: 0.9736 0.9736 0.0227; 0.9690 0.9690 0.0207; 0.9690 0.9690 "
      "0.0207;\n");
}

}  // namespace
}  // namespace packhouse
