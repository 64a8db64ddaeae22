#include "service/engine/jobs/job.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/delivery/job_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Time kStart = absl::UnixEpoch();

class JobTest : public ::testing::Test {
 protected:
  JobTest() { Restart(); }

  // The server is killed and starts again.
  void Restart() {
    log_.Reopen();
    world_ = std::make_unique<JobWorld>(&log_);
  }
  Job& job() { return world_->job(); }

  absl::StatusOr<Seat> Join(const JoinRequest& request) { return world_->Join(epoch_, request); }

  static JoinRequest Rank(uint32_t rank, size_t ranks) {
    JoinRequest request;
    request.queue = rank;
    request.sharing = Sharing::Ranked(ranks);
    return request;
  }
  JoinRequest Worker(std::string name) {
    JoinRequest request;
    request.worker = std::move(name);
    request.attempt = attempt_;
    return request;
  }

  uint64_t Next(const Seat& seat) {
    const auto lease = job().Next(*seat.session, kStart);
    EXPECT_THAT(lease, IsOk());
    EXPECT_EQ(lease->outcome, LeaseOutcome::kLeased);
    return lease->batch;
  }
  absl::StatusOr<AcknowledgeResult> Acknowledge(SessionId session, uint64_t generation,
                                                const std::vector<uint64_t>& batches) {
    return job().Acknowledge(epoch_.key.epoch, session, generation, batches, kStart);
  }
  EpochProgress Progress() { return job().ProgressOf(epoch_).value(); }

  FailingLog log_;
  std::unique_ptr<JobWorld> world_;
  EpochIdentity epoch_ = IdentityOf({6});
  std::string attempt_;
};

// A plan that fails in the middle, by a cursor that no server gives: nothing of it happens; what
// shares its commit does.
TEST_F(JobTest, AnOperationThatFailsLeavesNoPart) {
  epoch_.num_windows = 2;
  JoinRequest bad = Rank(0, 1);
  bad.cursor = Cursor{epoch_, 0, {}, {6, 6}};
  EXPECT_THAT(Join(bad), StatusIs(absl::StatusCode::kInternal, HasSubstr("does not fit")));
  EXPECT_TRUE(world_->Ledger().empty());
  EXPECT_EQ(log_.num_appends(), 0U);
  EXPECT_EQ(world_->quota().num_epochs(), 0U);

  EpochIdentity other = epoch_;
  other.key.epoch = 1;
  world_->is_deferring = true;
  const auto before = world_->StartJoin(other, Rank(0, 1));
  const auto failing = world_->StartJoin(epoch_, bad);
  other.key.epoch = 2;
  const auto after = world_->StartJoin(other, Rank(0, 1));
  world_->is_deferring = false;
  world_->RunDeferred();
  EXPECT_THAT(job().Started(*before, /*may_wait=*/false), IsOk());
  EXPECT_THAT(job().Started(*failing, /*may_wait=*/false),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("does not fit")));
  EXPECT_THAT(job().Started(*after, /*may_wait=*/false), IsOk());
  EXPECT_EQ(log_.num_appends(), 1U);
  EXPECT_EQ(world_->quota().num_epochs(), 2U);
  EXPECT_EQ(world_->Ledger().Epochs(), (std::vector<EpochKey>{{"job", 1}, {"job", 2}}));
  const JobLedger seen = world_->Ledger();
  Restart();
  EXPECT_TRUE(world_->Ledger() == seen);
}

TEST_F(JobTest, TwoWorkersShareAnEpoch) {
  epoch_ = IdentityOf({3});
  EXPECT_EQ(Progress().generation, 0U);
  PH_ASSERT_OK_AND_ASSIGN(const Seat a, Join(Worker("a")));
  EXPECT_TRUE(a.start.join.started);
  PH_ASSERT_OK_AND_ASSIGN(const Seat b, Join(Worker("b")));
  EXPECT_FALSE(b.start.join.started);
  EXPECT_EQ(b.start.join.generation, 1U);
  EXPECT_EQ(Next(a), 0U);
  EXPECT_EQ(Next(b), 1U);
  EXPECT_EQ(Next(a), 2U);
  PH_ASSERT_OK_AND_ASSIGN(AcknowledgeResult done, Acknowledge(1, 1, {0, 2}));
  EXPECT_EQ(done.num_new, 2U);
  PH_ASSERT_OK_AND_ASSIGN(const Cursor cursor, DecodeCursor(done.cursor));
  EXPECT_EQ(cursor.done, BatchSet::Of({0, 2}));
  PH_ASSERT_OK_AND_ASSIGN(done, Acknowledge(2, 1, {1}));
  EXPECT_EQ(Progress().num_done, 3U);
  // Nothing new: nothing in the log.
  const size_t records = log_.num_records();
  PH_ASSERT_OK_AND_ASSIGN(done, Acknowledge(2, 1, {1, 0}));
  EXPECT_EQ(done.num_new, 0U);
  EXPECT_EQ(log_.num_records(), records);
}

TEST_F(JobTest, AfterACrashOnlyWhatWasNotAcknowledgedIsSentAgain) {
  epoch_ = IdentityOf({5});
  PH_ASSERT_OK_AND_ASSIGN(const Seat zero, Join(Rank(0, 2)));
  PH_ASSERT_OK_AND_ASSIGN(const Seat one, Join(Rank(1, 2)));
  for (const uint64_t batch : {0, 2, 4}) EXPECT_EQ(Next(zero), batch);
  for (const uint64_t batch : {1, 3, 5}) EXPECT_EQ(Next(one), batch);
  ASSERT_THAT(Acknowledge(1, 1, {0}), IsOk());
  // The last is padding: it must not come again, or rank 1 had more steps than rank 0.
  ASSERT_THAT(Acknowledge(2, 1, {3, 5}), IsOk());
  Restart();
  // The workers have lost their streams only.
  JoinRequest request = Rank(1, 2);
  request.generation = 1;
  PH_ASSERT_OK_AND_ASSIGN(const Seat back, Join(request));
  EXPECT_EQ(back.start.join.generation, 1U);
  EXPECT_EQ(back.start.num_steps_done, 2U);
  EXPECT_EQ(Next(back), 1U);
  PH_ASSERT_OK_AND_ASSIGN(const Lease none, job().Next(*back.session, kStart));
  EXPECT_EQ(none.outcome, LeaseOutcome::kAllLeased);
  ASSERT_THAT(Acknowledge(back.start.session, 1, {1}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const Lease end, job().Next(*back.session, kStart));
  EXPECT_EQ(end.outcome, LeaseOutcome::kFinished);
  // What rank 0 got before the crash still counts.
  ASSERT_THAT(Acknowledge(0, 1, {2, 4}), IsOk());
  EXPECT_EQ(Progress().num_done, 5U);
}

TEST_F(JobTest, AllRanksOfARestartedTrainerShareOneGeneration) {
  for (const std::string attempt : {"", "restart 7"}) {
    epoch_ = IdentityOf({12}, attempt.size());
    std::optional<Seat> first_seat;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      PH_ASSERT_OK_AND_ASSIGN(Seat seat, Join(Rank(rank, 3)));
      if (rank == 0) first_seat = seat;
    }
    const uint64_t first = Progress().generation;
    PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult kept, Acknowledge(0, first, {0, 1, 2}));
    ASSERT_THAT(Acknowledge(0, first, {3, 4, 5}), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const Cursor cursor, DecodeCursor(kept.cursor));
    for (const std::string& restart : {attempt, attempt + attempt}) {
      // In another number, and a second time from the same checkpoint.
      const uint64_t before = Progress().generation;
      for (uint32_t rank = 0; rank < 2; ++rank) {
        JoinRequest request = Rank(rank, 2);
        request.cursor = cursor;
        request.attempt = restart;
        PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(request));
        EXPECT_EQ(seat.start.join.generation, before + 1);
        EXPECT_EQ(seat.start.join.started, rank == 0);
        EXPECT_EQ(Next(seat), 3U + rank);
      }
      ASSERT_THAT(Acknowledge(0, before + 1, {3, 4}), IsOk());
    }
    // A late one of the first generation.
    EXPECT_THAT(
        Acknowledge(0, first, {6}),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr(absl::StrCat("is over, the current one is ", Progress().generation))));
    EXPECT_THAT(job().Next(*first_seat->session, kStart),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no part")));
  }
}

