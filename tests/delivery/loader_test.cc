#include "service/engine/jobs/loader.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/worker_pool.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/jobs/segment_makings.h"
#include "tests/delivery/all_jobs.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// Of an epoch of a data set.
const EpochPlan& PlanOf(const LoadableEpoch& epoch) {
  return static_cast<const PreparedEpoch&>(epoch).plan();
}

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLoaderLease = absl::Seconds(10);

// As many threads as like may call it.
class LockedLog final : public RecordLog {
 public:
  absl::Status Append(absl::Span<const std::string> records) override {
    before_write();
    absl::MutexLock lock(&mutex_);
    return log_.Append(records);
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override {
    absl::MutexLock lock(&mutex_);
    return log_.ReadAll();
  }
  absl::Status Replace(absl::Span<const std::string> records) override {
    before_write();
    absl::MutexLock lock(&mutex_);
    return log_.Replace(records);
  }
  FailingLog& log() { return log_; }

  // Set while nobody writes.
  std::function<void()> before_write = [] {};

 private:
  absl::Mutex mutex_;
  FailingLog log_;
};

// A server with a data set; Restart() forgets all that is not in the log.
class LoaderWorld {
 public:
  explicit LoaderWorld(size_t num_graphs = 60, JobsOptions options = Options())
      : options_(options), dataset_(num_graphs) {
    dataset_.Seal();
    Restart();
  }

  static JobsOptions Options() {
    JobsOptions options;
    options.lease_duration = kLoaderLease;
    return options;
  }

  // With the planner that `bounds` say.
  void Restart(const EpochBounds& bounds = {}, MemoryBudget* memory = nullptr) {
    loader_ = nullptr;
    catalog_ = std::make_unique<EpochCatalog>(&dataset_.store(), bounds, memory);
    auto loader = AllJobs::Open(catalog_.get(), &logs_, options_);
    ASSERT_THAT(loader, IsOk());
    loader_ = *std::move(loader);
  }

  absl::StatusOr<std::unique_ptr<LoadSession>> Load(
      EpochRequest request, JoinRequest join, size_t max_in_flight = 4,
      std::function<void()> wake = [] {}) {
    return loader_->Load(std::move(request), std::move(join), max_in_flight, std::move(wake));
  }
  absl::StatusOr<std::unique_ptr<LoadSession>> LoadRank(uint32_t rank, size_t num_ranks,
                                                        size_t max_in_flight = 4) {
    return Load(DatasetWorld::Request(), Rank(rank, num_ranks), max_in_flight);
  }

  static JoinRequest Rank(uint32_t rank, size_t num_ranks) {
    JoinRequest join;
    join.queue = rank;
    join.sharing = Sharing::Ranked(num_ranks);
    return join;
  }
  static JoinRequest Dynamic(std::string worker) {
    JoinRequest join;
    join.sharing = Sharing::Dynamic();
    join.worker = std::move(worker);
    return join;
  }

  absl::StatusOr<AcknowledgeResult> Acknowledge(const LoadSession& session,
                                                std::vector<uint64_t> batches) {
    return loader_->Acknowledge(session.epoch().identity().key, session.start().session,
                                session.start().join.generation, batches, now);
  }

  AllJobs& loader() { return *loader_; }
  EpochCatalog& catalog() { return *catalog_; }
  DatasetWorld& dataset() { return dataset_; }
  FailingLog& log() { return log_.log(); }
  void BeforeWrites(std::function<void()> call) { log_.before_write = std::move(call); }

  absl::Time now = absl::UnixEpoch();

 private:
  const JobsOptions options_;
  DatasetWorld dataset_;
  LockedLog log_;
  LogsOfJobs logs_{&log_};
  std::unique_ptr<EpochCatalog> catalog_;
  std::unique_ptr<AllJobs> loader_;
};

// Takes batches until there are none; acknowledges each. The ids of their graphs.
std::vector<uint64_t> TakeAll(LoaderWorld& world, LoadSession& session) {
  std::vector<uint64_t> ids;
  for (;;) {
    const auto event = session.Next(world.now);
    EXPECT_THAT(event, IsOk());
    if (!event.ok() || event->kind != LoadEvent::Kind::kBatch) return ids;
    ids.insert(ids.end(), event->built.batch.graph_ids.begin(), event->built.batch.graph_ids.end());
    EXPECT_THAT(world.Acknowledge(session, {event->number}), IsOk());
  }
}

void ExpectAllOnce(std::vector<uint64_t> ids, size_t num_graphs) {
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(ids.size(), num_graphs);
  for (size_t i = 0; i < num_graphs; ++i) EXPECT_EQ(ids[i], 1000 + i);
}

// Whatever is written, joins, deletions and the compaction of the log among it: batches leave
// meanwhile, and timers do their work.
TEST(LoaderTest, NobodyWaitsForTheLogButWhoWritesToIt) {
  JobsOptions options = LoaderWorld::Options();
  options.max_log_records = 16;
  LoaderWorld world(60, options);
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(DatasetWorld::Request(),
                                                         LoaderWorld::Dynamic("worker"), 1000));
  int writes = 0;
  // Would hang if the writer held what these need.
  world.BeforeWrites([&] {
    ++writes;
    EXPECT_THAT(session->Next(world.now), IsOk());
    world.loader().Expire(world.now);
    EXPECT_GT(world.loader().NextExpiry(), world.now);
    EXPECT_GE(world.loader().Snapshot().sessions().num_sessions, 1);
    EXPECT_THAT(world.loader().Describe(DatasetWorld::Request()), IsOk());
  });
  for (uint64_t epoch = 1; epoch < 6; ++epoch) {
    EpochRequest request = DatasetWorld::Request({24, 30, 6}, epoch);
    EXPECT_THAT(world.Load(request, LoaderWorld::Dynamic("worker")), IsOk());
    request.key.job = "other";
    EXPECT_THAT(world.Load(request, LoaderWorld::Dynamic("worker")), IsOk());
  }
  EXPECT_THAT(world.Acknowledge(*session, {0}), IsOk());
  EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
  EXPECT_GT(writes, 8);
  world.BeforeWrites([] {});
}

// Names of jobs that are gone take no memory and no place in the log; their generations are not
// used again all the same.
TEST(LoaderTest, ADeletedJobLeavesNothing) {
  JobsOptions options = LoaderWorld::Options();
  options.max_log_records = 16;
  LoaderWorld world(60, options);
  uint64_t last_generation = 0;
  for (int i = 0; i < 50; ++i) {
    EpochRequest request = DatasetWorld::Request();
    request.key.job = absl::StrCat("job ", i % 5);
    {
      PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, LoaderWorld::Rank(0, 1)));
      EXPECT_GT(session->start().join.generation, last_generation);
      last_generation = session->start().join.generation;
      EXPECT_EQ(world.loader().num_jobs(), 1U);
    }
    EXPECT_THAT(world.loader().DeleteJob(request.key.job), IsOk());
    EXPECT_EQ(world.loader().num_jobs(), 0U);
    if (i % 10 == 9) world.Restart();
  }
  EXPECT_LE(world.log().num_records(), 20U);
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 0);
}

TEST(LoaderTest, RanksGetEveryGraphOnceInEqualSteps) {
  for (const size_t ranks : {1, 2, 3, 5}) {
    LoaderWorld world;
    std::vector<uint64_t> all;
    std::set<uint64_t> steps;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(rank, ranks));
      EXPECT_EQ(session->start().join.started, rank == 0);
      steps.insert(session->start().num_steps);
      const std::vector<uint64_t> own = TakeAll(world, *session);
      all.insert(all.end(), own.begin(), own.end());
      EXPECT_EQ(session->Next(world.now)->kind, LoadEvent::Kind::kEnd);
    }
    ExpectAllOnce(all, 60);
    EXPECT_EQ(steps.size(), 1);
  }
}

// Its segments are planned in the calling thread, so Next() may say to wait, and have more at once.
std::vector<uint64_t> TakeFromSegments(LoaderWorld& world, LoadSession& session, size_t most) {
  std::vector<uint64_t> ids;
  int waits = 0;
  for (size_t taken = 0; taken < most;) {
    const auto event = session.Next(world.now);
    EXPECT_THAT(event, IsOk());
    if (!event.ok() || event->kind == LoadEvent::Kind::kEnd) return ids;
    if (event->kind == LoadEvent::Kind::kWait) {
      if (++waits > 4) return ids;
      continue;
    }
    waits = 0;
    ++taken;
    ids.insert(ids.end(), event->built.batch.graph_ids.begin(), event->built.batch.graph_ids.end());
    EXPECT_THAT(world.Acknowledge(session, {event->number}), IsOk());
  }
  return ids;
}

EpochRequest InSegments(uint32_t tracks) {
  EpochRequest request = DatasetWorld::Request();
  request.segments = SegmentsRequest{300, tracks};
  return request;
}

EpochBounds QuickPlans() {
  EpochBounds bounds;
  bounds.planner_steps = 20'000;
  return bounds;
}

TEST(LoaderTest, RanksOfAnEpochInSegmentsGetEveryGraphOnceInEqualSteps) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  for (const uint32_t tracks : {1, 3}) {
    for (const size_t ranks : {1, 2, 3, 5}) {
      EpochRequest request = InSegments(tracks);
      request.key.job = absl::StrCat("job ", tracks, " ", ranks);
      std::vector<uint64_t> all;
      std::set<uint64_t> steps;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        PH_ASSERT_OK_AND_ASSIGN(const auto session,
                                world.Load(request, LoaderWorld::Rank(rank, ranks)));
        EXPECT_GE(session->epoch().segmented()->plan().layout().num_segments(), 4U);
        steps.insert(session->start().num_steps);
        const std::vector<uint64_t> own = TakeFromSegments(world, *session, SIZE_MAX);
        all.insert(all.end(), own.begin(), own.end());
        EXPECT_EQ(session->Next(world.now)->kind, LoadEvent::Kind::kEnd);
      }
      ExpectAllOnce(all, 1200);
      EXPECT_EQ(steps.size(), 1);
    }
  }
}

TEST(LoaderTest, AnEpochInSegmentsGoesOnAtAnyBatchAfterARestart) {
  for (const size_t before : {0, 1, 50, 150, 230}) {
    LoaderWorld world(1200);
    world.Restart(QuickPlans());
    std::vector<uint64_t> all;
    std::string options;
    {
      PH_ASSERT_OK_AND_ASSIGN(const auto session,
                              world.Load(InSegments(2), LoaderWorld::Dynamic("a")));
      all = TakeFromSegments(world, *session, before);
      options = session->epoch().identity().options;
    }
    // Another planner would count other batches, and would be noticed: those of the epoch are kept.
    world.Restart(QuickPlans());
    PH_ASSERT_OK_AND_ASSIGN(const auto session,
                            world.Load(InSegments(2), LoaderWorld::Dynamic("b")));
    EXPECT_EQ(session->epoch().identity().options, options);
    const std::vector<uint64_t> rest = TakeFromSegments(world, *session, SIZE_MAX);
    all.insert(all.end(), rest.begin(), rest.end());
    ExpectAllOnce(all, 1200);
  }
}

// What the first epoch has counted is in the ledger, for the job's other epochs too; but not for
// those of another planner.
TEST(LoaderTest, LaterEpochsInSegmentsAreNotCountedAnewAfterARestart) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  EXPECT_THAT(world.Load(InSegments(1), LoaderWorld::Dynamic("a")), IsOk());
  const auto counted = [&] { return world.dataset().store().num_counted(); };
  const uint64_t once = counted();
  EXPECT_GT(once, 0U);
  EpochBounds other;
  other.planner_steps = 0;
  for (const uint64_t epoch : {1, 2}) {
    world.Restart(epoch == 1 ? QuickPlans() : other);
    EpochRequest request = InSegments(1);
    request.key.epoch = epoch;
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, LoaderWorld::Dynamic("a")));
    EXPECT_EQ(counted(), epoch * once);
    ExpectAllOnce(TakeFromSegments(world, *session, SIZE_MAX), 1200);
  }
  // An epoch that was opened goes on with its own plan, up to a segment that this planner would
  // plan otherwise.
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(InSegments(1), LoaderWorld::Dynamic("a")));
  absl::Status status;
  for (int i = 0; i < 2000 && status.ok(); ++i) {
    const auto event = session->Next(world.now);
    status = event.status();
    if (!event.ok() || event->kind != LoadEvent::Kind::kBatch) continue;
    EXPECT_THAT(world.Acknowledge(*session, {event->number}), IsOk());
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("this release plans it otherwise")));
}

