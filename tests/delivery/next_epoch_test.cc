// While an epoch of a job is delivered, the next one is made ready: once, with the same bytes, as
// long as somebody may want it and nobody else needs the memory.
#include "service/engine/jobs/next_epoch.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "tests/delivery/all_jobs.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr size_t kNumGraphs = 4000;
// The caches keep a 64th of it: less than an epoch.
constexpr uint64_t kBudget = uint64_t{12} << 20;
// Of it where something is made ahead.
constexpr uint64_t kMost = kBudget / 4 * 3;

bool Never() { return false; }
bool Always() { return true; }

// A server with a data set; what is made ahead waits in `works` until Run().
class NextEpochTest : public ::testing::Test {
 protected:
  NextEpochTest() : dataset_(kNumGraphs) {
    dataset_.Seal();
    EpochBounds bounds;
    bounds.planner_steps = 20'000;
    catalog_ = std::make_unique<EpochCatalog>(&dataset_.store(), bounds, &budget_);
    jobs_ = AllJobs::Open(catalog_.get(), &logs_, JobsOptions(), &budget_).value();
    jobs_->loader().PrepareAheadBy(Waiting());
  }
  ~NextEpochTest() override { works_.clear(); }

  static EpochRequest Request(uint64_t epoch) { return DatasetWorld::Request({24, 30, 6}, epoch); }
  static JoinRequest Rank(uint32_t rank, size_t num_ranks) {
    JoinRequest join;
    join.queue = rank;
    join.sharing = Sharing::Ranked(num_ranks);
    join.client = "client";
    return join;
  }

  Loader::AheadExecutor Waiting() {
    return [this](const ClientId& client, const std::string& job, Loader::AheadWork work) {
      EXPECT_FALSE(job.empty());
      clients_.push_back(client);
      works_.push_back(std::move(work));
      return [this] { ++num_hurried_; };
    };
  }
  absl::StatusOr<std::unique_ptr<LoadSession>> Load(uint64_t epoch,
                                                    const Cancellation& cancellation = Never) {
    return jobs_->Load(
        Request(epoch), Rank(0, 1), 4, [] {}, cancellation);
  }
  // Whether opening it plans and mixes nothing: a ready epoch is given to whoever asks.
  bool IsReady(uint64_t epoch) {
    const auto session = Load(epoch, Always);
    EXPECT_TRUE(session.ok() || absl::IsCancelled(session.status())) << session.status();
    return session.ok();
  }
  void Run(const Cancellation& cancellation = Never) {
    for (const auto& work : std::exchange(works_, {})) work(cancellation);
  }
  bool Holds() { return jobs_->job("job")->next().has_made(); }
  // All batches of an epoch that is loaded: the ids of their graphs.
  std::vector<std::vector<uint64_t>> BatchesOf(LoadSession& session) {
    std::vector<std::vector<uint64_t>> batches;
    for (uint64_t i = 0; i < session.epoch().identity().num_batches(); ++i) {
      const BuiltBatch built = session.epoch().Build(i).value();
      batches.emplace_back(built.batch.graph_ids.begin(), built.batch.graph_ids.end());
    }
    return batches;
  }

  DatasetWorld dataset_;
  MemoryBudget budget_{kBudget};
  FailingLog log_;
  LogsOfJobs logs_{&log_};
  std::unique_ptr<EpochCatalog> catalog_;
  std::unique_ptr<AllJobs> jobs_;
  std::vector<ClientId> clients_;
  std::vector<Loader::AheadWork> works_;
  int num_hurried_ = 0;
};

TEST_F(NextEpochTest, OpeningTheNextEpochPlansAndMixesNothing) {
  PH_ASSERT_OK_AND_ASSIGN(auto first, Load(0));
  EXPECT_EQ(clients_, std::vector<ClientId>{"client"});
  EXPECT_FALSE(IsReady(1));
  Run();
  EXPECT_TRUE(Holds());
  PH_ASSERT_OK_AND_ASSIGN(const auto second, Load(1, Always));
  // It is the epoch that is made without it.
  EpochCatalog alone(&dataset_.store(), catalog_->bounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto made, alone.Prepare(Request(1)));
  ASSERT_EQ(made->identity().num_batches(), second->epoch().identity().num_batches());
  for (uint64_t i = 0; i < made->identity().num_batches(); ++i) {
    EXPECT_EQ(made->Build(i)->batch.graph_ids, second->epoch().Build(i)->batch.graph_ids);
  }
  EXPECT_NE(BatchesOf(*first), BatchesOf(*second));
  // And so on, of each epoch the next.
  for (uint64_t epoch = 2; epoch < 5; ++epoch) {
    EXPECT_EQ(works_.size(), 1U);
    Run();
    EXPECT_TRUE(IsReady(epoch));
  }
}