TEST_F(JobTest, ACursorIsEnoughWhenEverythingIsForgotten) {
  ASSERT_THAT(Join(Worker("a")), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult kept, Acknowledge(1, 1, {0, 4}));
  log_ = FailingLog();
  Restart();
  attempt_ = "2";
  JoinRequest request = Worker("a");
  PH_ASSERT_OK_AND_ASSIGN(request.cursor, DecodeCursor(kept.cursor));
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(request));
  EXPECT_EQ(seat.start.join.generation, 2U);
  for (const uint64_t batch : {1, 2, 3, 5}) EXPECT_EQ(Next(seat), batch);
}

TEST_F(JobTest, ReadersOfARankThatComeFromACursorShareAGeneration) {
  epoch_ = IdentityOf({12});
  const auto reader = [this](uint32_t rank, Reader number, const std::optional<Cursor>& cursor) {
    JoinRequest request = Rank(rank, 2);
    request.reader = number;
    request.cursor = cursor;
    const auto joined = Join(request);
    EXPECT_THAT(joined, IsOk());
    return joined.ok() ? joined->start.join : JoinResult();
  };
  const Cursor start = DecodeCursor(reader(0, {0, 2}, std::nullopt).cursor).value();
  const JoinResult first = reader(0, {1, 2}, std::nullopt);
  EXPECT_FALSE(first.started);
  EXPECT_EQ(reader(1, {0, 1}, std::nullopt).generation, first.generation);
  // Each start of the trainer is known by its first reader, however many there were before.
  uint64_t last = first.generation;
  for (const uint32_t readers : {2, 1, 3, 2, 2, 1, 1}) {
    for (uint32_t number = 0; number < readers; ++number) {
      const JoinResult joined = reader(0, {number, readers}, start);
      EXPECT_EQ(joined.started, number == 0) << readers << " readers";
      EXPECT_EQ(joined.generation, last + 1);
    }
    Restart();
    // Rank 1 has as many as it likes.
    EXPECT_EQ(reader(1, {0, 5}, start).generation, last + 1);
    ++last;
  }
  // Without a cursor their number changes nothing.
  EXPECT_EQ(reader(0, {0, 4}, std::nullopt).generation, last);
}

TEST_F(JobTest, AWorkerThatComesAgainTakesOverWhatItHadWhenItEnded) {
  epoch_ = IdentityOf({2});
  JoinRequest request = Worker("a");
  request.ends_when_all_leased = true;
  PH_ASSERT_OK_AND_ASSIGN(const Seat a, Join(request));
  EXPECT_EQ(Next(a), 0U);
  EXPECT_EQ(Next(a), 1U);
  PH_ASSERT_OK_AND_ASSIGN(const Offer end, job().Next(*a.session, kStart));
  EXPECT_TRUE(end.ends);
  EXPECT_EQ(end.num_pending, 2U);
  job().Leave(*a.session);
  bool woken = false;
  PH_ASSERT_OK_AND_ASSIGN(const Seat b,
                          world_->Join(epoch_, Worker("b"), 100, [&] { woken = true; }));
  EXPECT_EQ(job().Next(*b.session, kStart)->outcome, LeaseOutcome::kAllLeased);
  EXPECT_FALSE(woken);
  PH_ASSERT_OK_AND_ASSIGN(const Seat again, Join(Worker("a")));
  EXPECT_TRUE(woken);
  EXPECT_EQ(Next(again), 0U);
  EXPECT_EQ(Next(b), 1U);
}

// Its memory is freed, except for the batches that were sent. These come first again, and are known
// to have been sent.
TEST_F(JobTest, AnEpochThatNobodyLoadsRests) {
  epoch_ = IdentityOf({1000});
  PH_ASSERT_OK_AND_ASSIGN(const Seat a, Join(Worker("a")));
  PH_ASSERT_OK_AND_ASSIGN(const Seat b, Join(Worker("b")));
  for (const uint64_t batch : {0, 1, 2}) EXPECT_EQ(Next(a), batch);
  EXPECT_EQ(Next(b), 3U);
  ASSERT_THAT(Acknowledge(0, 1, {1}), IsOk());
  job().Leave(*a.session);
  EXPECT_EQ(job().num_open(), 1U);
  EXPECT_EQ(Next(b), 0U);
  job().Leave(*b.session);
  EXPECT_EQ(job().num_open(), 0U);
  // Acknowledgements come later than streams end.
  ASSERT_THAT(Acknowledge(0, 1, {2}), IsOk());
  EXPECT_EQ(job().num_open(), 1U);
  job().Rest();
  EXPECT_EQ(job().num_open(), 0U);
  PH_ASSERT_OK_AND_ASSIGN(const Seat c, Join(Worker("c")));
  for (const uint64_t batch : {0, 3, 4}) {
    PH_ASSERT_OK_AND_ASSIGN(const Lease lease, job().Next(*c.session, kStart));
    EXPECT_EQ(lease.batch, batch);
    EXPECT_EQ(lease.redelivered, batch < 4);
  }
  DeliverySnapshot snapshot;
  job().AddTo(snapshot);
  EXPECT_EQ(snapshot.totals.acknowledged, 2U);
  EXPECT_EQ(snapshot.totals.leased, 8U);
  EXPECT_EQ(snapshot.totals.redelivered, 3U);
}