// Of an evaluation; its segments are made in the calling thread.
std::vector<uint64_t> IdsOf(Evaluation& evaluation, uint64_t most = UINT64_MAX) {
  std::vector<uint64_t> ids;
  int waits = 0;
  for (uint64_t taken = 0; taken < most && waits < 4;) {
    const auto event = evaluation.Next();
    EXPECT_THAT(event, IsOk());
    if (!event.ok() || event->kind == LoadEvent::Kind::kEnd) break;
    waits = event->kind == LoadEvent::Kind::kWait ? waits + 1 : 0;
    taken += event->kind == LoadEvent::Kind::kBatch ? 1 : 0;
    const auto& of_batch = event->built.batch.graph_ids;
    ids.insert(ids.end(), of_batch.begin(), of_batch.end());
  }
  return ids;
}

TEST(LoaderTest, AnEvaluationInSegmentsGivesEveryGraphOnce) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  EpochRequest request = InSegments(2);
  request.key.job.clear();
  for (const uint32_t ranks : {1, 3}) {
    std::vector<uint64_t> all;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      int num_wakes = 0;
      PH_ASSERT_OK_AND_ASSIGN(const auto whole,
                              world.loader().Evaluate(request, {Sharing::Ranked(ranks), rank, 0},
                                                      "client", [&] { ++num_wakes; }));
      const std::vector<uint64_t> ids = IdsOf(*whole);
      // Segments stay for the next pass.
      EXPECT_EQ(num_wakes > 0, ranks == 1);
      EXPECT_EQ(whole->Next()->kind, LoadEvent::Kind::kEnd);
      all.insert(all.end(), ids.begin(), ids.end());
      // From any step on the rest is the same.
      const uint64_t first = whole->num_steps() / 2;
      PH_ASSERT_OK_AND_ASSIGN(const auto begin,
                              world.loader().Evaluate(request, {Sharing::Ranked(ranks), rank, 0}));
      PH_ASSERT_OK_AND_ASSIGN(
          const auto rest, world.loader().Evaluate(request, {Sharing::Ranked(ranks), rank, first}));
      std::vector<uint64_t> both = IdsOf(*begin, first);
      const std::vector<uint64_t> of_rest = IdsOf(*rest);
      both.insert(both.end(), of_rest.begin(), of_rest.end());
      EXPECT_EQ(both, ids);
    }
    ExpectAllOnce(all, 1200);
    // A pass of all ranks has the batches of each, step by step, and none twice.
    EvaluationRequest of_all = {Sharing::Ranked(ranks), 0, 0};
    of_all.is_of_all_ranks = true;
    PH_ASSERT_OK_AND_ASSIGN(const auto places, world.loader().Evaluate(request, of_all));
    std::set<uint64_t> numbers;
    uint64_t graphs = 0;
    for (int waits = 0;;) {
      PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, places->NextPlace());
      if (event.kind == LoadEvent::Kind::kEnd) break;
      if (event.kind == LoadEvent::Kind::kWait) {
        ASSERT_LE(++waits, 100);
        continue;
      }
      EXPECT_TRUE(numbers.insert(event.number).second);
      EXPECT_FALSE(event.is_padding);
      graphs += places->epoch().NumGraphs(event.number);
    }
    EXPECT_EQ(numbers.size(), places->epoch().identity().num_batches());
    EXPECT_EQ(graphs, 1200U);
  }
}

// On another thread, which may take longer than the evaluation lives.
TEST(LoaderTest, AnEvaluationWaitsForItsSegmentsOnNoThread) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  std::vector<Loader::Planning> held;
  world.loader().PlanInBackground(
      [&held](const ClientId&, Loader::WindowOrder, Loader::Planning work) {
        held.push_back(std::move(work));
      });
  const auto run = [&] {
    for (const Loader::Planning& work : std::exchange(held, {})) work([] { return false; });
  };
  EpochRequest request = InSegments(1);
  request.key.job.clear();
  int num_wakes = 0;
  PH_ASSERT_OK_AND_ASSIGN(auto evaluation,
                          world.loader().Evaluate(request, {}, "client", [&] { ++num_wakes; }));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kWait);
  EXPECT_EQ(held.size(), 1U);
  EXPECT_EQ(num_wakes, 0);
  run();
  EXPECT_EQ(num_wakes, 1);
  EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kBatch);
  // The next one is made meanwhile.
  EXPECT_EQ(held.size(), 1U);
  // For one that is gone, nothing is made.
  evaluation = nullptr;
  int num_opened = 0;
  world.dataset().store().before_open_chunks = [&] {
    ++num_opened;
    return absl::OkStatus();
  };
  run();
  EXPECT_EQ(num_wakes, 1);
  PH_ASSERT_OK_AND_ASSIGN(evaluation,
                          world.loader().Evaluate(request, {}, "client", [&] { ++num_wakes; }));
  EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kBatch);
  EXPECT_EQ(num_opened, 0);
  evaluation = nullptr;
  held.clear();  // What is counted keeps the loader.
  // What cannot be made is told to who needs it.
  EXPECT_THAT(world.loader().Snapshot().sessions().num_sessions, 0U);
  world.Restart(QuickPlans());
  world.dataset().store().before_open_chunks = [] { return absl::UnavailableError("away"); };
  PH_ASSERT_OK_AND_ASSIGN(evaluation, world.loader().Evaluate(request, {}));
  EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kWait);
  EXPECT_THAT(evaluation->Next(), StatusIs(absl::StatusCode::kUnavailable,
                                           AllOf(HasSubstr("segment "), HasSubstr("away"))));
}

TEST(LoaderTest, RanksOfAnEvaluationHaveASegmentMadeOnceForAll) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  std::vector<std::pair<Loader::WindowOrder, Loader::Planning>> held;
  world.loader().PlanInBackground(
      [&held](const ClientId&, Loader::WindowOrder order, Loader::Planning work) {
        held.emplace_back(order, std::move(work));
      });
  const auto run = [&] {
    for (const auto& [order, work] : std::exchange(held, {})) work([] { return false; });
  };
  EpochRequest request = InSegments(1);
  request.key.job.clear();
  std::vector<std::unique_ptr<Evaluation>> ranks;
  std::vector<int> num_wakes(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    PH_ASSERT_OK_AND_ASSIGN(ranks.emplace_back(),
                            world.loader().Evaluate(request, {Sharing::Ranked(3), rank, 0},
                                                    "client", [&, rank] { ++num_wakes[rank]; }));
  }
  for (const auto& rank : ranks) EXPECT_EQ(rank->Next()->kind, LoadEvent::Kind::kWait);
  EXPECT_EQ(held.size(), 1U);
  // It is made as long as one of them is there.
  ranks.erase(ranks.begin());
  run();
  EXPECT_EQ(num_wakes, (std::vector<int>{0, 1, 1}));
  for (const auto& rank : ranks) EXPECT_EQ(rank->Next()->kind, LoadEvent::Kind::kBatch);
  // The next one, which all of them will need.
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].first, Loader::WindowOrder::kLater);
  run();
  EXPECT_EQ(num_wakes, (std::vector<int>{0, 2, 2}));
}

// There may be much before what is ordered ahead.
TEST(SegmentMakingsTest, WhoNeedsASegmentDoesNotWaitForOneThatIsMadeAhead) {
  LoaderWorld world(1200);
  EpochRequest request = InSegments(1);
  EpochCatalog catalog(&world.dataset().store(), EpochBounds{.planner_steps = 1000});
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
  SegmentMakings makings;
  std::string told;
  bool is_over = false;
  const auto waiter = [&](bool is_ahead, const char* name) {
    return SegmentMakings::Waiter{is_ahead, [&] { return is_over; },
                                  [&told, name](const absl::Status& status) {
                                    told += name;
                                    told += status.ok() ? "+" : "-";
                                  }};
  };
  auto ahead = makings.Add(epoch, 3, waiter(true, "a"));
  ASSERT_NE(ahead, nullptr);
  EXPECT_EQ(makings.Add(epoch, 3, waiter(true, "b")), nullptr);
  EXPECT_NE(makings.Add(epoch, 4, waiter(true, "x")), nullptr);
  EXPECT_EQ(std::exchange(told, ""), "x+");  // Its order was dropped.
  const auto needed = makings.Add(epoch, 3, waiter(false, "c"));
  ASSERT_NE(needed, nullptr);
  EXPECT_FALSE(ahead->Begin());
  ahead = nullptr;
  EXPECT_TRUE(needed->Begin());
  EXPECT_EQ(makings.Add(epoch, 3, waiter(false, "d")), nullptr);
  EXPECT_EQ(told, "");
  needed->End(absl::UnavailableError("away"));
  EXPECT_EQ(std::exchange(told, ""), "a+b+c-d-");
  // But it does for one that has begun.
  ahead = makings.Add(epoch, 3, waiter(true, "a"));
  ASSERT_NE(ahead, nullptr);
  EXPECT_TRUE(ahead->Begin());
  EXPECT_EQ(makings.Add(epoch, 3, waiter(false, "b")), nullptr);
  // Who comes when all were gone has it made anew.
  is_over = true;
  EXPECT_TRUE(ahead->IsOver());
  is_over = false;
  const auto anew = makings.Add(epoch, 3, waiter(false, "c"));
  ASSERT_NE(anew, nullptr);
  EXPECT_TRUE(anew->Begin());
  ahead->End(absl::CancelledError("gone"));
  EXPECT_EQ(makings.Add(epoch, 3, waiter(false, "d")), nullptr);
  EXPECT_EQ(std::exchange(told, ""), "a+b-");
  anew->End(absl::OkStatus());
  EXPECT_EQ(told, "c+d+");
}

// What fails is told to whom it matters, and asked for again.
TEST(LoaderTest, AnEvaluationThatWasToldOfAFailureGoesOn) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  EpochRequest request = InSegments(1);
  request.key.job.clear();
  PH_ASSERT_OK_AND_ASSIGN(const auto evaluation, world.loader().Evaluate(request, {}));
  world.dataset().store().before_open_chunks = [] { return absl::UnavailableError("away"); };
  EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kWait);
  EXPECT_THAT(evaluation->Next(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("away")));
  world.dataset().store().before_open_chunks = [] { return absl::OkStatus(); };
  EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kWait);
  EXPECT_EQ(evaluation->Next()->kind, LoadEvent::Kind::kBatch);
}

// Next() never waits for a segment, of whichever rank it is. What is needed is made first, and what
// comes next meanwhile.
TEST(LoaderTest, SegmentsAreMadeInTheBackgroundAndTheNeededOnesFirst) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  std::vector<std::pair<Loader::WindowOrder, Loader::Planning>> held;
  bool is_background = false;
  world.loader().PlanInBackground(
      [&held](const ClientId&, Loader::WindowOrder order, Loader::Planning work) {
        held.emplace_back(order, std::move(work));
      });
  world.dataset().store().before_open_chunks = [&] {
    EXPECT_TRUE(is_background);
    return absl::OkStatus();
  };
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(InSegments(2), LoaderWorld::Rank(0, 2)));
  std::vector<Loader::WindowOrder> orders;
  uint64_t num_batches = 0;
  for (int calls = 0; calls < 1000; ++calls) {
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
    if (event.kind == LoadEvent::Kind::kEnd) break;
    if (event.kind == LoadEvent::Kind::kBatch) {
      ++num_batches;
      EXPECT_THAT(world.Acknowledge(*session, {event.number}), IsOk());
    }
    is_background = true;
    for (const auto& [order, work] : std::exchange(held, {})) {
      orders.push_back(order);
      work([] { return false; });
    }
    is_background = false;
  }
  EXPECT_EQ(num_batches, session->start().num_steps);
  // Those of the first step; the others were there when they were needed.
  ASSERT_GE(orders.size(), 3U);
  EXPECT_EQ(orders.front(), Loader::WindowOrder::kFirst);
  EXPECT_EQ(orders.back(), Loader::WindowOrder::kLater);
  EXPECT_TRUE(std::is_sorted(orders.begin(), orders.end()));
}