// Of the epoch that is loaded, once the next one is ready: what asking for it would measure.
TEST_F(NextEpochTest, TheCompanyOfWhatIsLoadedIsKnown) {
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, Load(epoch));
    EXPECT_EQ(jobs_->Seen().company.has_value(), epoch != 0);
    Run();
    PH_ASSERT_OK_AND_ASSIGN(const std::optional<Company> company,
                            session->epoch().MeasureCompany({}));
    EXPECT_EQ(jobs_->Seen().company, company->Ratio());
  }
}

TEST_F(NextEpochTest, ItIsMadeOnceHoweverManyWorkersThereAre) {
  std::vector<std::unique_ptr<LoadSession>> sessions;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      PH_ASSERT_OK_AND_ASSIGN(sessions.emplace_back(),
                              jobs_->Load(Request(0), Rank(rank, 3), 4, [] {}));
    }
    EXPECT_EQ(clients_.size(), 1U);
    Run();
    EXPECT_EQ(num_hurried_, 0);
  }
  // Asking what the next one is like, as workers do before they load it, uses nothing up.
  EXPECT_THAT(jobs_->Describe(Request(1), Always), IsOk());
  EXPECT_TRUE(IsReady(1));
  EXPECT_EQ(clients_.size(), 2U);
}

TEST_F(NextEpochTest, WhatIsAskedForInOtherWordsIsMadeAnew) {
  PH_ASSERT_OK_AND_ASSIGN(const auto first, Load(0));
  Run();
  EpochRequest other = Request(1);
  other.seed = 4;
  EXPECT_THAT(jobs_->Load(
                  other, Rank(0, 1), 4, [] {}, Always),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
  EXPECT_THAT(jobs_->Load(other, Rank(0, 1), 4, [] {}), IsOk());
}

TEST_F(NextEpochTest, SubsetsAndDrawsAreThoseOfTheJob) {
  EpochRequest request = Request(0);
  request.subset.emplace();
  for (uint64_t i = 0; i < kNumGraphs / 2; ++i) request.subset->ids.push_back(1000 + 2 * i);
  request.draw = WeightedDraw{std::vector<double>(kNumGraphs / 2, 1.0), 300, false};
  PH_ASSERT_OK_AND_ASSIGN(const auto first, jobs_->Load(request, Rank(0, 1), 4, [] {}));
  // Other jobs may wait for the plan of the draw, so it is not left to the background.
  EXPECT_EQ(num_hurried_, 0);
  Run();
  EXPECT_EQ(num_hurried_, 1);
  ++request.key.epoch;
  EXPECT_THAT(jobs_->Load(
                  request, Rank(0, 1), 4, [] {}, Always),
              IsOk());
}

TEST_F(NextEpochTest, TheListsOfItAreHeldUntilItIsMade) {
  EpochRequest request = Request(0);
  request.subset.emplace();
  for (uint64_t i = 0; i < kNumGraphs; ++i) request.subset->ids.push_back(1000 + i);
  const uint64_t bytes = request.subset->ids.size() * sizeof(uint64_t);
  PH_ASSERT_OK_AND_ASSIGN(const auto session, jobs_->Load(request, Rank(0, 1), 4, [] {}));
  const uint64_t with_lists = budget_.held();
  EXPECT_THAT(jobs_->DeleteJob("job"), IsOk());
  const uint64_t without_job = budget_.held();
  Run();
  EXPECT_GE(without_job, budget_.held() + bytes);
  EXPECT_LE(without_job, with_lists);
}

// Of what becomes known only when an epoch is opened, of passes of which nothing is kept, and
// beyond the last number there is nothing to make.
TEST_F(NextEpochTest, NothingIsMadeWhereThereIsNoNextOrItIsNotKnown) {
  EXPECT_THAT(Load(std::numeric_limits<uint64_t>::max()), IsOk());
  EXPECT_THAT(jobs_->Evaluate(Request(0), {}), IsOk());
  EXPECT_THAT(jobs_->Describe(Request(0)), IsOk());
  EpochRequest segments = Request(0);
  segments.segments = SegmentsRequest{300, 1};
  EXPECT_THAT(jobs_->Load(segments, Rank(0, 1), 4, [] {}), IsOk());
  EpochRequest measured = Request(0);
  measured.key.job = "measured";
  DeviceProfile profile;
  profile.components.resize(3);
  for (ComponentProfile& component : profile.components) component.max_rows = 512;
  profile.measured_as = "device";
  measured.rank_groups[0].shapes.clear();
  measured.rank_groups[0].device = profile;
  // Choosing limits takes more memory.
  EpochCatalog roomy(&dataset_.store(), catalog_->bounds());
  FailingLog log;
  LogsOfJobs logs(&log);
  const auto others = AllJobs::Open(&roomy, &logs, JobsOptions()).value();
  others->loader().PrepareAheadBy(Waiting());
  EXPECT_THAT(others->Load(measured, Rank(0, 1), 4, [] {}), IsOk());
  EXPECT_TRUE(works_.empty());
}

TEST_F(NextEpochTest, NothingIsMadeForAJobThatIsGone) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, Load(0));
    EXPECT_THAT(jobs_->DeleteJob("job"), IsOk());
    Run([] {
      ADD_FAILURE() << "it is made";
      return false;
    });
    EXPECT_FALSE(Holds());
  }
  // A job of the same name that is begun anew has a next epoch of its own.
  PH_ASSERT_OK_AND_ASSIGN(auto session, Load(0));
  EXPECT_EQ(works_.size(), 1U);
  session = nullptr;
  EXPECT_THAT(jobs_->DeleteJob("job"), IsOk());
  EXPECT_EQ(jobs_->num_jobs(), 0U);
  Run(Never);
  EXPECT_EQ(budget_.held(), 0U);
}

