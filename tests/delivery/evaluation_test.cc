#include "service/engine/jobs/evaluation.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

class EvaluationTest : public ::testing::Test {
 protected:
  EvaluationTest() { dataset_.Seal(); }

  // The epoch has no job.
  absl::StatusOr<std::unique_ptr<Evaluation>> Open(EvaluationRequest request) {
    EpochRequest epoch = DatasetWorld::Request();
    epoch.key.job.clear();
    auto prepared = catalog_.Prepare(epoch);
    if (!prepared.ok()) return prepared.status();
    return Evaluation::Open(*std::move(prepared), std::move(request), /*memory=*/nullptr,
                            /*make=*/nullptr, /*wake=*/nullptr, &catalog_.shared_batches());
  }

  static std::vector<LoadEvent> All(Evaluation& evaluation) {
    std::vector<LoadEvent> events;
    for (;;) {
      auto event = evaluation.Next();
      EXPECT_THAT(event, IsOk());
      if (!event.ok() || event->kind != LoadEvent::Kind::kBatch) return events;
      events.push_back(*std::move(event));
    }
  }

  DatasetWorld dataset_{60};
  EpochCatalog catalog_{&dataset_.store(), EpochBounds()};
};

// Every graph once over all ranks; each rank as many steps.
TEST_F(EvaluationTest, RanksTogetherGetEveryGraphOnce) {
  for (const uint32_t ranks : {1, 2, 3, 7}) {
    std::vector<uint64_t> ids;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      PH_ASSERT_OK_AND_ASSIGN(const auto evaluation, Open({Sharing::Ranked(ranks), rank, 0}));
      const std::vector<LoadEvent> events = All(*evaluation);
      EXPECT_EQ(events.size(), evaluation->num_steps());
      for (const LoadEvent& event : events) {
        const auto& own = event.built.batch.graph_ids;
        EXPECT_EQ(event.is_padding, own.empty());
        ids.insert(ids.end(), own.begin(), own.end());
      }
      EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kEnd);
    }
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), 60U);
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], 1000 + i);
  }
}

// In one pass, step by step and rank by rank: what each rank gets, without padding.
TEST_F(EvaluationTest, APassOfAllRanksIsThatOfEach) {
  for (const uint32_t ranks : {1, 2, 3, 7}) {
    for (const uint64_t first : {0, 1}) {
      std::vector<std::vector<LoadEvent>> of_rank;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        PH_ASSERT_OK_AND_ASSIGN(const auto own, Open({Sharing::Ranked(ranks), rank, first}));
        of_rank.push_back(All(*own));
      }
      EvaluationRequest request = {Sharing::Ranked(ranks), 0, first};
      request.is_of_all_ranks = true;
      PH_ASSERT_OK_AND_ASSIGN(const auto all, Open(request));
      for (size_t step = 0; step < of_rank[0].size(); ++step) {
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          const LoadEvent& expected = of_rank[rank][step];
          if (expected.is_padding) continue;
          PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, all->NextPlace());
          ASSERT_EQ(event.kind, LoadEvent::Kind::kBatch);
          EXPECT_EQ(event.number, expected.number);
          EXPECT_EQ(event.place, expected.place);
          EXPECT_EQ(event.rank_group, expected.rank_group);
        }
      }
      EXPECT_EQ(all->NextPlace()->kind, LoadEvent::Kind::kEnd);
    }
  }
}

// From whichever step: what comes is the rest of the whole, bytes and numbers.
TEST_F(EvaluationTest, FromAnyStepTheRestIsTheSame) {
  PH_ASSERT_OK_AND_ASSIGN(const auto whole, Open({Sharing::Ranked(2), 1, 0}));
  const std::vector<LoadEvent> all = All(*whole);
  for (uint64_t first = 0; first <= all.size(); ++first) {
    PH_ASSERT_OK_AND_ASSIGN(const auto rest, Open({Sharing::Ranked(2), 1, first}));
    const std::vector<LoadEvent> events = All(*rest);
    ASSERT_EQ(events.size(), all.size() - first);
    for (size_t i = 0; i < events.size(); ++i) {
      const LoadEvent& expected = all[first + i];
      EXPECT_EQ(events[i].number, expected.number);
      EXPECT_EQ(events[i].place, expected.place);
      EXPECT_EQ(events[i].graphs_of_step, expected.graphs_of_step);
      EXPECT_EQ(events[i].built.batch.graph_ids, expected.built.batch.graph_ids);
      for (size_t t = 0; t < expected.built.batch.tensors.size(); ++t) {
        EXPECT_EQ(events[i].built.batch.tensors[t].data, expected.built.batch.tensors[t].data);
      }
    }
  }
  EXPECT_THAT(Open({Sharing::Ranked(2), 1, all.size() + 1}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("evaluation.first_step")));
}

// Passes of a rank at one pace, whichever step they start at: a batch is made once.
TEST_F(EvaluationTest, PassesOfOneRankShareMadeBatches) {
  const SharedBatches& shared = catalog_.shared_batches();
  PH_ASSERT_OK_AND_ASSIGN(const auto alone, Open({Sharing::Ranked(2), 1, 0}));
  const std::vector<LoadEvent> all = All(*alone);
  std::vector<std::unique_ptr<Evaluation>> passes;
  for (const EvaluationRequest& request :
       {EvaluationRequest{Sharing::Ranked(2), 1, 0}, EvaluationRequest{Sharing::Ranked(2), 1, 1},
        EvaluationRequest{Sharing::Ranked(2), 0, 0}, EvaluationRequest{Sharing::Ranked(3), 1, 0}}) {
    PH_ASSERT_OK_AND_ASSIGN(passes.emplace_back(), Open(request));
  }
  for (size_t step = 0; step < all.size(); ++step) {
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      if (pass == 1 && step == 0) continue;
      PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, passes[pass]->Next());
      if (pass > 1) continue;
      EXPECT_EQ(event.number, all[step].number);
      EXPECT_EQ(event.built.batch.graph_ids, all[step].built.batch.graph_ids);
      EXPECT_EQ(event.built.batch.tensors[0].data, all[step].built.batch.tensors[0].data);
    }
  }
  EXPECT_EQ(shared.num_taken(), all.size() - 1 - (all.back().is_padding ? 1 : 0));
}

TEST_F(EvaluationTest, Refuses) {
  EXPECT_THAT(Open({Sharing::Ranked(2), 2, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2: there are 2")));
  EXPECT_THAT(Open({Sharing::Dynamic(), 0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 0: there are 0")));
}

}  // namespace
}  // namespace packhouse