TEST(LoaderTest, AJobTellsWhatItsSegmentsCost) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  double loss = 0;
  uint64_t num_segments = 0;
  const auto check = [&] {
    const auto job = world.loader().GetJob("job");
    ASSERT_THAT(job, IsOk());
    ASSERT_EQ(job->epochs.size(), 2U);
    for (const EpochSummary& epoch : job->epochs) {
      EXPECT_EQ(epoch.progress.segments.num_segments, num_segments);
      EXPECT_EQ(epoch.progress.segments.Loss(epoch.progress.num_batches), loss);
    }
  };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session,
                            world.Load(InSegments(1), LoaderWorld::Dynamic("a")));
    EpochRequest later = InSegments(1);
    ++later.key.epoch;
    EXPECT_THAT(world.Load(later, LoaderWorld::Dynamic("a")), IsOk());
    const SegmentedPlan& plan = session->epoch().segmented()->plan();
    loss = plan.loss();
    num_segments = plan.layout().num_segments();
    EXPECT_GT(loss, 0);
    check();
    const DeliverySnapshot snapshot = world.loader().Snapshot();
    ASSERT_EQ(snapshot.progress.size(), 1U);
    EXPECT_EQ(snapshot.progress[0].segments.lower_bound, plan.lower_bound());
  }
  // The ledger knows.
  world.Restart(QuickPlans());
  check();
  EpochRequest whole = DatasetWorld::Request();
  whole.key.epoch = 2;
  EXPECT_THAT(world.Load(whole, LoaderWorld::Dynamic("a")), IsOk());
  EXPECT_EQ(world.loader().GetJob("job")->epochs[0].progress.segments.num_segments, 0U);
}

// And as long as anybody loads it, whether or not the segment that told it is still there.
TEST(LoaderTest, WhatSegmentsTellIsSeenOnceItIsKnown) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  EpochRequest request = InSegments(1);
  request.cost_balanced.emplace().cost =
      BatchCost::Create({{CostForm::kSumOfSquares, 0, 1}}, 2).value();
  request.rank_groups[0].num_ranks = 2;
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, LoaderWorld::Rank(0, 2)));
  EXPECT_EQ(world.loader().Seen().step_efficiency, std::nullopt);
  EXPECT_FALSE(TakeFromSegments(world, *session, 1).empty());
  const LoadableEpoch& epoch = session->epoch();
  ASSERT_TRUE(epoch.steps().has_value());
  EXPECT_EQ(world.loader().Seen().step_efficiency, epoch.steps()->efficiency);
  EXPECT_EQ(world.loader().Seen().company, std::nullopt);
  PH_ASSERT_OK_AND_ASSIGN(const std::optional<Company> company, epoch.MeasureCompany({}));
  EXPECT_FALSE(TakeFromSegments(world, *session, SIZE_MAX).empty());
  while (epoch.segmented()->ForgetOldest()) {
  }
  EXPECT_EQ(world.loader().Seen().company, company->Ratio());
  EXPECT_EQ(world.loader().Seen().step_efficiency, epoch.steps()->efficiency);
}

// What a segment is made of may be out of reach for a while. Whoever needs it then is told so,
// joins again, and goes on.
TEST(LoaderTest, ASegmentThatFailsForNowIsMadeWhenItIsNeededAgain) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    LoaderWorld world(1200);
    world.Restart(QuickPlans());
    Random random(seed);
    uint64_t num_failures = 0;
    world.dataset().store().before_open_chunks = [&]() -> absl::Status {
      if (random.Below(2) == 0) return absl::OkStatus();
      ++num_failures;
      return random.Below(2) == 0 ? absl::UnavailableError("objects are out of reach")
                                  : absl::ResourceExhaustedError("the cache is full");
    };
    constexpr uint32_t kRanks = 2;
    const auto join = [&](uint32_t rank) {
      return world.Load(InSegments(kRanks), LoaderWorld::Rank(rank, kRanks));
    };
    std::vector<std::unique_ptr<LoadSession>> sessions;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      PH_ASSERT_OK_AND_ASSIGN(auto session, join(rank));
      sessions.push_back(std::move(session));
    }
    std::vector<uint64_t> ids;
    std::set<uint32_t> ended;
    uint64_t num_told = 0;
    for (int calls = 0; ended.size() < kRanks && calls < 10'000; ++calls) {
      const auto rank = static_cast<uint32_t>(random.Below(kRanks));
      const auto event = sessions[rank]->Next(world.now);
      if (!event.ok()) {
        EXPECT_THAT(event, StatusIs(absl::StatusCode::kUnavailable,
                                    AllOf(HasSubstr("segment "),
                                          AnyOf(HasSubstr("out of reach"), HasSubstr("is full")))));
        ++num_told;
        sessions[rank] = nullptr;
        PH_ASSERT_OK_AND_ASSIGN(sessions[rank], join(rank));
      } else if (event->kind == LoadEvent::Kind::kEnd) {
        ended.insert(rank);
      } else if (event->kind == LoadEvent::Kind::kBatch) {
        const auto& of_batch = event->built.batch.graph_ids;
        ids.insert(ids.end(), of_batch.begin(), of_batch.end());
        EXPECT_THAT(world.Acknowledge(*sessions[rank], {event->number}), IsOk());
      }
    }
    ExpectAllOnce(ids, 1200);
    EXPECT_LE(num_told, kRanks * num_failures);
  }
}

// Two tracks: the first two batches are of two segments.
TEST(LoaderTest, ASegmentThatFailsIsToldToThoseWhoNeedItAlone) {
  for (const bool may_pass : {true, false}) {
    SCOPED_TRACE(may_pass);
    LoaderWorld world(1200);
    world.Restart(QuickPlans());
    PH_ASSERT_OK_AND_ASSIGN(auto a, world.Load(InSegments(2), LoaderWorld::Dynamic("a")));
    PH_ASSERT_OK_AND_ASSIGN(const auto b, world.Load(InSegments(2), LoaderWorld::Dynamic("b")));
    bool is_away = true;
    world.dataset().store().before_open_chunks = [&] {
      if (!is_away) return absl::OkStatus();
      return may_pass ? absl::UnavailableError("away") : absl::DataLossError("away");
    };
    EXPECT_EQ(a->Next(world.now)->kind, LoadEvent::Kind::kWait);
    is_away = false;
    // Of another segment.
    EXPECT_EQ(TakeFromSegments(world, *b, 1).empty(), false);
    EXPECT_THAT(a->Next(world.now),
                StatusIs(may_pass ? absl::StatusCode::kUnavailable : absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("segment "), HasSubstr("away"))));
    a = nullptr;
    // Its batch is the other's now, for whom the segment is made, though nobody has joined since;
    // or who is told that it cannot be.
    if (may_pass) {
      EXPECT_GT(TakeFromSegments(world, *b, SIZE_MAX).size(), 1000U);
      EXPECT_EQ(b->Next(world.now)->kind, LoadEvent::Kind::kEnd);
      continue;
    }
    EXPECT_THAT(b->Next(world.now), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("away")));
    EXPECT_THAT(b->Next(world.now), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("away")));
    PH_ASSERT_OK_AND_ASSIGN(const auto c, world.Load(InSegments(2), LoaderWorld::Dynamic("c")));
    EXPECT_EQ(TakeFromSegments(world, *b, 1).empty(), false);
  }
}

// Whatever the epoch is: a batch that cannot be built is an error, not a batch without contents,
// and comes again.
TEST(LoaderTest, ABatchThatCannotBeBuiltIsToldAndNotDelivered) {
  for (const bool in_segments : {false, true}) {
    SCOPED_TRACE(in_segments);
    // No room for a copy of the graphs: it would have them as they were.
    MemoryBudget memory(uint64_t{1} << 30);
    PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others, memory.Hold("others", uint64_t{1} << 29));
    LoaderWorld world(1200);
    world.Restart(QuickPlans(), &memory);
    const EpochRequest request = in_segments ? InSegments(1) : DatasetWorld::Request();
    EpochRequest of_evaluation = request;
    of_evaluation.key.job.clear();
    PH_ASSERT_OK_AND_ASSIGN(auto session, world.Load(request, LoaderWorld::Dynamic("a")));
    PH_ASSERT_OK_AND_ASSIGN(const auto evaluation, world.loader().Evaluate(of_evaluation, {}));
    EXPECT_FALSE(TakeFromSegments(world, *session, 1).empty());
    EXPECT_FALSE(IdsOf(*evaluation, 1).empty());
    world.dataset().store().DamageGraphs();
    const auto is_told =
        StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("graph "), HasSubstr("is damaged")));
    EXPECT_THAT(session->Next(world.now), is_told);
    EXPECT_THAT(evaluation->Next(), is_told);
    const uint64_t num_batches = session->start().progress.num_batches;
    session = nullptr;
    PH_ASSERT_OK_AND_ASSIGN(session, world.Load(request, LoaderWorld::Dynamic("a")));
    EXPECT_EQ(session->start().progress.num_batches, num_batches);
    EXPECT_EQ(session->start().progress.num_done, 1U);
    EXPECT_THAT(session->Next(world.now), is_told);
  }
}

// As the worker processes of one trainer, who reads them in turn and so waits for none of them.
TEST(LoaderTest, AWorkerThatDoesNotWaitForOthersEndsAndKeepsItsLeases) {
  LoaderWorld world;
  JoinRequest join = LoaderWorld::Dynamic("a");
  join.ends_when_all_leased = true;
  PH_ASSERT_OK_AND_ASSIGN(auto first, world.Load(DatasetWorld::Request(), join, 1000));
  join.worker = "b";
  PH_ASSERT_OK_AND_ASSIGN(auto second, world.Load(DatasetWorld::Request(), join, 1000));
  std::vector<uint64_t> numbers;
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, first->Next(world.now));
    if (event.kind != LoadEvent::Kind::kBatch) {
      EXPECT_EQ(event.kind, LoadEvent::Kind::kEnd);
      EXPECT_EQ(event.num_pending, numbers.size());
      break;
    }
    numbers.push_back(event.number);
  }
  ASSERT_EQ(numbers.size(), first->start().num_steps);
  EXPECT_EQ(second->Next(world.now)->kind, LoadEvent::Kind::kEnd);
  const uint64_t session = first->start().session;
  const uint64_t generation = first->start().join.generation;
  const EpochKey key = first->epoch().identity().key;
  first = nullptr;
  second = nullptr;
  // Nobody else gets what the trainer still works on, nor waits for ever.
  PH_ASSERT_OK_AND_ASSIGN(const auto other,
                          world.Load(DatasetWorld::Request(), LoaderWorld::Dynamic("other"), 1000));
  EXPECT_EQ(other->Next(world.now)->kind, LoadEvent::Kind::kWait);
  const uint64_t last = numbers.back();
  numbers.pop_back();
  ASSERT_THAT(world.loader().Acknowledge(key, session, generation, numbers, world.now), IsOk());
  EXPECT_EQ(other->Next(world.now)->kind, LoadEvent::Kind::kWait);
  EXPECT_EQ(world.loader().NextExpiry(), world.now + kLoaderLease);
  world.now += kLoaderLease;
  world.loader().Expire(world.now);
  PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, other->Next(world.now));
  EXPECT_EQ(event.number, last);
  EXPECT_THAT(world.Acknowledge(*other, {last}), IsOk());
  EXPECT_EQ(other->Next(world.now)->kind, LoadEvent::Kind::kEnd);
}

TEST(LoaderTest, ReadersOfARankGetItsStepsWhateverTheirNumber) {
  LoaderWorld world;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> batches;
  for (const uint32_t readers : {1, 2, 5}) {
    EpochRequest request = DatasetWorld::Request();
    request.key.job = absl::StrCat("readers/", readers);
    uint64_t steps = 0;
    for (uint32_t reader = 0; reader < readers; ++reader) {
      JoinRequest join = LoaderWorld::Rank(1, 2);
      join.reader = {reader, readers};
      PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, join, 1000));
      EXPECT_EQ(session->start().join.started, reader == 0);
      steps += session->start().num_steps;
      uint64_t received = 0;
      for (;; ++received) {
        PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
        if (event.kind != LoadEvent::Kind::kBatch) break;
        EXPECT_EQ(event.place.position % readers, reader);
        const auto expected = std::pair(event.number, event.graphs_of_step);
        EXPECT_EQ(batches.emplace(event.place.position, expected).first->second, expected);
      }
      EXPECT_EQ(received, session->start().num_steps);
    }
    EXPECT_EQ(steps, batches.size());
  }
}

