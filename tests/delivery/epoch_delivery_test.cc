#include "service/delivery/epoch_delivery.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/delivery/epoch_worlds.h"
#include "tests/delivery/ledger_logs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Time kStart = absl::UnixEpoch();

class EpochDeliveryTest : public ::testing::Test {
 protected:
  absl::Status Open(EpochIdentity identity) {
    auto opened = EpochDelivery::Open(std::move(identity), absl::Seconds(10), &ledger_, &log_);
    if (!opened.ok()) return opened.status();
    epoch_ = *std::move(opened);
    return absl::OkStatus();
  }

  // The server is killed and starts again.
  void Restart() {
    const EpochIdentity identity = epoch_->identity();
    epoch_.reset();
    log_.Reopen();
    ledger_ = JobLedger::Replay(log_.ReadAll().value()).value();
    ASSERT_THAT(Open(identity), IsOk());
  }

  JoinRequest Rank(uint32_t rank, size_t ranks) {
    JoinRequest request;
    request.session = ++last_session_;
    request.lane = rank;
    request.sharing = Sharing::Ranked(ranks);
    return request;
  }
  JoinRequest Worker(std::string name) {
    JoinRequest request;
    request.session = ++last_session_;
    request.worker = std::move(name);
    request.attempt = attempt_;
    return request;
  }

  uint64_t Next(SessionId session) {
    const auto lease = epoch_->Next(session, 100, kStart);
    EXPECT_THAT(lease, IsOk());
    EXPECT_EQ(lease->outcome, LeaseOutcome::kLeased);
    return lease->batch;
  }

  JobLedger ledger_;
  FailingLog log_;
  std::unique_ptr<EpochDelivery> epoch_;
  SessionId last_session_ = 0;
  std::string attempt_;
};