TEST_F(NextEpochTest, AServerThatDrainsGivesItUp) {
  PH_ASSERT_OK_AND_ASSIGN(const auto session, Load(0));
  // It has begun.
  int num_asked = 0;
  Run([&] {
    if (++num_asked == 2) jobs_->jobs().EndAll(absl::UnavailableError("drains"));
    EXPECT_LE(num_asked, 2);
    return false;
  });
  EXPECT_EQ(num_asked, 2);
  EXPECT_FALSE(Holds());
}

TEST_F(NextEpochTest, ItsMemoryIsGivenBackWhenTheJobEnds) {
  for (const bool is_deleted : {true, false}) {
    SCOPED_TRACE(is_deleted);
    PH_ASSERT_OK_AND_ASSIGN(auto session, Load(0));
    Run();
    session = nullptr;
    // Between two epochs nobody loads.
    EXPECT_TRUE(Holds());
    const uint64_t with_it = budget_.held();
    jobs_->job("job")->Rest();
    EXPECT_TRUE(Holds());
    if (is_deleted) {
      EXPECT_THAT(jobs_->DeleteJob("job"), IsOk());
    } else {
      jobs_->job("job")->Rest();
    }
    EXPECT_FALSE(Holds());
    EXPECT_LT(budget_.held() + sizeof(uint32_t) * kNumGraphs, with_it);
  }
}

TEST_F(NextEpochTest, WhoLoadsKeepsIt) {
  PH_ASSERT_OK_AND_ASSIGN(const auto session, Load(0));
  Run();
  for (int i = 0; i < 3; ++i) jobs_->job("job")->Rest();
  EXPECT_TRUE(Holds());
}

TEST_F(NextEpochTest, OthersHaveItsRoom) {
  PH_ASSERT_OK_AND_ASSIGN(const auto session, Load(0));
  const uint64_t without = budget_.held();
  Run();
  EXPECT_GT(budget_.held(), without);
  {
    PH_ASSERT_OK_AND_ASSIGN(const MemoryHold room, budget_.Hold("others", kBudget - without));
    EXPECT_LE(budget_.held(), kBudget);
  }
  EXPECT_EQ(budget_.held(), without);
  EXPECT_FALSE(IsReady(1));
}