TEST(LoaderTest, SharesOfAStepAddUp) {
  LoaderWorld world;
  std::map<uint64_t, uint64_t> graphs_of_step;
  std::map<uint64_t, std::set<uint64_t>> told;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(rank, 3, 1000));
    for (;;) {
      PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
      if (event.kind != LoadEvent::Kind::kBatch) break;
      graphs_of_step[event.place.position] += event.built.batch.graph_ids.size();
      told[event.place.position].insert(event.graphs_of_step);
      EXPECT_EQ(event.is_padding, event.built.batch.graph_ids.empty());
    }
  }
  for (const auto& [step, graphs] : graphs_of_step) {
    EXPECT_EQ(told[step], std::set<uint64_t>{graphs});
  }
}

// An epoch goes on as it was begun, byte for byte, though the server came back with a planner that
// finds another plan; epochs that are begun then have that one's.
TEST(LoaderTest, AnEpochKeepsItsPlanWhateverThePlanner) {
  EpochBounds old_planner;
  old_planner.planner_steps = 0;
  LoaderWorld world(200);
  const auto request_of = [](uint64_t epoch, uint64_t kind) {
    EpochRequest request = DatasetWorld::Request({24, 30, 6}, epoch);
    request.key.job = absl::StrCat("kind/", kind);
    if (kind == 1) request.rank_groups.push_back({{{12, 20, 4}}, std::nullopt, 1});
    if (kind == 2) request.draw = WeightedDraw{{}, 100, true};
    return request;
  };
  // What is expected, from a catalog of its own.
  const auto batches_of = [&](const EpochRequest& request, const EpochBounds& bounds) {
    EpochCatalog catalog(&world.dataset().store(), bounds);
    const auto epoch = catalog.Prepare(request).value();
    std::vector<Batch> batches;
    for (uint64_t i = 0; i < epoch->identity().num_batches(); ++i) {
      batches.push_back(epoch->Build(i)->batch);
    }
    return batches;
  };
  for (uint64_t kind = 0; kind < 3; ++kind) {
    SCOPED_TRACE(testing::Message() << "kind=" << kind);
    JoinRequest join = LoaderWorld::Rank(0, 1);
    if (kind == 1) join.sharing.rank_group_of_rank = {0, 1};
    const std::vector<Batch> expected = batches_of(request_of(0, kind), old_planner);
    world.Restart(old_planner);
    std::set<uint64_t> done;
    const auto take = [&](LoadSession& session, size_t most) {
      while (done.size() < most) {
        const auto event = session.Next(world.now);
        ASSERT_THAT(event, IsOk());
        if (event->kind != LoadEvent::Kind::kBatch) return;
        if (!event->is_padding) {
          EXPECT_TRUE(done.insert(event->number).second);
          const Batch& batch = event->built.batch;
          EXPECT_EQ(batch.graph_ids, expected[event->number].graph_ids);
          for (size_t t = 0; t < batch.tensors.size(); ++t) {
            EXPECT_EQ(batch.tensors[t].data, expected[event->number].tensors[t].data);
          }
        }
        EXPECT_THAT(world.Acknowledge(session, {event->number}), IsOk());
      }
    };
    std::string cursor;
    {
      PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request_of(0, kind), join));
      take(*session, 3);
      // Later epochs share what is kept, unless they are drawn.
      PH_ASSERT_OK_AND_ASSIGN(const auto later, world.Load(request_of(1, kind), join));
      cursor = later->start().join.cursor;
    }
    // Twice: the second time from a log that was read and made short.
    for (int restart = 0; restart < 2; ++restart) {
      world.Restart();
      PH_ASSERT_OK_AND_ASSIGN(const auto described, world.loader().Describe(request_of(0, kind)));
      EXPECT_EQ(described.progress.num_done, done.size());
      PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request_of(0, kind), join));
      take(*session, done.size() + 2);
    }
    {
      JoinRequest back = join;
      back.cursor = DecodeCursor(cursor).value();
      PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request_of(1, kind), back));
      EXPECT_EQ(session->epoch().identity(), back.cursor->identity);
    }
    for (uint32_t queue = 0; queue <= (kind == 1 ? 1 : 0); ++queue) {
      join.queue = queue;
      PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request_of(0, kind), join));
      take(*session, expected.size());
    }
    EXPECT_EQ(done.size(), expected.size());
    // This server's own plan is another.
    PH_ASSERT_OK_AND_ASSIGN(const auto old, world.loader().Describe(request_of(0, kind)));
    PH_ASSERT_OK_AND_ASSIGN(const auto fresh, world.loader().Describe(request_of(9, kind)));
    EXPECT_NE(PlanOf(*fresh.epoch).receipt(), PlanOf(*old.epoch).receipt());
  }
}

TEST(LoaderTest, WhatWasNotAcknowledgedComesAgainAfterACrash) {
  LoaderWorld world;
  std::vector<uint64_t> kept;
  Batch lost;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 1));
    for (int i = 0; i < 5; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
      const auto& ids = event.built.batch.graph_ids;
      kept.insert(kept.end(), ids.begin(), ids.end());
      EXPECT_THAT(world.Acknowledge(*session, {event.number}), IsOk());
    }
    PH_ASSERT_OK_AND_ASSIGN(LoadEvent event, session->Next(world.now));
    lost = std::move(event.built.batch);
  }
  world.Restart();
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 1, 1));
  EXPECT_EQ(session->start().num_steps_done, 5);
  EXPECT_EQ(session->start().progress.num_done, 5);
  PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
  EXPECT_EQ(event.built.batch.graph_ids, lost.graph_ids);
  for (size_t t = 0; t < lost.tensors.size(); ++t) {
    EXPECT_EQ(event.built.batch.tensors[t].data, lost.tensors[t].data);
  }
  kept.insert(kept.end(), lost.graph_ids.begin(), lost.graph_ids.end());
  EXPECT_THAT(world.Acknowledge(*session, {event.number}), IsOk());
  const std::vector<uint64_t> rest = TakeAll(world, *session);
  kept.insert(kept.end(), rest.begin(), rest.end());
  ExpectAllOnce(kept, 60);
}

TEST(LoaderTest, AcknowledgesAnEpochThatNobodyHasLoadedSinceTheCrash) {
  LoaderWorld world;
  uint64_t generation = 0;
  uint64_t number = 0;
  std::string cursor;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 1));
    generation = session->start().join.generation;
    number = session->Next(world.now)->number;
  }
  world.Restart();
  const EpochKey key = {"job", 0};
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult first,
                          world.loader().Acknowledge(key, 0, generation, {number}, world.now));
  EXPECT_EQ(first.num_new, 1);
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult again,
                          world.loader().Acknowledge(key, 0, generation, {number}, world.now));
  EXPECT_EQ(again.num_new, 0);
  EXPECT_EQ(again.cursor, first.cursor);
  EXPECT_EQ(world.loader().CursorAtStep(key, generation, 1).value(), first.cursor);
}

TEST(LoaderTest, ACursorRollsBackWithAnyNumberOfRanks) {
  LoaderWorld world;
  std::vector<uint64_t> before;
  std::string checkpoint;
  uint64_t old_generation = 0;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 1));
    old_generation = session->start().join.generation;
    for (int i = 0; i < 8; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
      PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult result,
                              world.Acknowledge(*session, {event.number}));
      if (i > 3) continue;  // Beyond the checkpoint.
      checkpoint = result.cursor;
      const auto& ids = event.built.batch.graph_ids;
      before.insert(before.end(), ids.begin(), ids.end());
    }
  }
  const Cursor cursor = DecodeCursor(checkpoint).value();
  std::vector<uint64_t> all = before;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    JoinRequest join = LoaderWorld::Rank(rank, 3);
    join.cursor = cursor;
    join.attempt = "second";
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(DatasetWorld::Request(), join));
    EXPECT_GT(session->start().join.generation, old_generation);
    const std::vector<uint64_t> own = TakeAll(world, *session);
    all.insert(all.end(), own.begin(), own.end());
  }
  ExpectAllOnce(all, 60);
  // The trainer that was rolled back learns it.
  EXPECT_THAT(world.loader().Acknowledge({"job", 0}, 0, old_generation, {9}, world.now),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is over")));
}

TEST(LoaderTest, ARollBackForgetsLaterEpochs) {
  LoaderWorld world;
  std::string cursor;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 1));
    const uint64_t number = session->Next(world.now)->number;
    cursor = world.Acknowledge(*session, {number})->cursor;
    TakeAll(world, *session);
  }
  int woken = 0;
  const EpochRequest later = DatasetWorld::Request({24, 30, 6}, 1);
  PH_ASSERT_OK_AND_ASSIGN(auto old,
                          world.Load(later, LoaderWorld::Rank(0, 1), 2, [&] { ++woken; }));
  EXPECT_THAT(world.Acknowledge(*old, {old->Next(world.now)->number}), IsOk());
  while (old->Next(world.now)->kind == LoadEvent::Kind::kBatch) {
  }
  const LeaseCounters totals = world.loader().Snapshot().totals;

  JoinRequest join = LoaderWorld::Rank(0, 1);
  join.cursor = DecodeCursor(cursor).value();
  join.attempt = "second";
  PH_ASSERT_OK_AND_ASSIGN(auto anew, world.Load(DatasetWorld::Request(), join));
  EXPECT_EQ(woken, 1);
  EXPECT_THAT(old->Next(world.now), StatusIs(absl::StatusCode::kNotFound, HasSubstr("epoch 1")));
  EXPECT_EQ(world.loader().Snapshot().totals.acknowledged, totals.acknowledged);
  TakeAll(world, *anew);
  join.cursor = std::nullopt;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(later, join));
    EXPECT_GT(session->start().join.generation, anew->start().join.generation);
    ExpectAllOnce(TakeAll(world, *session), 60);
  }
  // A reader of the log sees the same.
  old = nullptr;
  anew = nullptr;
  world.Restart();
  EXPECT_EQ(world.loader().Describe(later)->progress.num_done,
            world.loader().Describe(later)->progress.num_batches);
}

TEST(LoaderTest, ANewGenerationWakesAndEndsTheSessionsOfTheOldOne) {
  LoaderWorld world;
  int woken = 0;
  PH_ASSERT_OK_AND_ASSIGN(const auto old, world.Load(DatasetWorld::Request(),
                                                     LoaderWorld::Rank(0, 1), 1, [&] { ++woken; }));
  EXPECT_EQ(old->Next(world.now)->kind, LoadEvent::Kind::kBatch);
  EXPECT_EQ(old->Next(world.now)->kind, LoadEvent::Kind::kWait);
  PH_ASSERT_OK_AND_ASSIGN(const auto other, world.LoadRank(0, 2));
  EXPECT_EQ(woken, 1);
  EXPECT_THAT(old->Next(world.now),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no part")));
}

TEST(LoaderTest, WaitsForAcknowledgementsAndIsWoken) {
  LoaderWorld world;
  int woken = 0;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto session,
      world.Load(DatasetWorld::Request(), LoaderWorld::Rank(0, 1), 2, [&] { ++woken; }));
  const uint64_t first = session->Next(world.now)->number;
  session->Next(world.now)->number;
  EXPECT_EQ(session->Next(world.now)->kind, LoadEvent::Kind::kWait);
  EXPECT_EQ(woken, 0);
  EXPECT_THAT(world.Acknowledge(*session, {first}), IsOk());
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(session->Next(world.now)->kind, LoadEvent::Kind::kBatch);
  EXPECT_EQ(world.loader().Snapshot().sessions().num_in_flight, 2);
}