TEST_F(EpochDeliveryTest, ReadersOfARankThatComeFromACursorShareAGeneration) {
  ASSERT_THAT(Open(IdentityOf({12})), IsOk());
  const auto reader = [this](uint32_t rank, Reader number, const std::optional<Cursor>& cursor) {
    JoinRequest request = Rank(rank, 2);
    request.reader = number;
    request.cursor = cursor;
    const auto joined = epoch_->Join(request);
    EXPECT_THAT(joined, IsOk());
    return joined.ok() ? *joined : JoinResult();
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

TEST_F(EpochDeliveryTest, AWorkerThatComesAgainTakesOverWhatItHadWhenItEnded) {
  ASSERT_THAT(Open(IdentityOf({2})), IsOk());
  const JoinRequest a = Worker("a");
  ASSERT_THAT(epoch_->Join(a), IsOk());
  EXPECT_EQ(Next(a.session), 0U);
  EXPECT_EQ(Next(a.session), 1U);
  epoch_->SessionEnded(a.session, a.worker);
  const JoinRequest b = Worker("b");
  ASSERT_THAT(epoch_->Join(b), IsOk());
  EXPECT_EQ(epoch_->Next(b.session, 100, kStart)->outcome, LeaseOutcome::kAllLeased);
  const JoinRequest again = Worker("a");
  ASSERT_THAT(epoch_->Join(again), IsOk());
  EXPECT_EQ(Next(again.session), 0U);
  EXPECT_EQ(Next(b.session), 1U);
}

TEST_F(EpochDeliveryTest, TwoWorkersShareAnEpoch) {
  ASSERT_THAT(Open(IdentityOf({3})), IsOk());
  EXPECT_EQ(epoch_->generation(), 0U);
  PH_ASSERT_OK_AND_ASSIGN(const JoinResult a, epoch_->Join(Worker("a")));
  EXPECT_TRUE(a.started);
  PH_ASSERT_OK_AND_ASSIGN(const JoinResult b, epoch_->Join(Worker("b")));
  EXPECT_FALSE(b.started);
  EXPECT_EQ(b.generation, 1U);
  EXPECT_EQ(Next(1), 0U);
  EXPECT_EQ(Next(2), 1U);
  EXPECT_EQ(Next(1), 2U);
  PH_ASSERT_OK_AND_ASSIGN(AcknowledgeResult done, epoch_->Acknowledge(1, 1, {0, 2}, kStart));
  EXPECT_EQ(done.num_new, 2U);
  PH_ASSERT_OK_AND_ASSIGN(const Cursor cursor, DecodeCursor(done.cursor));
  EXPECT_EQ(cursor.done, BatchSet::Of({0, 2}));
  PH_ASSERT_OK_AND_ASSIGN(done, epoch_->Acknowledge(2, 1, {1}, kStart));
  EXPECT_TRUE(epoch_->finished());
  // Nothing new: nothing in the log.
  const size_t records = log_.num_records();
  PH_ASSERT_OK_AND_ASSIGN(done, epoch_->Acknowledge(2, 1, {1, 0}, kStart));
  EXPECT_EQ(done.num_new, 0U);
  EXPECT_EQ(log_.num_records(), records);
}

TEST_F(EpochDeliveryTest, AfterACrashOnlyWhatWasNotAcknowledgedIsSentAgain) {
  ASSERT_THAT(Open(IdentityOf({5})), IsOk());
  ASSERT_THAT(epoch_->Join(Rank(0, 2)), IsOk());
  ASSERT_THAT(epoch_->Join(Rank(1, 2)), IsOk());
  for (const uint64_t batch : {0, 2, 4}) EXPECT_EQ(Next(1), batch);
  for (const uint64_t batch : {1, 3, 5}) EXPECT_EQ(Next(2), batch);
  ASSERT_THAT(epoch_->Acknowledge(1, 1, {0}, kStart), IsOk());
  // The last is padding: it must not come again, or rank 1 had more steps than rank 0.
  ASSERT_THAT(epoch_->Acknowledge(2, 1, {3, 5}, kStart), IsOk());
  Restart();
  // The workers have lost their streams only.
  JoinRequest back = Rank(1, 2);
  back.generation = 1;
  PH_ASSERT_OK_AND_ASSIGN(const JoinResult joined, epoch_->Join(back));
  EXPECT_EQ(joined.generation, 1U);
  EXPECT_EQ(Next(back.session), 1U);
  PH_ASSERT_OK_AND_ASSIGN(const Lease none, epoch_->Next(back.session, 100, kStart));
  EXPECT_EQ(none.outcome, LeaseOutcome::kAllLeased);
  ASSERT_THAT(epoch_->Acknowledge(back.session, 1, {1}, kStart), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const Lease end, epoch_->Next(back.session, 100, kStart));
  EXPECT_EQ(end.outcome, LeaseOutcome::kFinished);
  // What rank 0 got before the crash still counts.
  ASSERT_THAT(epoch_->Acknowledge(0, 1, {2, 4}, kStart), IsOk());
  EXPECT_TRUE(epoch_->finished());
}

TEST_F(EpochDeliveryTest, AllRanksOfARestartedTrainerShareOneGeneration) {
  for (const std::string attempt : {"", "restart 7"}) {
    ASSERT_THAT(Open(IdentityOf({12}, attempt.size())), IsOk());
    for (uint32_t rank = 0; rank < 3; ++rank) ASSERT_THAT(epoch_->Join(Rank(rank, 3)), IsOk());
    const uint64_t first = epoch_->generation();
    PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult kept,
                            epoch_->Acknowledge(0, first, {0, 1, 2}, kStart));
    ASSERT_THAT(epoch_->Acknowledge(0, first, {3, 4, 5}, kStart), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const Cursor cursor, DecodeCursor(kept.cursor));
    for (const std::string& restart : {attempt, attempt + attempt}) {
      // In another number, and a second time from the same checkpoint.
      const uint64_t before = epoch_->generation();
      for (uint32_t rank = 0; rank < 2; ++rank) {
        JoinRequest request = Rank(rank, 2);
        request.cursor = cursor;
        request.attempt = restart;
        PH_ASSERT_OK_AND_ASSIGN(const JoinResult joined, epoch_->Join(request));
        EXPECT_EQ(joined.generation, before + 1);
        EXPECT_EQ(joined.started, rank == 0);
        EXPECT_EQ(Next(request.session), 3U + rank);
      }
      ASSERT_THAT(epoch_->Acknowledge(0, before + 1, {3, 4}, kStart), IsOk());
    }
    // A late one of the first generation.
    EXPECT_THAT(
        epoch_->Acknowledge(0, first, {6}, kStart),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr("is over, the current one is " + std::to_string(epoch_->generation()))));
    EXPECT_THAT(epoch_->Next(1, 1, kStart),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("session 1")));
  }
}

TEST_F(EpochDeliveryTest, ACursorIsEnoughWhenEverythingIsForgotten) {
  ASSERT_THAT(Open(IdentityOf({6})), IsOk());
  ASSERT_THAT(epoch_->Join(Worker("a")), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult kept, epoch_->Acknowledge(1, 1, {0, 4}, kStart));
  ledger_ = JobLedger();
  ASSERT_THAT(Open(IdentityOf({6})), IsOk());
  attempt_ = "2";
  JoinRequest request = Worker("a");
  PH_ASSERT_OK_AND_ASSIGN(request.cursor, DecodeCursor(kept.cursor));
  PH_ASSERT_OK_AND_ASSIGN(const JoinResult joined, epoch_->Join(request));
  EXPECT_EQ(joined.generation, 2U);
  for (const uint64_t batch : {1, 2, 3, 5}) EXPECT_EQ(Next(request.session), batch);
}