TEST_F(NextEpochTest, ItIsNotMadeWhereMostOfTheMemoryIsHeld) {
  PH_ASSERT_OK_AND_ASSIGN(auto session, Load(0));
  const uint64_t without = budget_.held();
  ASSERT_LT(without + 10 * kNumGraphs, kMost);
  {
    PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others,
                            budget_.Hold("others", kMost - without - 10 * kNumGraphs));
    Run();
    EXPECT_FALSE(Holds());
  }
  // Nor when that comes while it is made.
  session = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(session, Load(1));
  std::optional<MemoryHold> others;
  Run([&] {
    if (!others) others = budget_.Hold("others", kMost).value();
    return false;
  });
  EXPECT_TRUE(others);
  EXPECT_FALSE(Holds());
  EXPECT_THAT(catalog_->PrepareAhead(Request(7), Never),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--memory-budget")));
}

TEST_F(NextEpochTest, ADeletedDataSetIsNotKept) {
  PH_ASSERT_OK_AND_ASSIGN(auto session, Load(0));
  Run();
  session = nullptr;
  catalog_->Forget("graph");
  EXPECT_TRUE(IsReady(1));
  Run();
  catalog_->Forget("graphs");
  EXPECT_EQ(budget_.held(), jobs_->job("job")->ForkLedger().bytes());
  // Nor if it is deleted while its epoch is made.
  PH_ASSERT_OK_AND_ASSIGN(session, Load(5));
  Run([&] {
    catalog_->Forget("graphs");
    return false;
  });
  EXPECT_FALSE(Holds());
}

TEST_F(NextEpochTest, WhoComesForItHurriesIt) {
  PH_ASSERT_OK_AND_ASSIGN(const auto session, Load(0));
  EXPECT_EQ(num_hurried_, 0);
  EXPECT_THAT(Load(0), IsOk());
  EXPECT_EQ(num_hurried_, 0);
  EXPECT_THAT(jobs_->Describe(Request(1)), IsOk());
  EXPECT_EQ(num_hurried_, 1);
  EXPECT_THAT(Load(1), IsOk());
  EXPECT_EQ(num_hurried_, 1);
}

TEST(NextEpochStateTest, ItIsHurriedOnceWhicheverComesFirst) {
  NextEpoch next;
  int num_hurried = 0;
  const auto hurry = [&] { ++num_hurried; };
  EXPECT_TRUE(next.Begin(3));
  EXPECT_FALSE(next.Begin(3));
  next.Await(2);
  next.SetHurry(3, hurry);
  EXPECT_EQ(num_hurried, 0);
  next.Await(3);
  next.Await(3);
  EXPECT_EQ(num_hurried, 1);
  EXPECT_TRUE(next.Begin(4));
  next.Await(4);
  next.SetHurry(3, hurry);
  EXPECT_EQ(num_hurried, 1);
  next.SetHurry(4, hurry);
  EXPECT_EQ(num_hurried, 2);
  // What is ready needs no hurry.
  EXPECT_TRUE(next.Begin(5));
  next.SetHurry(5, hurry);
  next.Keep(5, std::make_shared<const int>(1));
  next.Await(5);
  EXPECT_EQ(num_hurried, 2);
}

TEST(NextEpochStateTest, WhatIsHeldGoesWithItsEpoch) {
  NextEpoch next;
  const auto made = std::make_shared<const int>(1);
  next.Keep(0, made);
  EXPECT_TRUE(next.Begin(0));
  next.Keep(1, made);
  EXPECT_FALSE(next.has_made());
  EXPECT_EQ(made.use_count(), 1);
  next.Keep(0, made);
  EXPECT_TRUE(next.has_made());
  EXPECT_EQ(made.use_count(), 2);
  EXPECT_TRUE(next.Begin(1));
  EXPECT_FALSE(next.IsWanted(0));
  EXPECT_EQ(made.use_count(), 1);
  next.Keep(1, made);
  next.Clear();
  EXPECT_FALSE(next.IsWanted(1));
  EXPECT_EQ(made.use_count(), 1);
}

}  // namespace
}  // namespace packhouse