TEST(LoaderTest, DynamicWorkersTakeOverWhatExpires) {
  LoaderWorld world;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto silent, world.Load(DatasetWorld::Request(), LoaderWorld::Dynamic("silent"), 1000));
  std::vector<uint64_t> leased;
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, silent->Next(world.now));
    if (event.kind != LoadEvent::Kind::kBatch) break;
    leased.push_back(event.number);
  }
  int woken = 0;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto worker,
      world.Load(DatasetWorld::Request(), LoaderWorld::Dynamic("worker"), 4, [&] { ++woken; }));
  EXPECT_EQ(worker->Next(world.now)->kind, LoadEvent::Kind::kWait);
  EXPECT_EQ(world.loader().NextExpiry(), world.now + kLoaderLease);
  world.now += kLoaderLease;
  world.loader().Expire(world.now);
  EXPECT_EQ(woken, 1);
  ExpectAllOnce(TakeAll(world, *worker), 60);
  // Too late, but harmless.
  EXPECT_EQ(world.Acknowledge(*silent, leased)->num_new, 0);
  EXPECT_EQ(silent->Next(world.now)->kind, LoadEvent::Kind::kEnd);
  const DeliverySnapshot snapshot = world.loader().Snapshot();
  EXPECT_EQ(snapshot.totals.expired, leased.size());
  EXPECT_EQ(snapshot.totals.redelivered, leased.size());
  EXPECT_EQ(snapshot.totals.acknowledged, leased.size());
  EXPECT_EQ(snapshot.sessions().num_sessions, 2);
}

TEST(LoaderTest, AWorkerThatGoesGivesBackAndWakesOthers) {
  LoaderWorld world;
  PH_ASSERT_OK_AND_ASSIGN(auto gone,
                          world.Load(DatasetWorld::Request(), LoaderWorld::Dynamic("gone"), 1000));
  while (gone->Next(world.now)->kind == LoadEvent::Kind::kBatch) {
  }
  int woken = 0;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto worker,
      world.Load(DatasetWorld::Request(), LoaderWorld::Dynamic("worker"), 4, [&] { ++woken; }));
  EXPECT_EQ(worker->Next(world.now)->kind, LoadEvent::Kind::kWait);
  gone = nullptr;
  EXPECT_EQ(woken, 1);
  ExpectAllOnce(TakeAll(world, *worker), 60);
}

TEST(LoaderTest, AnEpochIsLoadedInTheSameWordsByAll) {
  LoaderWorld world;
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 2));
  EpochRequest request = DatasetWorld::Request();
  request.seed = 99;
  EXPECT_THAT(world.Load(request, LoaderWorld::Rank(1, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("seed 99")));
  EXPECT_THAT(world.loader().Describe(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("seed 99")));
  request = DatasetWorld::Request({25, 30, 6});
  EXPECT_THAT(world.Load(request, LoaderWorld::Rank(1, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("limits")));
  request = DatasetWorld::Request();
  request.padding = Padding::kGraph;
  EXPECT_THAT(world.Load(request, LoaderWorld::Rank(1, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("")));
  EXPECT_THAT(world.LoadRank(1, 2), IsOk());
}

TEST(LoaderTest, WhoCannotJoinDecidesNothing) {
  LoaderWorld world;
  EXPECT_THAT(world.Load(DatasetWorld::Request(), LoaderWorld::Rank(5, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 5")));
  EXPECT_THAT(world.Load(DatasetWorld::Request({25, 30, 6}), LoaderWorld::Rank(0, 2)), IsOk());
}

TEST(LoaderTest, DescribesWithoutOpening) {
  LoaderWorld world;
  PH_ASSERT_OK_AND_ASSIGN(const Loader::Description before,
                          world.loader().Describe(DatasetWorld::Request()));
  EXPECT_EQ(before.progress.generation, 0);
  EXPECT_EQ(PlanOf(*before.epoch).num_graphs(), 60);
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 0);
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 1));
  TakeAll(world, *session);
  PH_ASSERT_OK_AND_ASSIGN(const Loader::Description after,
                          world.loader().Describe(DatasetWorld::Request()));
  EXPECT_EQ(after.progress.num_done, before.progress.num_batches);
  EXPECT_EQ(after.epoch->identity(), before.epoch->identity());
}

TEST(LoaderTest, DescribesAShareWithoutOpening) {
  LoaderWorld world;
  const auto share_of = [&](const JoinRequest& join) {
    return world.loader().Describe(DatasetWorld::Request(), {}, {join, std::nullopt});
  };
  PH_ASSERT_OK_AND_ASSIGN(const Loader::Description nobodys,
                          world.loader().Describe(DatasetWorld::Request()));
  EXPECT_FALSE(nobodys.progress.share);
  const uint64_t batches = nobodys.progress.num_batches;
  const uint64_t steps = (batches + 1) / 2;
  // Of a job that nobody knows.
  PH_ASSERT_OK_AND_ASSIGN(Loader::Description told, share_of(LoaderWorld::Rank(1, 2)));
  EXPECT_EQ(told.progress.share, (EpochShare{steps, 0, false, 0, steps}));
  PH_ASSERT_OK_AND_ASSIGN(told, share_of(LoaderWorld::Dynamic("worker")));
  EXPECT_EQ(told.progress.share, (EpochShare{batches, 0, false, 0, batches}));
  PH_ASSERT_OK_AND_ASSIGN(told, world.loader().loader().Describe(
                                    /*job=*/nullptr, DatasetWorld::Request(), {},
                                    {LoaderWorld::Rank(1, 2), std::nullopt}));
  EXPECT_EQ(told.progress.share, (EpochShare{steps, 0, false, 0, steps}));
  EXPECT_THAT(share_of(LoaderWorld::Rank(2, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2: there are 2")));
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 0);

  std::string cursor;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(1, 2));
    for (int i = 0; i < 3; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
      PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult result,
                              world.Acknowledge(*session, {event.number}));
      cursor = result.cursor;
    }
    PH_ASSERT_OK_AND_ASSIGN(told, share_of(LoaderWorld::Rank(1, 2)));
    EXPECT_EQ(told.progress.share, (EpochShare{steps, 3, false, 0, steps}));
    PH_ASSERT_OK_AND_ASSIGN(told, share_of(LoaderWorld::Rank(0, 2)));
    EXPECT_EQ(told.progress.share, (EpochShare{steps, 0, false, 0, steps}));
    // Of another number of ranks, whose join would start a generation.
    PH_ASSERT_OK_AND_ASSIGN(told, share_of(LoaderWorld::Rank(0, 1)));
    EXPECT_EQ(told.progress.share, (EpochShare{batches - 3, 0, false, 3, batches}));
    EXPECT_EQ(told.progress.generation, session->start().join.generation);
    EXPECT_THAT(world.Acknowledge(*session, {}), IsOk());
  }
  world.Restart();
  JoinRequest join = LoaderWorld::Rank(0, 1);
  join.cursor = DecodeCursor(cursor).value();
  PH_ASSERT_OK_AND_ASSIGN(told, share_of(join));
  EXPECT_EQ(told.progress.share, (EpochShare{batches - 3, 0, false, 3, batches}));
  // Also if the job is gone.
  ASSERT_THAT(world.loader().DeleteJob("job"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(told, share_of(join));
  EXPECT_EQ(told.progress.share, (EpochShare{batches - 3, 0, false, 3, batches}));
}

TEST(LoaderTest, DescribesTheStepsOfAnEvaluation) {
  LoaderWorld world;
  EpochRequest request = DatasetWorld::Request();
  request.key.job.clear();
  EvaluationRequest asked;
  asked.sharing = Sharing::Ranked(3);
  asked.rank = 1;
  asked.first_step = 2;
  PH_ASSERT_OK_AND_ASSIGN(const Loader::Description told,
                          world.loader().Describe(request, {}, {std::nullopt, asked}));
  const uint64_t steps = (told.progress.num_batches + 2) / 3;
  EXPECT_EQ(told.progress.share, (EpochShare{steps, 2, false, 0, steps}));
  asked.first_step = steps + 1;
  EXPECT_THAT(world.loader().Describe(request, {}, {std::nullopt, asked}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("evaluation.first_step")));
}

TEST(LoaderTest, DeletesAJob) {
  LoaderWorld world;
  EXPECT_THAT(world.loader().DeleteJob("job"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'job'")));
  int woken = 0;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto session,
      world.Load(DatasetWorld::Request(), LoaderWorld::Rank(0, 1), 1, [&] { ++woken; }));
  const uint64_t number = session->Next(world.now)->number;
  EXPECT_EQ(session->Next(world.now)->kind, LoadEvent::Kind::kWait);
  const LeaseCounters totals = world.loader().Snapshot().totals;
  EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(world.loader().Snapshot().totals.leased, totals.leased);
  EXPECT_THAT(session->Next(world.now), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job")));
  EXPECT_THAT(world.Acknowledge(*session, {number}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job")));
  // Begun anew, in other words even, it has nothing to do with the old one.
  PH_ASSERT_OK_AND_ASSIGN(const auto anew,
                          world.Load(DatasetWorld::Request({25, 30, 6}), LoaderWorld::Rank(0, 1)));
  EXPECT_THAT(session->Next(world.now), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job")));
  EXPECT_GT(anew->start().join.generation, session->start().join.generation);
}

TEST(LoaderTest, RemembersABoundedNumberOfEpochs) {
  JobsOptions options = LoaderWorld::Options();
  options.max_epochs = 5;
  options.kept_finished_epochs = 2;
  LoaderWorld world(20, options);
  for (uint64_t epoch = 0; epoch < 12; ++epoch) {
    PH_ASSERT_OK_AND_ASSIGN(
        const auto session,
        world.Load(DatasetWorld::Request({24, 30, 6}, epoch), LoaderWorld::Rank(0, 1)));
    ExpectAllOnce(TakeAll(world, *session), 20);
    EXPECT_LE(world.loader().Snapshot().num_epochs, 3);
  }
  // What is not finished is not forgotten; there is a bound all the same.
  for (uint64_t epoch = 100; epoch < 103; ++epoch) {
    EXPECT_THAT(world.Load(DatasetWorld::Request({24, 30, 6}, epoch), LoaderWorld::Rank(0, 1)),
                IsOk());
  }
  EXPECT_THAT(world.Load(DatasetWorld::Request({24, 30, 6}, 103), LoaderWorld::Rank(0, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 5")));
}

// A checkpoint of an epoch that is forgotten rolls back to it: each later epoch makes room once.
TEST(LoaderTest, ARollBackToAForgottenEpochGivesEachLaterOneBackOnce) {
  JobsOptions options = LoaderWorld::Options();
  options.kept_finished_epochs = 2;
  options.max_epochs = 3;
  LoaderWorld world(20, options);
  std::string cursor;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    PH_ASSERT_OK_AND_ASSIGN(
        const auto session,
        world.Load(DatasetWorld::Request({24, 30, 6}, epoch), LoaderWorld::Rank(0, 1)));
    if (epoch == 0) {
      cursor = world.Acknowledge(*session, {session->Next(world.now)->number})->cursor;
    }
    TakeAll(world, *session);
  }
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 3);
  JoinRequest join = LoaderWorld::Rank(0, 1);
  join.cursor = DecodeCursor(cursor).value();
  join.attempt = "second";
  // What has made room for a change that does not happen is there again.
  world.log().FailNext(FailingLog::Failure::kRefuses);
  EXPECT_FALSE(world.Load(DatasetWorld::Request({24, 30, 6}, 0), join).ok());
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 3);
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto anew,
                            world.Load(DatasetWorld::Request({24, 30, 6}, 0), join));
    EXPECT_EQ(world.loader().Snapshot().num_epochs, 1);
  }
  EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 0);
  EXPECT_THAT(world.LoadRank(0, 1), IsOk());
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 1);
}

// The epoch that is forgotten for a new one may be the only one that has the plan of the new one.
TEST(LoaderTest, APlanOutlivesTheEpochThatMakesRoom) {
  JobsOptions options = LoaderWorld::Options();
  options.kept_finished_epochs = 2;
  LoaderWorld world(20, options);
  for (const uint64_t epoch : {0, 1, 2, 3, 4, 5, 6}) {
    const uint32_t max_nodes = epoch % 3 == 0 ? 24 : 25;
    PH_ASSERT_OK_AND_ASSIGN(
        auto session,
        world.Load(DatasetWorld::Request({max_nodes, 30, 6}, epoch), LoaderWorld::Rank(0, 1)));
    ExpectAllOnce(TakeAll(world, *session), 20);
    EXPECT_LE(world.loader().Snapshot().num_epochs, 3);
    session = nullptr;
    if (epoch == 4) world.Restart();
  }
}

// What nobody uses makes room, after a restart too; its checkpoint is refused, and says why.
TEST(LoaderTest, EpochsThatNobodyUsesAreForgotten) {
  JobsOptions options = LoaderWorld::Options();
  options.epoch_retention = absl::Hours(48);
  LoaderWorld world(60, options);
  world.now = absl::UnixEpoch() + absl::Hours(24 * 365 * 50);
  JoinRequest join = LoaderWorld::Rank(0, 1);
  join.now = world.now;
  std::string cursor;
  uint64_t generation = 0;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(DatasetWorld::Request(), join));
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
    cursor = world.Acknowledge(*session, {event.number})->cursor;
    generation = session->start().join.generation;
    // Somebody loads it.
    EXPECT_EQ(*world.loader().ForgetUnused(world.now + absl::Hours(1000)), 0U);
  }
  const absl::Time used = world.now;
  // Used again later, by an acknowledgement.
  world.now = used + absl::Hours(40);
  EXPECT_THAT(world.loader().Acknowledge({"job", 0}, 0, generation, {0}, world.now), IsOk());
  world.Restart();
  EXPECT_EQ(*world.loader().ForgetUnused(used + absl::Hours(87)), 0U);
  EXPECT_EQ(*world.loader().ForgetUnused(used + absl::Hours(88)), 1U);
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 0);
  for (const bool restart : {false, true}) {
    if (restart) world.Restart();
    EXPECT_THAT(world.loader().Acknowledge({"job", 0}, 0, generation, {0}, world.now),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--epoch-retention")));
    join.cursor = DecodeCursor(cursor).value();
    join.attempt = "2";
    EXPECT_THAT(world.Load(DatasetWorld::Request(), join),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--epoch-retention")));
    join.cursor.reset();
    join.generation = generation;
    EXPECT_THAT(world.Load(DatasetWorld::Request(), join),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--epoch-retention")));
    join.generation.reset();
  }
  // A trainer that has its job forgotten may go on from its checkpoint.
  EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
  join.cursor = DecodeCursor(cursor).value();
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(DatasetWorld::Request(), join));
  EXPECT_EQ(session->start().num_steps, session->start().progress.num_batches - 1);
}

// Of uses one an hour is written; while the server lives, the last one counts.
TEST(LoaderTest, AnEpochIsKeptFromItsLastUseOn) {
  JobsOptions options = LoaderWorld::Options();
  options.epoch_retention = absl::Hours(48);
  LoaderWorld world(60, options);
  JoinRequest join = LoaderWorld::Rank(0, 1);
  join.now = absl::UnixEpoch() + absl::Hours(1000);
  PH_ASSERT_OK_AND_ASSIGN(auto session, world.Load(DatasetWorld::Request(), join));
  const absl::Time used = world.now = join.now + absl::Minutes(30);
  PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(used));
  EXPECT_THAT(world.Acknowledge(*session, {event.number}), IsOk());
  session = nullptr;
  EXPECT_EQ(world.loader().GetJob("job")->used_seconds, absl::ToUnixSeconds(used));
  EXPECT_EQ(*world.loader().ForgetUnused(used + absl::Hours(48) - absl::Seconds(1)), 0U);
  EXPECT_EQ(*world.loader().ForgetUnused(used + absl::Hours(48)), 1U);
}

TEST(LoaderTest, AnExpiredEpochIsBegunAnewWithoutItsCursor) {
  JobsOptions options = LoaderWorld::Options();
  options.epoch_retention = absl::Hours(48);
  LoaderWorld world(60, options);
  JoinRequest join = LoaderWorld::Rank(0, 1);
  join.now = absl::UnixEpoch() + absl::Hours(1000);
  PH_ASSERT_OK_AND_ASSIGN(auto session, world.Load(DatasetWorld::Request(), join));
  const uint64_t generation = session->start().join.generation;
  session = nullptr;
  EXPECT_EQ(*world.loader().ForgetUnused(join.now + absl::Hours(48)), 1U);
  EXPECT_EQ(world.loader().num_jobs(), 1U);
  join.now += absl::Hours(50);
  PH_ASSERT_OK_AND_ASSIGN(session, world.Load(DatasetWorld::Request(), join));
  EXPECT_GT(session->start().join.generation, generation);
  session = nullptr;
  // What is left of it goes as well, when it has been so for as long again.
  EXPECT_EQ(*world.loader().ForgetUnused(join.now + absl::Hours(48)), 1U);
  EXPECT_EQ(*world.loader().ForgetUnused(join.now + absl::Hours(96)), 0U);
  EXPECT_EQ(world.loader().num_jobs(), 0U);
}

// An older server did not write when an epoch was used.
TEST(LoaderTest, EpochsWithoutATimeCountAsUsedWhenTheyAreFirstLookedAt) {
  JobsOptions options = LoaderWorld::Options();
  options.epoch_retention = absl::Hours(48);
  LoaderWorld world(60, options);
  const EpochIdentity identity =
      world.loader().Describe(DatasetWorld::Request())->epoch->identity();
  ASSERT_THAT(world.log().Append({EncodeEvent(EpochOpened{identity}),
                                  EncodeEvent(GenerationStarted{identity.key, 1, "", {}, {}})}),
              IsOk());
  world.Restart();
  const absl::Time now = absl::UnixEpoch() + absl::Hours(24 * 365 * 50);
  EXPECT_EQ(*world.loader().ForgetUnused(now), 0U);
  world.Restart();
  EXPECT_EQ(*world.loader().ForgetUnused(now + absl::Hours(47)), 0U);
  EXPECT_EQ(*world.loader().ForgetUnused(now + absl::Hours(48)), 1U);
}

// One client cannot take the others' epochs, across restarts.
TEST(LoaderTest, EpochsAreCountedByClient) {
  JobsOptions options = LoaderWorld::Options();
  options.max_epochs = 5;
  options.max_epochs_per_client = 3;
  LoaderWorld world(20, options);
  const auto load = [&](const std::string& client, uint64_t epoch) {
    JoinRequest join = LoaderWorld::Rank(0, 1);
    join.client = client;
    return world.Load(DatasetWorld::Request({24, 30, 6}, epoch), join).status();
  };
  for (uint64_t epoch = 0; epoch < 3; ++epoch) EXPECT_THAT(load("10.0.0.1", epoch), IsOk());
  EXPECT_THAT(load("10.0.0.1", 3),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 3")));
  world.Restart();
  EXPECT_THAT(load("10.0.0.1", 3),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'10.0.0.1'")));
  // It may load any epoch that exists, even if another client opened it.
  EXPECT_THAT(load("10.0.0.2", 3), IsOk());
  EXPECT_THAT(load("10.0.0.1", 3), IsOk());
  EXPECT_THAT(load("10.0.0.3", 4), IsOk());
  EXPECT_THAT(load("10.0.0.3", 5),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 5")));
  EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
  EXPECT_THAT(load("10.0.0.1", 5), IsOk());
}

// A client whose own bound refuses it leaves what had made room for it as it was.
TEST(LoaderTest, WhoIsRefusedTakesNothingOfOthers) {
  JobsOptions options = LoaderWorld::Options();
  options.max_epochs_per_client = 1;
  options.kept_finished_epochs = 0;
  LoaderWorld world(20, options);
  const auto load = [&](const std::string& client, const std::string& job, uint64_t epoch) {
    JoinRequest join = LoaderWorld::Rank(0, 1);
    join.client = client;
    EpochRequest request = DatasetWorld::Request({24, 30, 6}, epoch);
    request.key.job = job;
    return world.Load(request, join);
  };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, load("a", "job", 0));
    ExpectAllOnce(TakeAll(world, *session), 20);
  }
  EXPECT_THAT(load("b", "other", 0), IsOk());
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THAT(load("b", "job", 1),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 1")));
    EXPECT_EQ(world.loader().Snapshot().num_epochs, 2);
  }
  EXPECT_THAT(load("a", "other", 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'a'")));
  // What is finished makes room for its own client.
  EXPECT_THAT(load("a", "job", 1), IsOk());
  EXPECT_EQ(world.loader().Snapshot().num_epochs, 2);
}

// One that was begun by a release that did not mix goes on so, wherever it is made.
TEST(LoaderTest, AnEpochThatWasBegunWithoutMixingStaysSo) {
  LoaderWorld world;
  EpochRequest request = DatasetWorld::Request();
  request.mixing.is_off = true;
  EpochIdentity begun;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, LoaderWorld::Rank(0, 1)));
    begun = session->epoch().identity();
  }
  request.mixing.is_off = false;
  for (const bool restarts : {false, true}) {
    if (restarts) world.Restart();
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, LoaderWorld::Rank(0, 1)));
    EXPECT_EQ(session->epoch().identity(), begun);
    PH_ASSERT_OK_AND_ASSIGN(const Job::Opened opened, world.loader().OpenedNear({"job", 0}));
    PH_ASSERT_OK_AND_ASSIGN(const auto again, world.loader().Rebuild(request, opened, {}));
    EXPECT_EQ(again->identity(), begun);
    // What is made now is what was opened, or it is refused.
    Job::Opened other = opened;
    ++other.identity.dataset_version;
    EXPECT_THAT(world.loader().Rebuild(request, other, {}).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("dataset version")));
  }
}