TEST_F(EpochDeliveryTest, StepCursorsDoNotDependOnAcknowledgements) {
  ASSERT_THAT(Open(IdentityOf({7})), IsOk());
  ASSERT_THAT(epoch_->Join(Rank(0, 2)), IsOk());
  ASSERT_THAT(epoch_->Acknowledge(1, 1, {0, 2, 4}, kStart), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, epoch_->CursorAtStep(1, 2));
  PH_ASSERT_OK_AND_ASSIGN(const Cursor cursor, DecodeCursor(text));
  EXPECT_EQ(cursor.done, BatchSet::Of({0, 1, 2, 3}));
  EXPECT_THAT(epoch_->CursorAtStep(1, 4), IsOk());
  EXPECT_THAT(epoch_->CursorAtStep(1, 5),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("step 5: generation 1 has 4")));
  EXPECT_THAT(epoch_->CursorAtStep(2, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("generation 2")));
}

TEST_F(EpochDeliveryTest, AnotherNumberOfWorkersGoesOnFromWhatWasAcknowledged) {
  ASSERT_THAT(Open(IdentityOf({6})), IsOk());
  ASSERT_THAT(epoch_->Join(Rank(0, 2)), IsOk());
  ASSERT_THAT(epoch_->Acknowledge(1, 1, {0, 1}, kStart), IsOk());
  const JoinRequest request = Rank(2, 4);
  PH_ASSERT_OK_AND_ASSIGN(const JoinResult joined, epoch_->Join(request));
  EXPECT_EQ(joined.generation, 2U);
  EXPECT_EQ(Next(request.session), 4U);
}

TEST_F(EpochDeliveryTest, WhatTheLogRefusesHasNotHappened) {
  ASSERT_THAT(Open(IdentityOf({6})), IsOk());
  log_.FailNext(FailingLog::Failure::kRefuses);
  EXPECT_THAT(epoch_->Join(Worker("a")),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_EQ(epoch_->generation(), 0U);
  ASSERT_THAT(epoch_->Join(Worker("a")), IsOk());
  const uint64_t batch = Next(last_session_);
  log_.FailNext(FailingLog::Failure::kRefuses);
  EXPECT_THAT(epoch_->Acknowledge(last_session_, 1, {batch}, kStart),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_EQ(epoch_->table()->num_done(), 0U);
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult done,
                          epoch_->Acknowledge(last_session_, 1, {batch}, kStart));
  EXPECT_EQ(done.num_new, 1U);
}

TEST_F(EpochDeliveryTest, AnAcknowledgementThatARollBackOvertakesIsRefused) {
  ASSERT_THAT(Open(IdentityOf({6})), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const JoinResult start, epoch_->Join(Worker("a")));
  PH_ASSERT_OK_AND_ASSIGN(const auto event, epoch_->PrepareAcknowledge(1, {0, 1}));
  ASSERT_TRUE(event.has_value());
  // While the record is on its way.
  attempt_ = "2";
  JoinRequest request = Worker("a");
  PH_ASSERT_OK_AND_ASSIGN(request.cursor, DecodeCursor(start.cursor));
  ASSERT_THAT(epoch_->Join(request), IsOk());
  ASSERT_THAT(log_.Append({EncodeEvent(*event)}), IsOk());
  EXPECT_THAT(epoch_->FinishAcknowledge(1, 1, {0, 1}, kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("generation 1")));
  Restart();
  EXPECT_EQ(epoch_->generation(), 2U);
  EXPECT_EQ(epoch_->table()->num_done(), 0U);
}

TEST_F(EpochDeliveryTest, Refuses) {
  ASSERT_THAT(Open(IdentityOf({6})), IsOk());
  EXPECT_THAT(epoch_->Acknowledge(1, 1, {0}, kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("current one is 0")));
  EXPECT_THAT(epoch_->Join(Worker("")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a name")));
  EXPECT_THAT(epoch_->Join(Rank(2, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2: there are 2")));
  PH_ASSERT_OK_AND_ASSIGN(const JoinResult joined, epoch_->Join(Worker("a")));
  JoinRequest request = Worker("a");
  request.session = last_session_ - 1;
  EXPECT_THAT(epoch_->Join(request),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("session")));
  request = Worker("a");
  request.generation = 2;
  EXPECT_THAT(epoch_->Join(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("generation 2"), HasSubstr("current one is 1"))));
  request.cursor = DecodeCursor(joined.cursor).value();
  EXPECT_THAT(epoch_->Join(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("both")));
  request.generation.reset();
  EXPECT_THAT(epoch_->Join(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs an attempt")));
  request.attempt = "2";
  request.cursor->identity.seed = 5;
  EXPECT_THAT(epoch_->Join(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("cursor: is of seed 5"), HasSubstr("seed 11"))));
  request = Rank(0, 2);
  request.generation = 1;
  EXPECT_THAT(epoch_->Join(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("asked for are 2")));
  EXPECT_THAT(epoch_->Acknowledge(1, 1, {6}, kStart),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch 6")));
  EXPECT_THAT(epoch_->CursorAtStep(1, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no steps in common")));
  EpochIdentity other = IdentityOf({6});
  other.dataset_version = 9;
  EXPECT_THAT(Open(other), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    AllOf(HasSubstr("version 9"), HasSubstr("version 3"))));
  EXPECT_THAT(Open(IdentityOf({})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("profiles")));
}

}  // namespace
}  // namespace packhouse