TEST_F(JobTest, StepCursorsDoNotDependOnAcknowledgements) {
  epoch_ = IdentityOf({7});
  ASSERT_THAT(Join(Rank(0, 2)), IsOk());
  ASSERT_THAT(Acknowledge(1, 1, {0, 2, 4}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, job().CursorAtStep(0, 1, 2));
  PH_ASSERT_OK_AND_ASSIGN(const Cursor cursor, DecodeCursor(text));
  EXPECT_EQ(cursor.done, BatchSet::Of({0, 1, 2, 3}));
  EXPECT_THAT(job().CursorAtStep(0, 1, 4), IsOk());
  EXPECT_EQ(job().CursorAtStep(0, 1, 5).status(),
            absl::OutOfRangeError("step 5: generation 1 has 4 steps"));
  // What was done before the generation is done, too.
  JoinRequest request = Rank(0, 1);
  request.cursor = Cursor{epoch_, 1, BatchSet::Of({1, 4})};
  ASSERT_THAT(Join(request), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const std::string later, job().CursorAtStep(0, 2, 2));
  EXPECT_EQ(DecodeCursor(later)->done, BatchSet::Of({0, 1, 2, 4}));
  ASSERT_THAT(Join(Rank(0, 2)), IsOk());
  EXPECT_THAT(job().CursorAtStep(0, 2, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("generation 2")));
}

TEST_F(JobTest, AnotherNumberOfWorkersGoesOnFromWhatWasAcknowledged) {
  ASSERT_THAT(Join(Rank(0, 2)), IsOk());
  ASSERT_THAT(Acknowledge(1, 1, {0, 1}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(Rank(2, 4)));
  EXPECT_EQ(seat.start.join.generation, 2U);
  EXPECT_EQ(Next(seat), 4U);
}

TEST_F(JobTest, WhatTheLogRefusesHasNotHappened) {
  log_.FailNext(FailingLog::Failure::kRefuses);
  EXPECT_THAT(Join(Worker("a")),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_EQ(Progress().generation, 0U);
  EXPECT_EQ(world_->quota().num_epochs(), 0U);
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(Worker("a")));
  EXPECT_EQ(world_->quota().num_epochs(), 1U);
  const uint64_t generation = seat.start.join.generation;
  const uint64_t batch = Next(seat);
  log_.FailNext(FailingLog::Failure::kRefuses);
  EXPECT_THAT(Acknowledge(seat.start.session, generation, {batch}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_EQ(Progress().num_done, 0U);
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult done,
                          Acknowledge(seat.start.session, generation, {batch}));
  EXPECT_EQ(done.num_new, 1U);
}

// All that wait are committed together, each as if those before it had been.
TEST_F(JobTest, JoinsThatComeAtOnceShareACommit) {
  world_->is_deferring = true;
  std::vector<std::shared_ptr<Job::Session>> sessions;
  for (uint32_t rank = 0; rank < 64; ++rank) {
    sessions.push_back(world_->StartJoin(epoch_, Rank(rank, 64)));
  }
  EXPECT_EQ(log_.num_appends(), 0U);
  ASSERT_EQ(world_->deferred.size(), 1U);
  world_->RunDeferred();
  EXPECT_EQ(log_.num_appends(), 1U);
  for (uint32_t rank = 0; rank < 64; ++rank) {
    PH_ASSERT_OK_AND_ASSIGN(const auto start, job().Started(*sessions[rank], false));
    EXPECT_EQ(start->join.generation, 1U);
    EXPECT_EQ(start->join.started, rank == 0);
  }
  EXPECT_EQ(Next({sessions[5], {}}), 5U);
}

TEST_F(JobTest, TogetherOrNotAtAll) {
  world_->is_deferring = true;
  const auto a = world_->StartJoin(epoch_, Rank(0, 2));
  const auto bad = world_->StartJoin(epoch_, Rank(7, 2));
  // Rests on what the first one starts.
  EpochIdentity other = epoch_;
  other.seed = 99;
  const auto differs = world_->StartJoin(other, Rank(1, 2));
  log_.FailNext(FailingLog::Failure::kRefuses);
  world_->RunDeferred();
  EXPECT_THAT(job().Started(*a, false),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_THAT(job().Started(*differs, false),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_THAT(job().Started(*bad, false),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  // In the other words, as nobody has opened it.
  world_->is_deferring = false;
  EXPECT_THAT(world_->Join(other, Rank(1, 2)), IsOk());
}

// In whatever order they come: a roll-back ends what joined before it, not what joins behind it.
TEST_F(JobTest, ARollBackAmongJoinsTakesItsTurn) {
  PH_ASSERT_OK_AND_ASSIGN(const Seat old, Join(Rank(0, 2)));
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult kept, Acknowledge(0, 1, {0}));
  ASSERT_THAT(Acknowledge(0, 1, {1}), IsOk());
  world_->is_deferring = true;
  const auto before = world_->StartJoin(epoch_, Rank(1, 2));
  JoinRequest request = Rank(0, 2);
  request.cursor = DecodeCursor(kept.cursor).value();
  request.attempt = "2";
  const auto first = world_->StartJoin(epoch_, request);
  request.queue = 1;
  const auto second = world_->StartJoin(epoch_, request);
  world_->RunDeferred();
  EXPECT_EQ(log_.num_appends(), 4U);
  EXPECT_EQ((*job().Started(*before, false))->join.generation, 1U);
  EXPECT_THAT(job().Next(*before, kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("generation 2")));
  EXPECT_TRUE((*job().Started(*first, false))->join.started);
  EXPECT_FALSE((*job().Started(*second, false))->join.started);
  EXPECT_EQ(Next({first, {}}), 1U);
  EXPECT_EQ(Next({second, {}}), 2U);
}

// A stream that ends while its join is on its way leaves nothing leased.
TEST_F(JobTest, ASessionMayLeaveBeforeItHasJoined) {
  world_->is_deferring = true;
  const auto gone = world_->StartJoin(epoch_, Worker("a"));
  job().Leave(*gone);
  EXPECT_FALSE(job().IsForgotten());
  world_->RunDeferred();
  EXPECT_TRUE(job().IsForgotten());
  EXPECT_EQ(log_.num_appends(), 0U);
  world_->is_deferring = false;
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(Worker("b")));
  EXPECT_EQ(Next(seat), 0U);
}

// Who asked for the answer, and may sleep until it is there, is woken; others look again.
TEST_F(JobTest, WhoWaitsForAJoinIsWoken) {
  for (const bool may_wait : {false, true}) {
    world_->is_deferring = true;
    int num_wakes = 0;
    const auto session = world_->StartJoin(epoch_, Worker("a"), 100, [&] { ++num_wakes; });
    PH_ASSERT_OK_AND_ASSIGN(const auto start, job().Started(*session, may_wait));
    EXPECT_FALSE(start.has_value());
    // Asking again takes nothing back.
    EXPECT_FALSE(job().Started(*session, /*may_wait=*/false)->has_value());
    world_->is_deferring = false;
    world_->RunDeferred();
    EXPECT_EQ(num_wakes, may_wait ? 1 : 0);
    EXPECT_TRUE(job().Started(*session, may_wait)->has_value());
    job().Leave(*session);
  }
}

// What a worker is told when it has joined.
TEST_F(JobTest, AJoinIsAnsweredInFull) {
  epoch_ = IdentityOf({7});
  ASSERT_THAT(Join(Rank(0, 2)), IsOk());
  ASSERT_THAT(Acknowledge(0, 1, {0, 3}), IsOk());
  JoinRequest request = Rank(1, 2);
  request.reader = {1, 2};
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(request));
  EXPECT_EQ(seat.start.session, seat.session->id);
  EXPECT_EQ(seat.start.join.generation, 1U);
  EXPECT_FALSE(seat.start.join.started);
  EXPECT_EQ(DecodeCursor(seat.start.join.cursor).value(), (Cursor{epoch_, 1, {}}));
  const EpochProgress& progress = seat.start.progress;
  EXPECT_EQ(progress.key, epoch_.key);
  EXPECT_EQ(progress.generation, 1U);
  EXPECT_EQ(progress.num_done, 2U);
  EXPECT_EQ(progress.num_batches, 7U);
  EXPECT_EQ(progress.share, (EpochShare{4, 1, false, 0, 4}));
  EXPECT_EQ(seat.start.num_steps, 2U);
  EXPECT_EQ(seat.start.num_steps_done, 1U);
  EXPECT_FALSE(seat.start.num_steps_is_estimate);
  EXPECT_EQ(seat.start.windows, std::vector<uint32_t>());
  EXPECT_EQ(seat.start.dealing->num_places(), 8U);
}

// A log that has as many records as it may have is rewritten; one that is still as long, or cannot
// be, is tried again after half as many.
TEST(JobCompactionTest, TheLogIsRewrittenOnceItIsLong) {
  FailingLog log;
  JobWorld world(&log, absl::InfiniteDuration(), /*max_records=*/8);
  JoinRequest request;
  request.worker = "a";
  EXPECT_FALSE(world.job().HasRecords());
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, world.Join(IdentityOf({20}), request));
  EXPECT_TRUE(world.job().HasRecords());
  uint64_t batch = 0;
  const auto acknowledge = [&] {
    EXPECT_THAT(world.job().Acknowledge(0, 0, 1, std::vector<uint64_t>{batch++}, kStart), IsOk());
    return log.num_records();
  };
  // Opened, used, started, joined.
  EXPECT_EQ(log.num_records(), 4U);
  for (const size_t records : {5, 6, 7}) EXPECT_EQ(acknowledge(), records);
  // With all that is done as one, and the last generation.
  EXPECT_EQ(acknowledge(), 6U);
  for (const size_t records : {7, 8, 9}) EXPECT_EQ(acknowledge(), records);
  world.is_deferring = true;
  EXPECT_EQ(acknowledge(), 10U);
  EXPECT_EQ(world.deferred.size(), 1U);
  // It is due once.
  EXPECT_EQ(acknowledge(), 11U);
  EXPECT_EQ(world.deferred.size(), 1U);
  world.is_deferring = false;
  log.FailNext(FailingLog::Failure::kRefuses);
  world.RunDeferred();
  EXPECT_EQ(log.num_records(), 11U);
  for (const size_t records : {12, 13, 14}) EXPECT_EQ(acknowledge(), records);
  EXPECT_EQ(acknowledge(), 6U);
  const JobLedger ledger = world.Ledger();
  EXPECT_EQ(ledger.Find({"job", 0})->done.size(), batch);
  EXPECT_EQ(JobLedger::Replay(log.ReadAll().value())->last_generation(), 1U);
}

// Lets its appends through one by one.
class GatedLog final : public RecordLog {
 public:
  absl::Status Append(absl::Span<const std::string> records) override {
    absl::MutexLock lock(&mutex_);
    ++num_waiting_;
    const auto may_pass = [this] { return num_to_pass_ > 0; };
    mutex_.Await(absl::Condition(&may_pass));
    --num_to_pass_;
    --num_waiting_;
    ++num_appends_;
    return log_.Append(records);
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override {
    absl::MutexLock lock(&mutex_);
    return log_.ReadAll();
  }
  absl::Status Replace(absl::Span<const std::string> records) override {
    absl::MutexLock lock(&mutex_);
    return log_.Replace(records);
  }
  void LetPass(int n) {
    absl::MutexLock lock(&mutex_);
    num_to_pass_ += n;
  }
  void AwaitWaiting() {
    absl::MutexLock lock(&mutex_);
    const auto somebody_waits = [this] { return num_waiting_ > 0; };
    mutex_.Await(absl::Condition(&somebody_waits));
  }
  int num_appends() {
    absl::MutexLock lock(&mutex_);
    return num_appends_;
  }

 private:
  absl::Mutex mutex_;
  int num_waiting_ = 0;
  int num_to_pass_ = 0;
  int num_appends_ = 0;
  FailingLog log_;
};

// While the disk writes: batches leave, leases expire, streams end, other jobs are looked at; and
// however many come meanwhile, they share the next commit.
TEST(JobCommitTest, NobodyWaitsForTheDiskButWhoWritesToIt) {
  GatedLog log;
  JobWorld world(&log);
  const EpochIdentity epoch = IdentityOf({200});
  const auto worker = [](int i) {
    JoinRequest request;
    request.worker = absl::StrCat("worker ", i);
    return request;
  };
  log.LetPass(1);
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, world.Join(epoch, worker(0)));
  Job& job = world.job();

  std::vector<std::thread> threads;
  threads.emplace_back(
      [&] { EXPECT_THAT(job.Acknowledge(0, seat.start.session, 1, {150}, kStart), IsOk()); });
  log.AwaitWaiting();
  // Would hang if somebody held the job's mutex.
  for (int i = 0; i < 2; ++i) {
    PH_ASSERT_OK_AND_ASSIGN(const Lease lease, job.Next(*seat.session, kStart));
    EXPECT_EQ(lease.outcome, LeaseOutcome::kLeased);
  }
  job.Expire(kStart + absl::Seconds(60));
  EXPECT_EQ(job.NextExpiry(), absl::InfiniteFuture());
  // One of the two is being acknowledged, the other one made: the worker has none.
  DeliverySnapshot snapshot;
  job.AddTo(snapshot);
  EXPECT_EQ(snapshot.sessions().num_starved, 1U);
  EXPECT_EQ(snapshot.sessions().num_awaited, 0U);
  EXPECT_EQ(job.ProgressOf(epoch)->num_done, 0U);

  // 63 joins and an acknowledgement while it writes.
  std::vector<std::shared_ptr<Job::Session>> sessions;
  for (int i = 1; i < 64; ++i) sessions.push_back(world.StartJoin(epoch, worker(i)));
  threads.emplace_back([&] { EXPECT_THAT(job.Acknowledge(0, 0, 1, {151}, kStart), IsOk()); });
  log.LetPass(3);
  for (const auto& session : sessions) job.AwaitStarted(*session);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(log.num_appends(), 4);
  for (const auto& session : sessions) {
    EXPECT_THAT(job.Started(*session, false), IsOk());
    job.Leave(*session);
  }
  EXPECT_EQ(job.ProgressOf(epoch)->num_done, 2U);
}

TEST_F(JobTest, AnAcknowledgementBehindARollBackIsRefused) {
  PH_ASSERT_OK_AND_ASSIGN(const Seat old, Join(Worker("a")));
  world_->is_deferring = true;
  JoinRequest request = Worker("a");
  request.attempt = "2";
  request.cursor = DecodeCursor(old.start.join.cursor).value();
  const auto anew = world_->StartJoin(epoch_, request);
  // It commits both, itself last.
  EXPECT_THAT(Acknowledge(1, 1, {0, 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("generation 1")));
  EXPECT_EQ((*job().Started(*anew, false))->join.generation, 2U);
  Restart();
  EXPECT_EQ(Progress().generation, 2U);
  EXPECT_EQ(Progress().num_done, 0U);
}

// What clients make the service remember is reserved of the budget first; it comes back.
TEST(JobMemoryTest, LedgerAndLeasesAreOfTheBudget) {
  FailingLog log;
  MemoryBudget budget(2 << 20);
  uint64_t held = 0;
  {
    JobWorld world(&log, absl::InfiniteDuration(), 1 << 20, &budget);
    const EpochIdentity epoch = IdentityOf({100'000});
    JoinRequest request;
    request.worker = "a";
    PH_ASSERT_OK_AND_ASSIGN(Seat seat, world.Join(epoch, request));
    EXPECT_GT(budget.held(), 400'000U);
    // Every second batch: as many runs as can be.
    uint64_t acknowledged = 0;
    absl::Status status;
    for (; status.ok(); acknowledged += 500) {
      std::vector<uint64_t> batches;
      for (uint64_t i = 0; i < 500; ++i) batches.push_back(2 * (acknowledged + i));
      status = world.job().Acknowledge(0, 0, 1, batches, kStart).status();
      EXPECT_LE(budget.held(), budget.bound());
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("of a job")));
    EXPECT_GT(acknowledged, 5000U);
    world.job().Leave(*seat.session);
    // With how the epoch was dealt.
    seat = Seat();
    held = budget.held();
    EXPECT_LT(held, 1'400'000U);
    // Nobody else's, nor one whose epoch is too large for what is left.
    EXPECT_THAT(world.Join(IdentityOf({1'000'000}, 1), request),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("of a job")));
    EXPECT_EQ(budget.held(), held);
    EXPECT_EQ(world.quota().num_epochs(), 1U);
  }
  EXPECT_EQ(budget.held(), 0U);
  JobWorld world(&log, absl::InfiniteDuration(), 1 << 20, &budget);
  EXPECT_NEAR(static_cast<double>(budget.held()), static_cast<double>(held), 0.05 * held);
  EXPECT_THAT(world.job().Forget(), IsOk());
  EXPECT_LT(budget.held(), 1000U);
}

TEST_F(JobTest, WhatIsDoneHasABoundedNumberOfGaps) {
  epoch_ = IdentityOf({4 * Job::kMaxRuns});
  ASSERT_THAT(Join(Worker("a")), IsOk());
  std::vector<uint64_t> batches;
  for (uint64_t i = 0; i < Job::kMaxRuns; ++i) batches.push_back(2 * i);
  ASSERT_THAT(Acknowledge(0, 1, batches), IsOk());
  EXPECT_EQ(Acknowledge(0, 1, {2 * Job::kMaxRuns + 4}).status(),
            absl::ResourceExhaustedError(
                "batches: what is done of the epoch would have 65537 runs with gaps between them, "
                "at most 65536; acknowledge those that came first"));
  // What fills a gap goes, and makes room.
  EXPECT_THAT(Acknowledge(0, 1, {1, 3}), IsOk());
  EXPECT_THAT(Acknowledge(0, 1, {2 * Job::kMaxRuns + 4}), IsOk());
}

// Of two that are as near, the later one: its limits are nearer to those of now.
TEST_F(JobTest, TheNearestEpochIsFound) {
  EXPECT_THAT(job().OpenedNear(3),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'job': has no epochs")));
  for (const uint64_t epoch : {2, 4, 9}) {
    ASSERT_THAT(world_->Join(IdentityOf({6}, epoch), Rank(0, 1)), IsOk());
  }
  for (const auto& [asked, found] : std::map<uint64_t, uint64_t>{
           {0, 2}, {2, 2}, {3, 4}, {4, 4}, {6, 4}, {7, 9}, {9, 9}, {~uint64_t{0}, 9}}) {
    PH_ASSERT_OK_AND_ASSIGN(const Job::Opened opened, job().OpenedNear(asked));
    EXPECT_EQ(opened.identity.key.epoch, found) << asked;
    EXPECT_EQ(job().OpenedAs(asked).has_value(), asked == found) << asked;
  }
}

// What people are told of who loads, and how much: of each stream, and of all epochs together.
TEST_F(JobTest, TellsOfEachSession) {
  JoinRequest first = Worker("a");
  first.client = "10.0.0.7";
  first.now = kStart + absl::Seconds(100);
  PH_ASSERT_OK_AND_ASSIGN(const Seat a, Join(first));
  const EpochIdentity other = IdentityOf({6}, 1);
  JoinRequest second = Rank(1, 2);
  second.now = kStart + absl::Seconds(300);
  PH_ASSERT_OK_AND_ASSIGN(const Seat b, world_->Join(other, second));
  EXPECT_EQ(Next(a), 0U);
  EXPECT_EQ(Next(a), 1U);
  EXPECT_EQ(Next(b), 1U);
  ASSERT_THAT(Acknowledge(a.start.session, a.start.join.generation, {0}), IsOk());
  std::vector<std::string> told;
  for (const SessionSummary& each : job().Sessions()) {
    told.push_back(absl::StrCat(each.key.job, " ", each.key.epoch, " ", each.id, " '", each.client,
                                "' ", each.queue, " '", each.worker, "' ", each.num_leases));
  }
  EXPECT_EQ(told, (std::vector<std::string>{
                      absl::StrCat("job 0 ", a.start.session, " '10.0.0.7' 0 'a' 1"),
                      absl::StrCat("job 1 ", b.start.session, " '' 1 '' 1")}));
  PH_ASSERT_OK_AND_ASSIGN(JobSummary summary, job().Summary(2));
  EXPECT_EQ(summary.name, "job");
  EXPECT_EQ(summary.num_epochs, 2U);
  EXPECT_EQ(summary.num_sessions, 2U);
  EXPECT_EQ(summary.used_seconds, 300U);
  EXPECT_EQ(summary.epochs.size(), 2U);
  PH_ASSERT_OK_AND_ASSIGN(summary, job().Summary(1));
  EXPECT_EQ(summary.num_epochs, 2U);
  ASSERT_EQ(summary.epochs.size(), 1U);
  EXPECT_EQ(summary.epochs[0].progress.key.epoch, 1U);
  EXPECT_EQ(summary.epochs[0].num_sessions, 1U);
  // A batch is a use, and so is the last one of an epoch that nobody loads any more.
  PH_ASSERT_OK_AND_ASSIGN(const Offer offer, job().Next(*a.session, kStart + absl::Seconds(700)));
  EXPECT_EQ(offer.outcome, LeaseOutcome::kLeased);
  EXPECT_EQ(job().Summary(2)->used_seconds, 700U);
  job().Leave(*a.session);
  EXPECT_EQ(job().num_open(), 1U);
  EXPECT_EQ(job().Summary(2)->used_seconds, 700U);
  EXPECT_EQ(job().Sessions().size(), 1U);
  DeliverySnapshot snapshot;
  job().AddTo(snapshot);
  EXPECT_EQ(snapshot.num_generations, 2U);
  EXPECT_EQ(snapshot.totals.leased, 4U);
  EXPECT_EQ(snapshot.totals.given_back, 2U);
  EXPECT_EQ(snapshot.sessions().num_sessions, 1U);
  EXPECT_EQ(snapshot.sessions().num_in_flight, 1U);
}

// A handler asks it before it waits: it must not sleep on what has come, nor spin on what has not.
TEST_F(JobTest, WouldWaitIsWhatNextWouldSay) {
  world_->is_deferring = true;
  JoinRequest ending = Worker("ending");
  ending.ends_when_all_leased = true;
  const auto a = world_->StartJoin(epoch_, Worker("a"), /*max_in_flight=*/2);
  const auto b = world_->StartJoin(epoch_, Worker("b"));
  const auto c = world_->StartJoin(epoch_, ending);
  const auto refused = world_->StartJoin(epoch_, Rank(7, 2));
  for (const auto& session : {a, b, c, refused}) EXPECT_TRUE(job().WouldWait(*session));
  world_->is_deferring = false;
  world_->RunDeferred();
  EXPECT_THAT(job().Started(*refused, false),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 7")));
  for (const auto& session : {a, b, c, refused}) EXPECT_FALSE(job().WouldWait(*session));
  Next({a, {}});
  EXPECT_FALSE(job().WouldWait(*a));
  Next({a, {}});
  EXPECT_TRUE(job().WouldWait(*a));
  ASSERT_THAT(Acknowledge(0, 1, {0}), IsOk());
  EXPECT_FALSE(job().WouldWait(*a));
  for (int i = 0; i < 4; ++i) Next({b, {}});
  EXPECT_TRUE(job().WouldWait(*a));
  EXPECT_TRUE(job().WouldWait(*b));
  EXPECT_FALSE(job().WouldWait(*c));
  // Its stream must end, which is no reason to wait.
  PH_ASSERT_OK_AND_ASSIGN(const Seat anew, Join(Rank(0, 1)));
  EXPECT_FALSE(job().WouldWait(*a));
  EXPECT_FALSE(job().WouldWait(*anew.session));

  EpochIdentity windows = IdentityOf({6}, 1);
  windows.num_windows = 2;
  PH_ASSERT_OK_AND_ASSIGN(const Seat unplanned, world_->Join(windows, Worker("w")));
  EXPECT_TRUE(job().WouldWait(*unplanned.session));
}

// A worker that has ended counts as long as it has batches, and shows in the list what it is.
TEST_F(JobTest, AWorkerThatHasEndedIsListedWhileItHasBatches) {
  JoinRequest request = Worker("a");
  request.ends_when_all_leased = true;
  PH_ASSERT_OK_AND_ASSIGN(const Seat a, Join(request));
  request.worker = "b";
  PH_ASSERT_OK_AND_ASSIGN(const Seat b, Join(request));
  PH_ASSERT_OK_AND_ASSIGN(const Seat c, Join(Worker("c")));
  EXPECT_EQ(Next(a), 0U);
  for (uint64_t batch = 1; batch < 6; ++batch) EXPECT_EQ(Next(c), batch);
  for (const Seat& seat : {a, b}) {
    EXPECT_TRUE(job().Next(*seat.session, kStart)->ends);
    job().Leave(*seat.session);
  }
  const auto watched = [&] { return job().Watch().at(0); };
  ASSERT_EQ(watched().workers.size(), 2U);
  EXPECT_EQ(watched().num_sessions, 2U);
  EXPECT_TRUE(watched().workers[0].has_ended);
  EXPECT_FALSE(watched().workers[1].has_ended);
  EXPECT_EQ(watched().workers[1].worker, "c");
  std::atomic<bool> shares = true;
  job().ListSharing(*c.session, std::shared_ptr<const std::atomic<bool>>(&shares, [](auto) {}));
  EXPECT_TRUE(watched().workers[1].shares_memory);
  shares = false;
  EXPECT_FALSE(watched().workers[1].shares_memory);
  ASSERT_THAT(Acknowledge(0, 1, {0}), IsOk());
  EXPECT_EQ(watched().num_sessions, 1U);
  EXPECT_EQ(watched().num_leased, 5U);
}

// The words with which an epoch was asked for, unless they are too long to be kept.
TEST_F(JobTest, TheWordsOfAnEpochAreKept) {
  for (const size_t length : {size_t{5}, size_t{kMaxWordsBytes}, size_t{kMaxWordsBytes + 1}}) {
    epoch_.key.epoch = length;
    JoinRequest request = Rank(0, 1);
    request.words = std::string(length, 'x');
    ASSERT_THAT(Join(request), IsOk());
    request.words = "others";
    ASSERT_THAT(Join(request), IsOk());
    EXPECT_EQ(job().OpenedAs(length)->words.size(), length > kMaxWordsBytes ? 0 : length);
  }
}

// A client that makes a cursor up does not use up the generations of others.
TEST_F(JobTest, ACursorMayNotNameAnyGeneration) {
  Cursor cursor = {epoch_, ~uint64_t{0}, {}};
  JoinRequest request = Rank(0, 1);
  request.cursor = cursor;
  EXPECT_THAT(Join(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no server has given")));
  request.cursor->generation = kMaxNamedGeneration;
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(request));
  EXPECT_EQ(seat.start.join.generation, kMaxNamedGeneration + 1);
  request.cursor->generation = seat.start.join.generation;
  request.attempt = "2";
  PH_ASSERT_OK_AND_ASSIGN(const Seat again, Join(request));
  EXPECT_EQ(again.start.join.generation, kMaxNamedGeneration + 2);
}

TEST_F(JobTest, Refuses) {
  EXPECT_THAT(Acknowledge(1, 1, {0}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody has loaded it")));
  EXPECT_THAT(Join(Worker("")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a name")));
  EXPECT_THAT(Join(Rank(2, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2: there are 2")));
  JoinRequest request = Worker("a");
  request.generation = 2;
  EXPECT_THAT(Join(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nobody has loaded it")));
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, Join(Worker("a")));
  EXPECT_THAT(Join(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("generation 2"), HasSubstr("current one is 1"))));
  request.cursor = DecodeCursor(seat.start.join.cursor).value();
  EXPECT_THAT(Join(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("both")));
  request.generation.reset();
  EXPECT_THAT(Join(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs an attempt")));
  request.attempt = "2";
  request.cursor->identity.seed = 5;
  EXPECT_THAT(Join(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("cursor: is of seed 5"), HasSubstr("seed 11"))));
  request = Rank(0, 2);
  request.generation = 1;
  EXPECT_THAT(Join(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("asked for are 2")));
  EXPECT_THAT(Acknowledge(1, 1, {6}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch 6")));
  EXPECT_EQ(job().CursorAtStep(0, 1, 0).status(),
            absl::FailedPreconditionError(
                "step 0: workers that are served as they come have no steps in common; keep the "
                "cursor of the last acknowledgement"));
  EpochIdentity other = epoch_;
  other.dataset_version = 9;
  EXPECT_THAT(world_->Join(other, Worker("a")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("version 9"), HasSubstr("version 3"))));
  other = epoch_;
  other.rank_groups.clear();
  EXPECT_THAT(world_->Join(other, Worker("a")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank groups")));
}

// A stream that nobody reads keeps its generation's dealing, whatever became of the epoch.
TEST_F(JobTest, ADealingIsHeldOfTheBudgetAsLongAsSomebodyHasIt) {
  constexpr uint64_t kBatches = 100'000;
  MemoryBudget budget(uint64_t{1} << 30);
  JobWorld world(&log_, absl::InfiniteDuration(), 1 << 20, &budget);
  const uint64_t before = budget.held();
  absl::StatusOr<Seat> seat = world.Join(IdentityOf({kBatches}), Rank(0, 2));
  ASSERT_THAT(seat.status(), IsOk());
  EXPECT_GE(budget.held(), before + 4 * kBatches);
  world.job().Leave(*seat->session);
  ASSERT_THAT(world.job().Forget(), IsOk());
  EXPECT_GE(budget.held(), before + 4 * kBatches);
  seat = absl::UnknownError("gone");
  EXPECT_LE(budget.held(), before + 4096);
}

// The first is not held up. Those that come right after it share a commit, as long as nobody is in
// a hurry.
TEST_F(JobTest, JoinsThatComeTogetherShareACommit) {
  world_->GatherJoins(absl::Hours(1));
  world_->is_deferring = true;
  JoinRequest first = Worker("first");
  first.now = kStart;
  const auto alone = world_->StartJoin(epoch_, first);
  world_->RunDeferred();
  EXPECT_EQ(log_.num_appends(), 1U);
  PH_ASSERT_OK_AND_ASSIGN(const auto start, job().Started(*alone, /*may_wait=*/false));
  ASSERT_TRUE(start.has_value());

  std::vector<std::shared_ptr<Job::Session>> sessions;
  for (int i = 0; i < 5; ++i) {
    JoinRequest request = Worker(absl::StrCat("w", i));
    request.now = kStart + absl::Milliseconds(i);
    sessions.push_back(world_->StartJoin(epoch_, request));
  }
  ASSERT_EQ(world_->deferred.size(), 1U);
  // Waits for an hour, or until an acknowledgement takes them all along.
  std::thread committer([this] { world_->RunDeferred(); });
  EXPECT_THAT(Acknowledge(1, start->join.generation, {0}).status(), IsOk());
  committer.join();
  for (const auto& session : sessions) EXPECT_FALSE(job().WouldWait(*session));
  EXPECT_LE(log_.num_appends(), 3U);
  world_->is_deferring = false;

  // Who comes later is alone again.
  JoinRequest late = Worker("late");
  late.now = kStart + absl::Hours(6);
  EXPECT_THAT(Join(late).status(), IsOk());
}

// Ranks know how many they are, so their commit waits for the last one, however slowly they come.
TEST_F(JobTest, RanksThatComeOneByOneTakeTwoCommits) {
  constexpr uint32_t kRanks = 64;
  epoch_ = IdentityOf({2 * kRanks});
  world_->GatherJoins(absl::Hours(1));
  std::vector<std::shared_ptr<Job::Session>> sessions;
  const auto come = [&](uint32_t rank) {
    JoinRequest request = Rank(rank, kRanks);
    request.now = kStart + rank * absl::Minutes(10);
    sessions.push_back(world_->StartJoin(epoch_, request));
  };
  come(0);
  EXPECT_EQ(log_.num_appends(), 1U);
  world_->is_deferring = true;
  for (uint32_t rank = 1; rank < kRanks - 1; ++rank) come(rank);
  ASSERT_EQ(world_->deferred.size(), 1U);
  // It waits, or begins once all are there. To look for its place here would take it away.
  std::thread committer([&] { world_->RunDeferred(); });
  come(kRanks - 1);
  committer.join();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(world_->gathering().Take());
  for (int i = 0; i < 2; ++i) world_->gathering().GiveBack();
  for (const auto& session : sessions) EXPECT_FALSE(job().WouldWait(*session));
  EXPECT_EQ(log_.num_appends(), 2U);

  // The group is complete: the first that comes again is not held up.
  world_->is_deferring = false;
  JoinRequest again = Rank(0, kRanks);
  again.now = kStart + absl::Hours(11);
  EXPECT_THAT(Join(again).status(), IsOk());
}

// Committers that wait hold threads, so others do not wait while there are enough of them.
TEST_F(JobTest, FewCommittersWaitForJoinsAtTheSameTime) {
  world_->GatherJoins(absl::Hours(1));
  EXPECT_TRUE(world_->gathering().Take());
  EXPECT_TRUE(world_->gathering().Take());
  EXPECT_FALSE(world_->gathering().Take());
  for (uint32_t rank = 0; rank < 3; ++rank) {
    JoinRequest request = Rank(rank, 4);
    request.now = kStart;
    EXPECT_THAT(Join(request).status(), IsOk());
  }
}

// Ranks that are opened one after the other wait for nobody, but for one time.
TEST(JoinBurstTest, WhoComesAfterAnAnswerIsNotHeldUpAgainAndAgain) {
  constexpr absl::Duration kLongest = absl::Milliseconds(50);
  constexpr uint64_t kRanks = 64;
  JoinBurst burst(kLongest);
  absl::Time now = kStart;
  int num_waits = 0;
  const auto come_alone = [&] {
    burst.Came(now, kRanks, /*meets=*/false);
    if (!burst.ExpectsMore()) return;
    ++num_waits;
    now += kLongest;
    burst.WaitedInVain();
  };
  for (uint64_t rank = 0; rank < kRanks; ++rank) come_alone();
  EXPECT_EQ(num_waits, 1);
  // Those who meet are waited for again, and so is everybody after a while.
  now += JoinBurst::kQuiet / 2 * kLongest;
  burst.Came(now, kRanks, /*meets=*/false);
  burst.Came(now, kRanks, /*meets=*/true);
  EXPECT_TRUE(burst.ExpectsMore());
  burst.WaitedInVain();
  now += 2 * JoinBurst::kQuiet * kLongest;
  burst.Came(now, kRanks, /*meets=*/false);
  burst.Came(now, kRanks, /*meets=*/false);
  EXPECT_TRUE(burst.ExpectsMore());
}

// Windows that are not planned yet are taken for like those that are.
TEST(JobShareTest, OfSomeWindowsItIsAGuess) {
  EpochIdentity epoch = IdentityOf({40});
  epoch.num_windows = 4;
  for (const auto& [windows, steps] : std::vector<std::pair<std::vector<uint32_t>, uint64_t>>{
           {{}, 40}, {{5}, 20}, {{5, 6}, 22}, {{5, 6, 7}, 24}, {{5, 6, 7, 1}, 19}, {{30}, 40}}) {
    PH_ASSERT_OK_AND_ASSIGN(const EpochShare share,
                            ShareOf(epoch, windows, BatchSet(), Sharing(), /*queue=*/0));
    EXPECT_EQ(share.num_steps, steps);
    EXPECT_EQ(share.num_steps_of_epoch, steps);
    EXPECT_EQ(share.is_estimate, windows.size() < 4);
  }
}

JoinRequest RankOrWorker(const EpochIdentity& epoch, Random& random) {
  JoinRequest request;
  if (random.Below(4) != 0) {
    Sharing& sharing = request.sharing;
    for (uint32_t j = 0; j < epoch.rank_groups.size(); ++j) {
      sharing.rank_group_of_rank.insert(sharing.rank_group_of_rank.end(), random.Between(1, 2), j);
    }
    sharing.last_steps = static_cast<LastSteps>(random.Below(2));
    request.queue = static_cast<uint32_t>(random.Below(sharing.rank_group_of_rank.size()));
    request.reader.count = static_cast<uint32_t>(random.Between(1, 3));
    request.reader.number = static_cast<uint32_t>(random.Below(request.reader.count));
  } else {
    request.worker = absl::StrCat("worker ", random.Below(2));
    request.queue = static_cast<uint32_t>(random.Below(epoch.rank_groups.size()));
    request.attempt = "0";
  }
  return request;
}

// Whoever asks before it joins is told what it finds then, and asking changes nothing.
TEST(JobShareTest, IsWhatAWorkerFindsWhenItJoins) {
  int num_joined = 0;
  int num_started = 0;
  int num_going_on = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    FailingLog log;
    auto world = std::make_unique<JobWorld>(&log);
    EpochIdentity epoch = IdentityOf({random.Between(1, 30), random.Below(20)});
    if (random.Below(3) == 0) {
      epoch = IdentityOf({random.Between(4, 40)});
      if (random.Below(2) == 0) epoch = IdentityOf({random.Between(4, 40), random.Between(4, 20)});
      epoch.num_windows = 4;
    }
    std::vector<uint32_t> windows;
    std::vector<std::string> cursors;
    for (int i = 0; i < 12; ++i) {
      JoinRequest request = RankOrWorker(epoch, random);
      if (random.Below(3) == 0) request.attempt = absl::StrCat(random.Below(3));
      if (windows.size() < epoch.num_counts() && random.Below(2) == 0) {
        for (const IdentityRankGroup& group : epoch.rank_groups) {
          windows.push_back(static_cast<uint32_t>(random.Below(group.num_batches / 4 + 1)));
        }
      }
      request.windows = windows;
      if (!cursors.empty() && random.Below(4) == 0) {
        request.cursor = DecodeCursor(cursors[random.Below(cursors.size())]).value();
      }
      if (!request.cursor && random.Below(4) == 0)
        request.generation = world->job().ProgressOf(epoch)->generation;
      if (random.Below(5) == 0) world = std::make_unique<JobWorld>(&log);
      if (random.Below(5) == 0) world->job().Rest();

      const JobLedger before = world->Ledger();
      const size_t num_open = world->job().num_open();
      const auto told = world->job().ProgressOf(epoch, &request);
      EXPECT_TRUE(world->Ledger() == before);
      EXPECT_LE(world->job().num_open(), num_open);
      const auto seat = world->Join(epoch, request);
      if (!seat.ok()) {
        EXPECT_EQ(told.status(), seat.status());
        continue;
      }
      ASSERT_THAT(told, IsOk());
      EXPECT_EQ(told->share, seat->start.progress.share);
      ASSERT_TRUE(told->share);
      const EpochShare& share = *told->share;
      ++num_joined;
      num_started += seat->start.join.started ? 1 : 0;
      num_going_on += share.num_batches_before > 0 && share.num_steps_done > 0 ? 1 : 0;
      EXPECT_EQ(share.is_estimate, seat->start.num_steps_is_estimate);
      if (request.reader.count == 1) {
        EXPECT_EQ(share.num_steps, seat->start.num_steps);
        EXPECT_EQ(share.num_steps_done, seat->start.num_steps_done);
      }
      EXPECT_EQ(share.num_batches_before,
                DecodeCursor(seat->start.join.cursor).value().done.size());
      EXPECT_GE(share.num_steps_of_epoch, share.num_steps);
      EXPECT_TRUE(share.num_batches_before > 0 || share.num_steps_of_epoch == share.num_steps);
      cursors.push_back(seat->start.join.cursor);
      for (uint64_t takes = random.Below(5); takes != 0; --takes) {
        PH_ASSERT_OK_AND_ASSIGN(const Lease lease, world->job().Next(*seat->session, kStart));
        if (lease.outcome != LeaseOutcome::kLeased) break;
        PH_ASSERT_OK_AND_ASSIGN(
            const AcknowledgeResult done,
            world->job().Acknowledge(0, seat->start.session, seat->start.join.generation,
                                     {lease.batch}, kStart));
        cursors.push_back(done.cursor);
      }
      if (random.Below(2) == 0) world->job().Leave(*seat->session);
    }
  }
  EXPECT_GT(num_joined, 1000);
  EXPECT_GT(num_started, 100);
  EXPECT_GT(num_going_on, 30);
}

}  // namespace
}  // namespace packhouse