TEST(LoaderTest, ListsJobs) {
  LoaderWorld world;
  EXPECT_TRUE(world.loader().ListJobs(0, "").jobs.empty());
  EXPECT_THAT(world.loader().GetJob("a"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'a'")));
  std::vector<std::unique_ptr<LoadSession>> sessions;
  for (const std::string job : {"b", "a", "c"}) {
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      EpochRequest request = DatasetWorld::Request({24, 30, 6}, epoch);
      request.key.job = job;
      JoinRequest join = LoaderWorld::Rank(0, 1);
      join.client = "10.0.0.7";
      join.now = absl::UnixEpoch() + absl::Seconds(5000 + epoch);
      PH_ASSERT_OK_AND_ASSIGN(auto session, world.Load(request, join));
      sessions.push_back(std::move(session));
    }
  }
  EXPECT_THAT(world.Acknowledge(*sessions[0], {0}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const JobSummary b, world.loader().GetJob("b"));
  EXPECT_EQ(b.num_epochs, 2U);
  EXPECT_EQ(b.num_sessions, 2U);
  EXPECT_EQ(b.used_seconds, 5001U);
  EXPECT_EQ(b.epochs[0].progress.key.epoch, 1U);
  EXPECT_EQ(b.epochs[1].progress.num_done, 1U);
  EXPECT_EQ(b.epochs[1].progress.num_batches, sessions[0]->start().progress.num_batches);
  EXPECT_EQ(b.epochs[1].progress.generation, sessions[0]->start().join.generation);
  EXPECT_EQ(b.epochs[1].dataset, "graphs");
  EXPECT_EQ(b.epochs[1].client, "10.0.0.7");
  // By pages.
  std::vector<std::string> names;
  std::string token;
  do {
    const JobList page = world.loader().ListJobs(2, token);
    EXPECT_EQ(page.jobs.size(), names.empty() ? 2U : 1U);
    for (const JobSummary& job : page.jobs) names.push_back(job.name);
    token = page.next_page_token;
  } while (!token.empty());
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b", "c"));
  sessions.clear();
  EXPECT_EQ(world.loader().GetJob("b")->num_sessions, 0U);
}

// The last reader of a data set that was deleted erases it from the disk: not where a stream ends.
TEST(LoaderTest, EpochsAreLetGoOfInTheBackground) {
  LoaderWorld world;
  std::vector<std::function<void()>> work;
  world.loader().RunInBackground(
      [&](std::function<void()> one) { work.push_back(std::move(one)); });
  const auto run = [&] {
    for (const auto& one : std::exchange(work, {})) one();
  };
  auto session =
      world.loader().StartLoad(DatasetWorld::Request(), LoaderWorld::Rank(0, 1), 4, [] {});
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ((*session)->Next(world.now)->kind, LoadEvent::Kind::kWait);
  run();
  auto evaluation = world.loader().Evaluate(DatasetWorld::Request({24, 30, 6}, 7), {});
  ASSERT_THAT(evaluation, IsOk());
  EXPECT_TRUE(work.empty());
  // Its leases, and what its batches are made of.
  session->reset();
  EXPECT_EQ(work.size(), 2U);
  evaluation->reset();
  EXPECT_EQ(work.size(), 3U);
  run();
}

TEST(LoaderTest, TheLogStaysShort) {
  JobsOptions options = LoaderWorld::Options();
  options.max_log_records = 16;
  LoaderWorld world(60, options);
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    PH_ASSERT_OK_AND_ASSIGN(
        const auto session,
        world.Load(DatasetWorld::Request({24, 30, 6}, epoch), LoaderWorld::Rank(0, 1)));
    ExpectAllOnce(TakeAll(world, *session), 60);
    EXPECT_LE(world.log().num_records(), 64);
  }
  EXPECT_GT(world.log().history().size(), 100);
  const auto progress = [&world] {
    return world.loader().Describe(DatasetWorld::Request({24, 30, 6}, 7))->progress;
  };
  const EpochProgress before = progress();
  world.Restart();
  const EpochProgress after = progress();
  EXPECT_EQ(after.num_done, before.num_done);
  EXPECT_EQ(after.generation, before.generation);
}

TEST(LoaderTest, NothingIsDoneThatTheLogRefused) {
  LoaderWorld world;
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.LoadRank(0, 1));
  const uint64_t number = session->Next(world.now)->number;
  world.log().FailNext(FailingLog::Failure::kRefuses);
  EXPECT_THAT(world.Acknowledge(*session, {number}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_EQ(world.loader().Describe(DatasetWorld::Request())->progress.num_done, 0);
  EXPECT_EQ(world.Acknowledge(*session, {number})->num_new, 1);
}

// A device that is measured, whose limits have at most so many rows of each component.
DeviceProfile DeviceWithAtMost(uint64_t max_rows) {
  DeviceProfile device;
  device.components.resize(3);
  for (ComponentProfile& component : device.components) component.max_rows = max_rows;
  device.fixed_cost = 1000;  // The larger the batches, the better.
  device.measured_as = "gin/sim";
  return device;
}

EpochRequest MeasuredRequest(uint64_t epoch, uint64_t most_as_declared, uint64_t most_as_measured) {
  EpochRequest request = DatasetWorld::Request({}, epoch);
  request.rank_groups[0] = {{}, DeviceWithAtMost(most_as_declared), 1};
  request.rank_groups[0].measured = DeviceWithAtMost(most_as_measured);
  request.adaptive = true;
  return request;
}

// All of an epoch's workers get the limits with which the first of them opened it, whatever is
// measured meanwhile. Who asks about the epoch in other words neither gets nor gives them.
TEST(LoaderTest, TheFirstWorkersMeasurementsFixTheLimitsOfThoseWhoOpenTheEpochInTheSameWords) {
  LoaderWorld world;
  std::vector<std::function<void()>> later;
  world.loader().RunInBackground(
      [&later](std::function<void()> work) { later.push_back(std::move(work)); });
  const auto limits_of = [](const LoadableEpoch& epoch) { return epoch.shapes(0)[0].capacities; };
  const auto load = [&](const EpochRequest& request, uint32_t rank) {
    return world.loader().StartLoad(request, LoaderWorld::Rank(rank, 2), 4, [] {});
  };
  // Alone, each gets what it asks for.
  PH_ASSERT_OK_AND_ASSIGN(const auto alone, world.loader().Describe(MeasuredRequest(0, 64, 48)));
  PH_ASSERT_OK_AND_ASSIGN(const auto fewer, world.loader().Describe(MeasuredRequest(0, 64, 24)));
  const std::vector<uint64_t> at_first = limits_of(*alone.epoch);
  const std::vector<uint64_t> after_reports = limits_of(*fewer.epoch);
  ASSERT_NE(at_first, after_reports);

  PH_ASSERT_OK_AND_ASSIGN(auto first, load(MeasuredRequest(0, 64, 48), 0));
  EXPECT_EQ(limits_of(first->epoch()), at_first);
  // The join of the first is not committed yet.
  PH_ASSERT_OK_AND_ASSIGN(const bool joined, first->HasJoined());
  ASSERT_FALSE(joined);
  PH_ASSERT_OK_AND_ASSIGN(auto second, load(MeasuredRequest(0, 64, 24), 1));
  EXPECT_EQ(limits_of(second->epoch()), at_first);
  EpochRequest other_words = MeasuredRequest(0, 56, 24);
  PH_ASSERT_OK_AND_ASSIGN(const auto other, world.loader().Describe(other_words));
  EXPECT_EQ(limits_of(*other.epoch), after_reports);
  // Another epoch of the job has its own.
  PH_ASSERT_OK_AND_ASSIGN(const auto next, world.loader().Describe(MeasuredRequest(1, 64, 24)));
  EXPECT_EQ(limits_of(*next.epoch), after_reports);

  while (!later.empty()) {
    for (const auto& work : std::exchange(later, {})) work();
  }
  EXPECT_THAT(first->HasJoined(), IsOkAndHolds(true));
  EXPECT_THAT(second->HasJoined(), IsOkAndHolds(true));
  // In the ledger they stay for whoever comes, also where others would be better.
  for (const uint64_t most : {24, 64}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto open, world.loader().Describe(MeasuredRequest(0, 64, most)));
    EXPECT_EQ(limits_of(*open.epoch), at_first);
  }
  first = nullptr;
  second = nullptr;
  while (!later.empty()) {
    for (const auto& work : std::exchange(later, {})) work();
  }
}

TEST(LoaderTest, AnAdaptiveJobsEpochIsRebuiltOnlyWhileItIsRemembered) {
  LoaderWorld world;
  EpochRequest request = MeasuredRequest(0, 64, 48);
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, LoaderWorld::Rank(0, 1)));
  PH_ASSERT_OK_AND_ASSIGN(const Job::Opened opened, world.loader().OpenedNear({"job", 5}));
  ASSERT_EQ(opened.identity.key.epoch, 0U);
  // Nothing is measured when it is rebuilt.
  request.rank_groups[0].measured = std::nullopt;
  PH_ASSERT_OK_AND_ASSIGN(const auto again, world.loader().Rebuild(request, opened, {}));
  EXPECT_EQ(again->shapes(0)[0].capacities, session->epoch().shapes(0)[0].capacities);
  request.key.epoch = 5;
  EXPECT_THAT(world.loader().Rebuild(request, opened, {}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("epoch 5 of job 'job': the limits of an adaptive job's epoch")));
  // Limits that do not move are those of any epoch.
  request.adaptive = false;
  PH_ASSERT_OK_AND_ASSIGN(const auto later, world.loader().Rebuild(request, opened, {}));
  EXPECT_EQ(later->shapes(0)[0].capacities, session->epoch().shapes(0)[0].capacities);
}

// The plan of an epoch that draws its graphs is of no use to another one.
TEST(LoaderTest, AnEpochThatDrawsIsRebuiltWithAPlanOfItsOwn) {
  LoaderWorld world;
  EpochRequest request = DatasetWorld::Request();
  request.draw = WeightedDraw{{}, 40, false};
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, LoaderWorld::Rank(0, 1)));
  PH_ASSERT_OK_AND_ASSIGN(const Job::Opened opened, world.loader().OpenedNear({"job", 5}));
  PH_ASSERT_OK_AND_ASSIGN(const auto same, world.loader().Rebuild(request, opened, {}));
  EXPECT_EQ(same->planned()->receipt, opened.plan->receipt);
  request.key.epoch = 5;
  PH_ASSERT_OK_AND_ASSIGN(const auto rebuilt, world.loader().Rebuild(request, opened, {}));
  EpochCatalog catalog(&world.dataset().store(), EpochBounds());
  PH_ASSERT_OK_AND_ASSIGN(const auto anew, catalog.Prepare(request));
  EXPECT_EQ(ChecksumOfGraphs(*rebuilt), ChecksumOfGraphs(*anew));
  EXPECT_EQ(rebuilt->planned()->receipt, anew->planned()->receipt);
}

// How often graphs meet again is told to those who ask for it.
TEST(LoaderTest, TellsOfCompanyWhereItIsAskedFor) {
  LoaderWorld world;
  Loader& loader = world.loader().loader();
  PH_ASSERT_OK_AND_ASSIGN(const auto without, loader.Describe(nullptr, DatasetWorld::Request()));
  EXPECT_FALSE(without.company.has_value());
  PH_ASSERT_OK_AND_ASSIGN(const auto with, loader.Describe(nullptr, DatasetWorld::Request(), {}, {},
                                                           /*tells_company=*/true));
  PH_ASSERT_OK_AND_ASSIGN(const auto company, with.epoch->MeasureCompany(Making()));
  ASSERT_TRUE(company.has_value());
  ASSERT_TRUE(with.company.has_value());
  EXPECT_EQ(with.company->Ratio(), company->Ratio());
}

TEST(LoaderTest, AReceiptIsFoundInTheEpochsThatMayBeShown) {
  LoaderWorld world;
  for (const uint64_t epoch : {0, 1}) {
    EXPECT_THAT(world.Load(DatasetWorld::Request({24, 30, 6}, epoch), LoaderWorld::Rank(0, 1)),
                IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const Job::Opened opened, world.loader().OpenedNear({"job", 0}));
  ASSERT_NE(opened.plan, nullptr);
  const std::string receipt = opened.plan->receipt;
  const auto find = [&](const std::set<uint64_t>& shown) {
    return world.loader().FindPlan(receipt, [&](const EpochIdentity& identity) {
      return shown.count(identity.key.epoch) != 0;
    });
  };
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Planned first, find({0, 1}));
  EXPECT_EQ(first.opened.identity.key.epoch, 0U);
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Planned second, find({1}));
  EXPECT_EQ(second.opened.identity.key.epoch, 1U);
  EXPECT_EQ(second.plan->receipt, receipt);
  EXPECT_THAT(find({}).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(receipt)));
  EXPECT_THAT(
      world.loader().FindPlan("v1-another", [](const EpochIdentity&) { return true; }).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("v1-another")));
}

TEST(LoaderTest, PlannedRanksStayWhenRanksChange) {
  LoaderWorld world(120);
  EpochRequest request = DatasetWorld::Request();
  request.rank_groups = {{{{64, 64, 20}}, std::nullopt, 2}, {{{20, 24, 6}}, std::nullopt, 2}};
  JoinRequest join;
  join.sharing.rank_group_of_rank = {0, 0, 1, 1};
  std::vector<uint64_t> all;
  std::string cursor;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, join));
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
    all = event.built.batch.graph_ids;
    cursor = world.Acknowledge(*session, {event.number})->cursor;
  }
  // A rank of each rank group is left, and the server has forgotten everything.
  EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
  world.Restart();
  request.rank_groups[0].num_ranks = 1;
  request.rank_groups[1].num_ranks = 1;
  join.sharing.rank_group_of_rank = {0, 1};
  join.cursor = DecodeCursor(cursor).value();
  join.attempt = "second";
  for (uint32_t rank = 0; rank < 2; ++rank) {
    join.queue = rank;
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request, join));
    const std::vector<uint64_t> own = TakeAll(world, *session);
    all.insert(all.end(), own.begin(), own.end());
  }
  ExpectAllOnce(all, 120);
}

// Numbers of batches come from an epoch beside it, the numbers of ranks do not.
TEST(LoaderTest, EachEpochInSegmentsIsPlannedForItsOwnRanks) {
  LoaderWorld world(1200);
  world.Restart(QuickPlans());
  EpochRequest request = InSegments(1);
  request.rank_groups = {{{{64, 64, 20}}, std::nullopt, 1}, {{{20, 24, 6}}, std::nullopt, 1}};
  const auto planned = [&](const std::string& job, uint64_t epoch, uint32_t first,
                           uint32_t second) {
    request.key = {job, epoch};
    request.rank_groups[0].num_ranks = first;
    request.rank_groups[1].num_ranks = second;
    JoinRequest join;
    join.sharing.rank_group_of_rank.assign(first, 0);
    join.sharing.rank_group_of_rank.insert(join.sharing.rank_group_of_rank.end(), second, 1);
    const auto session = world.Load(request, join);
    EXPECT_THAT(session, IsOk());
    const EpochIdentity& identity = (*session)->epoch().identity();
    EXPECT_EQ(identity.rank_groups[0].planned_ranks, first);
    EXPECT_EQ(identity.rank_groups[1].planned_ranks, second);
    return identity.first_batches();
  };
  planned("job", 0, 2, 2);
  const auto after_another = planned("job", 1, 2, 6);
  EXPECT_EQ(after_another, planned("alone", 1, 2, 6));
}

std::string BytesOf(const Batch& batch) {
  std::string bytes;
  for (const uint64_t id : batch.graph_ids) absl::StrAppend(&bytes, id, " ");
  for (const BatchTensor& tensor : batch.tensors) absl::StrAppend(&bytes, tensor.data);
  return bytes;
}

// Batches in steps of like cost: whoever goes on, with any number of ranks, after any crash, gets
// the epoch that was begun, each batch with the same bytes, and each graph once.
TEST(LoaderTest, StepsOfLikeCostStayThroughCrashesAndOtherRanks) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    LoaderWorld world(200);
    EpochRequest request = DatasetWorld::Request();
    if (seed % 2 == 1) {
      request.rank_groups = {{{{64, 64, 20}}, std::nullopt, 3}, {{{20, 24, 6}}, std::nullopt, 2}};
    }
    request.rank_groups[0].num_ranks = 3;
    request.cost_balanced.emplace().cost =
        BatchCost::Create({{CostForm::kSumOfSquares, 0, 1}}, 2).value();
    // Of a server that has never seen the job.
    EpochCatalog apart(&world.dataset().store(), {});
    PH_ASSERT_OK_AND_ASSIGN(const auto planned, apart.Prepare(request));
    std::vector<uint64_t> all;
    std::optional<Cursor> cursor;
    for (int start = 0; all.size() < 200; ++start) {
      ASSERT_LT(start, 100);
      EpochRequest asked = request;
      JoinRequest join;
      join.attempt = absl::StrCat("attempt ", start);
      join.cursor = cursor;
      for (uint32_t i = 0; i < asked.rank_groups.size(); ++i) {
        uint32_t& num_ranks = asked.rank_groups[i].num_ranks;
        if (start != 0) num_ranks = static_cast<uint32_t>(random.Between(1, 4));
        for (uint32_t r = 0; r < num_ranks; ++r) join.sharing.rank_group_of_rank.push_back(i);
      }
      const bool is_dynamic = start != 0 && random.Below(4) == 0;
      if (is_dynamic) {
        join.sharing = Sharing::Dynamic();
        join.worker = "worker";
      }
      const size_t queues =
          is_dynamic ? asked.rank_groups.size() : join.sharing.rank_group_of_rank.size();
      for (uint32_t queue = 0; queue < queues; ++queue) {
        join.queue = queue;
        if (is_dynamic) join.worker = absl::StrCat("worker ", queue);
        PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(asked, join));
        EXPECT_EQ(session->epoch().identity(), planned->identity());
        for (uint64_t left = random.Below(7); left != 0; --left) {
          PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
          if (event.kind != LoadEvent::Kind::kBatch) break;
          PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult result,
                                  world.Acknowledge(*session, {event.number}));
          cursor = DecodeCursor(result.cursor).value();
          if (event.is_padding) continue;
          const Batch& sent = event.built.batch;
          EXPECT_EQ(BytesOf(sent), BytesOf(planned->Build(event.number)->batch));
          all.insert(all.end(), sent.graph_ids.begin(), sent.graph_ids.end());
        }
      }
      // As a crash; sometimes of a server that has forgotten everything, too.
      if (random.Below(3) == 0 && cursor) {
        EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
      } else {
        cursor = std::nullopt;
      }
      world.Restart();
    }
    ExpectAllOnce(all, 200);
  }
}

// Jobs of a sweep at one pace collate as often as one; whichever worker of them dies and comes
// back, each job gets each graph once, and the bytes that it would get alone.
TEST(LoaderTest, JobsOfASweepShareTheirBatches) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const bool at_one_pace = seed == 0;
    Random random(seed);
    LoaderWorld world(200);
    const auto request_of = [](size_t job) {
      EpochRequest request = DatasetWorld::Request();
      request.key.job = absl::StrCat("job ", job);
      return request;
    };
    constexpr size_t kJobs = 4;
    std::vector<std::vector<std::unique_ptr<LoadSession>>> sessions(kJobs);
    std::vector<std::vector<uint64_t>> seen(kJobs);
    // Ranks of their own.
    const auto load = [&](size_t job, size_t rank) {
      auto session =
          world.Load(request_of(job), LoaderWorld::Rank(static_cast<uint32_t>(rank), job + 1));
      EXPECT_THAT(session, IsOk());
      return *std::move(session);
    };
    for (size_t job = 0; job < kJobs; ++job) {
      for (size_t rank = 0; rank <= job; ++rank) sessions[job].push_back(load(job, rank));
    }
    EpochCatalog apart(&world.dataset().store(), {});
    PH_ASSERT_OK_AND_ASSIGN(const auto alone, apart.Prepare(request_of(0)));
    // The next batch of the job, in its order.
    std::vector<uint64_t> next(kJobs);
    const auto take = [&](size_t job) {
      const size_t rank = next[job]++ % sessions[job].size();
      auto& session = sessions[job][rank];
      PH_ASSERT_OK_AND_ASSIGN(LoadEvent event, session->Next(world.now));
      ASSERT_EQ(event.kind, LoadEvent::Kind::kBatch);
      if (!at_one_pace && random.Below(6) == 0) {
        session = nullptr;
        session = load(job, rank);
        --next[job];
        return;
      }
      ASSERT_THAT(world.Acknowledge(*session, {event.number}), IsOk());
      if (event.is_padding) return;
      const Batch& sent = event.built.batch;
      EXPECT_EQ(BytesOf(sent), BytesOf(alone->Build(event.number)->batch));
      seen[job].insert(seen[job].end(), sent.graph_ids.begin(), sent.graph_ids.end());
    };
    const auto is_over = [&](size_t job) { return seen[job].size() == 200; };
    size_t left = kJobs;
    while (left != 0) {
      left = 0;
      for (size_t job = 0; job < kJobs; ++job) {
        if (is_over(job)) continue;
        ++left;
        if (at_one_pace || random.Below(1 + job) == 0) take(job);
        if (HasFatalFailure()) return;
      }
    }
    for (size_t job = 0; job < kJobs; ++job) ExpectAllOnce(seen[job], 200);
    const uint64_t num_batches = alone->identity().num_batches();
    const uint64_t taken = world.catalog().shared_batches().num_taken();
    if (at_one_pace) {
      EXPECT_EQ(taken, (kJobs - 1) * num_batches);
    } else {
      EXPECT_GT(taken, num_batches);
    }
  }
}

// As the limits: whoever comes later orders by what was measured when the epoch was begun.
TEST(LoaderTest, MeasuredCostsOfAnEpochStayWithIt) {
  LoaderWorld world;
  const auto request = [](double of_edges) {
    EpochRequest asked = MeasuredRequest(0, 64, 48);
    asked.adaptive = false;
    asked.padding = Padding::kNone;
    asked.rank_groups[0].num_ranks = 2;
    asked.rank_groups[0].measured->components[1].relative_cost = of_edges;
    asked.cost_balanced.emplace();
    return asked;
  };
  std::string cursor;
  EpochIdentity begun;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request(1), LoaderWorld::Rank(0, 2)));
    begun = session->epoch().identity();
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(world.now));
    cursor = world.Acknowledge(*session, {event.number})->cursor;
  }
  EXPECT_THAT(begun.options, HasSubstr("; costs "));
  EXPECT_EQ(world.loader().Describe(request(9))->epoch->identity(), begun);
  {
    PH_ASSERT_OK_AND_ASSIGN(const Job::Opened opened, world.loader().OpenedNear({"job", 5}));
    EpochRequest rebuilt = request(9);
    PH_ASSERT_OK_AND_ASSIGN(const auto again, world.loader().Rebuild(rebuilt, opened, {}));
    EXPECT_EQ(again->identity(), begun);
    rebuilt.key.epoch = 5;
    EXPECT_THAT(
        world.loader().Rebuild(rebuilt, opened, {}).status(),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr("epoch 5 of job 'job': what its devices were measured to cost")));
  }
  // The cursor knows them, too.
  EXPECT_THAT(world.loader().DeleteJob("job"), IsOk());
  world.Restart();
  JoinRequest join = LoaderWorld::Rank(0, 2);
  join.cursor = DecodeCursor(cursor).value();
  PH_ASSERT_OK_AND_ASSIGN(const auto session, world.Load(request(9), join));
  EXPECT_EQ(session->epoch().identity(), begun);
}

// With joins and compaction on threads of their own, as in a server, or where they come from.
class LoaderThreadsTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, LoaderThreadsTest, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Background" : "AtOnce"; });

TEST_P(LoaderThreadsTest, ManyThreadsLoadOneEpoch) {
  SystemClock clock;
  WorkerPool pool(&clock, 2);
  JobsOptions options = LoaderWorld::Options();
  options.max_log_records = 24;
  LoaderWorld world(400, options);
  if (GetParam()) {
    world.loader().RunInBackground(
        [&pool](std::function<void()> work) { pool.Submit("", std::move(work)); });
  }
  // Another job comes and goes meanwhile, and timers look for what has expired.
  std::atomic<bool> is_over = false;
  std::thread others([&] {
    EpochRequest request = DatasetWorld::Request();
    request.key.job = "other";
    while (!is_over) {
      EXPECT_THAT(world.Load(request, LoaderWorld::Rank(0, 1)), IsOk());
      world.loader().Expire(absl::UnixEpoch());
      EXPECT_THAT(world.loader().ForgetUnused(absl::UnixEpoch()), IsOk());
      EXPECT_LE(world.loader().ListJobs(0, "").jobs.size(), 2U);
      EXPECT_THAT(world.loader().DeleteJob("other"), IsOk());
    }
  });
  constexpr int kThreads = 6;
  absl::Mutex mutex;
  std::vector<uint64_t> all;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      // Comes and goes: every fifth batch is given back instead of acknowledged.
      for (int visit = 0;; ++visit) {
        // A wake-up may come when the session has gone.
        struct Signal {
          absl::Mutex mutex;
          bool woken = false;
        };
        const auto signal = std::make_shared<Signal>();
        const auto wake = [signal] {
          absl::MutexLock lock(&signal->mutex);
          signal->woken = true;
        };
        auto session = world.Load(DatasetWorld::Request(),
                                  LoaderWorld::Dynamic(absl::StrCat("worker ", i)), 3, wake);
        ASSERT_THAT(session, IsOk());
        for (int taken = 0; taken < 5 || visit > 10; ++taken) {
          auto event = (*session)->Next(absl::UnixEpoch());
          ASSERT_THAT(event, IsOk());
          if (event->kind == LoadEvent::Kind::kEnd) return;
          if (event->kind == LoadEvent::Kind::kWait) {
            absl::MutexLock lock(&signal->mutex);
            signal->mutex.Await(absl::Condition(&signal->woken));
            signal->woken = false;
            continue;
          }
          if (taken == 4 && visit <= 10) break;
          const auto result = world.loader().Acknowledge({"job", 0}, (*session)->start().session,
                                                         (*session)->start().join.generation,
                                                         {event->number}, absl::UnixEpoch());
          ASSERT_THAT(result, IsOk());
          absl::MutexLock lock(&mutex);
          if (result->num_new == 0) continue;
          const auto& ids = event->built.batch.graph_ids;
          all.insert(all.end(), ids.begin(), ids.end());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  others.join();
  ExpectAllOnce(all, 400);
  EXPECT_EQ(world.loader().Snapshot().sessions().num_in_flight, 0);
  // What the log has is what was told.
  world.Restart();
  EXPECT_EQ(world.loader().GetJob("job")->epochs[0].progress.num_done,
            world.loader().GetJob("job")->epochs[0].progress.num_batches);
  EXPECT_EQ(world.loader().num_jobs(), 1U);
}

}  // namespace
}  // namespace packhouse
