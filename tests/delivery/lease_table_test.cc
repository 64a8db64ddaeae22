#include "service/engine/jobs/lease_table.h"

#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Time kLeaseStart = absl::UnixEpoch();
constexpr absl::Duration kLease = absl::Seconds(10);
constexpr size_t kMany = 100;

LeaseTable Table(uint64_t batches, Sharing sharing = Sharing::Dynamic(),
                 const BatchSet& done = {}) {
  return LeaseTable(Dealing::Create({0, batches}, {}, std::move(sharing)).value(), kLease, done);
}

// The batch, or the outcome as a negative number.
int64_t Next(LeaseTable& table, SessionId session, absl::Time now = kLeaseStart,
             size_t max_in_flight = kMany) {
  const Lease lease = table.Next(session, max_in_flight, now);
  if (lease.outcome == LeaseOutcome::kLeased) return static_cast<int64_t>(lease.batch);
  return -static_cast<int64_t>(lease.outcome);
}
constexpr int64_t kTooMany = -static_cast<int64_t>(LeaseOutcome::kTooManyInFlight);
constexpr int64_t kAllLeased = -static_cast<int64_t>(LeaseOutcome::kAllLeased);
constexpr int64_t kFinished = -static_cast<int64_t>(LeaseOutcome::kFinished);

TEST(LeaseTableTest, FirstComeFirstServedUntilAllIsDone) {
  LeaseTable table = Table(3);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  ASSERT_THAT(table.Join(2, 0), IsOk());
  EXPECT_EQ(Next(table, 1), 0);
  EXPECT_EQ(Next(table, 2), 1);
  EXPECT_EQ(Next(table, 2), 2);
  EXPECT_EQ(Next(table, 1), kAllLeased);
  EXPECT_EQ(table.num_leased(), 3U);
  EXPECT_EQ(table.Acknowledge(1, {0}, kLeaseStart), 1U);
  EXPECT_EQ(table.Acknowledge(2, {1, 2}, kLeaseStart), 2U);
  EXPECT_EQ(Next(table, 1), kFinished);
  EXPECT_TRUE(table.finished());
  EXPECT_EQ(table.num_leased(), 0U);
}

TEST(LeaseTableTest, AnEmptyEpochIsFinished) {
  LeaseTable table = Table(0);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  EXPECT_EQ(Next(table, 1), kFinished);
  EXPECT_TRUE(table.finished());
}

TEST(LeaseTableTest, WhatIsInFlightIsBounded) {
  LeaseTable table = Table(5);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  EXPECT_EQ(Next(table, 1, kLeaseStart, 2), 0);
  EXPECT_EQ(Next(table, 1, kLeaseStart, 2), 1);
  EXPECT_EQ(Next(table, 1, kLeaseStart, 2), kTooMany);
  // Expired is still in flight: the session has it.
  EXPECT_EQ(table.Expire(kLeaseStart + kLease), 2U);
  EXPECT_EQ(Next(table, 1, kLeaseStart + kLease, 2), kTooMany);
  EXPECT_THAT(table.InFlight(1), ElementsAre(0, 1));
  table.Acknowledge(1, {0}, kLeaseStart + kLease);
  EXPECT_EQ(Next(table, 1, kLeaseStart + kLease, 2), 2);
}

TEST(LeaseTableTest, ExpiresAtItsTimeAndNotBefore) {
  LeaseTable table = Table(2);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  EXPECT_EQ(table.NextExpiry(), absl::InfiniteFuture());
  EXPECT_EQ(Next(table, 1), 0);
  EXPECT_EQ(table.NextExpiry(), kLeaseStart + kLease);
  EXPECT_EQ(table.Expire(kLeaseStart + kLease - absl::Nanoseconds(1)), 0U);
  EXPECT_EQ(table.Expire(kLeaseStart + kLease), 1U);
  EXPECT_EQ(table.Expire(kLeaseStart + kLease), 0U);
  EXPECT_EQ(table.counters().expired, 1U);
}

TEST(LeaseTableTest, AnotherSessionGetsWhatExpiredAndTheFirstAcknowledgementCounts) {
  LeaseTable table = Table(2);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  ASSERT_THAT(table.Join(2, 0), IsOk());
  EXPECT_EQ(Next(table, 1), 0);
  const absl::Time later = kLeaseStart + kLease;
  table.Expire(later);
  // The batch does not go to the worker to which it was sent before.
  EXPECT_EQ(Next(table, 1, later), 1);
  EXPECT_EQ(Next(table, 1, later), kAllLeased);
  const Lease again = table.Next(2, kMany, later);
  EXPECT_EQ(again.batch, 0U);
  EXPECT_TRUE(again.redelivered);
  // From the one whose lease is over.
  EXPECT_EQ(table.Acknowledge(1, {0}, later), 1U);
  EXPECT_THAT(table.InFlight(2), IsEmpty());
  EXPECT_EQ(table.Acknowledge(2, {0, 0}, later), 0U);
  EXPECT_EQ(table.counters().duplicates, 2U);
  EXPECT_EQ(table.counters().acknowledged, 1U);
  EXPECT_EQ(table.counters().redelivered, 1U);
}

TEST(LeaseTableTest, AnAcknowledgementRenewsTheOtherLeases) {
  LeaseTable table = Table(2);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  Next(table, 1);
  Next(table, 1);
  table.Acknowledge(1, {0}, kLeaseStart + absl::Seconds(9));
  EXPECT_EQ(table.Expire(kLeaseStart + absl::Seconds(18)), 0U);
  EXPECT_EQ(table.Expire(kLeaseStart + absl::Seconds(19)), 1U);
}

// It does not matter who sends it. The workers whose batches are acknowledged have shown that they
// are alive.
TEST(LeaseTableTest, AnAcknowledgementRenewsTheLeasesOfThoseWhoseBatchesTheyAre) {
  LeaseTable table = Table(8);
  for (const SessionId session : {1, 2, 3}) ASSERT_THAT(table.Join(session, 0), IsOk());
  for (const SessionId session : {1, 2, 3, 1, 2, 3}) Next(table, session);
  const absl::Time later = kLeaseStart + absl::Seconds(9);
  // By somebody who has no session: batches of the first two.
  table.Acknowledge(0, {0, 1}, later);
  EXPECT_EQ(table.Expire(kLeaseStart + kLease), 2U);
  EXPECT_THAT(table.InFlight(3), ElementsAre(2, 5));
  EXPECT_EQ(table.num_leased(), 2U);
  EXPECT_EQ(table.NextExpiry(), later + kLease);
  // A batch of the third worker, which has lost its leases and has nothing else to renew.
  table.Acknowledge(0, {2}, later);
  EXPECT_EQ(table.NextExpiry(), later + kLease);
}

// The law by which nobody waits for ever: whatever happens, a session that was told to wait, and
// would be told something else now, has been woken since.
TEST(LeaseTableTest, WhoeverMayGoOnIsWoken) {
  uint64_t num_woken = 0;
  uint64_t num_waits = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const bool ranked = random.Below(3) == 0;
    // Lanes of equal and of unequal length.
    const uint64_t half = random.Between(1, 12);
    Sharing sharing;
    if (ranked) sharing.rank_group_of_rank = {0, 1, 1};
    LeaseTable table(Dealing::Create({0, half, half + random.Below(12)}, {}, sharing).value(),
                     kLease);
    const size_t queues = table.dealing().num_queues();
    const size_t max_in_flight = random.Between(1, 4);
    absl::Time now = kLeaseStart;
    std::set<SessionId> gone;
    std::set<SessionId> told_to_wait;
    std::map<SessionId, std::vector<uint64_t>> sent;
    SessionId last = 0;
    for (int step = 0; step < 80; ++step) {
      const SessionId any = last == 0 ? 0 : random.Between(1, last);
      switch (random.Below(8)) {
        case 0: {
          Reader reader;
          if (ranked && random.Below(2) == 0) {
            reader.count = static_cast<uint32_t>(random.Between(1, 3));
            reader.number = static_cast<uint32_t>(random.Below(reader.count));
          }
          const auto queue = static_cast<uint32_t>(random.Below(queues));
          ASSERT_THAT(table.Join(++last, queue, reader), IsOk());
          break;
        }
        case 1:
          if (random.Below(2) == 0) break;
          if (random.Below(2) == 0) {
            table.SessionGone(any);
          } else {
            table.SessionEnded(any);
          }
          gone.insert(any);
          told_to_wait.erase(any);
          break;
        case 2:
          now += absl::Seconds(random.Below(8));
          table.Expire(now);
          break;
        case 3:
        case 4: {
          // By its own session, by another, or by nobody.
          std::vector<uint64_t> batches;
          for (const uint64_t batch : sent[any]) {
            if (random.Below(2) == 0) batches.push_back(batch);
          }
          table.Acknowledge(random.Below(2) == 0 ? any : random.Below(last + 1), batches, now);
          break;
        }
        default: {
          if (!table.IsPresent(any) || gone.contains(any)) break;
          const LeaseOutcome expected = table.Peek(any, max_in_flight);
          const Lease lease = table.Next(any, max_in_flight, now);
          EXPECT_EQ(lease.outcome, expected);
          told_to_wait.erase(any);
          if (lease.outcome == LeaseOutcome::kLeased) {
            sent[any].push_back(lease.batch);
          } else if (lease.outcome != LeaseOutcome::kFinished) {
            told_to_wait.insert(any);
            ++num_waits;
          }
        }
      }
      for (const SessionId session : table.TakeWoken()) {
        ++num_woken;
        told_to_wait.erase(session);
      }
      for (const SessionId session : told_to_wait) {
        ASSERT_TRUE(table.IsPresent(session)) << "lost its queue, and was not told";
        const LeaseOutcome outcome = table.Peek(session, max_in_flight);
        ASSERT_TRUE(outcome == LeaseOutcome::kAllLeased ||
                    outcome == LeaseOutcome::kTooManyInFlight)
            << "session " << session << " sleeps on, step " << step;
      }
      std::vector<SessionId> waiting = table.Waiting();
      EXPECT_EQ(std::set<SessionId>(waiting.begin(), waiting.end()), told_to_wait);
    }
  }
  EXPECT_GT(num_waits, 2000U);
  EXPECT_GT(num_woken, 2000U);
}

TEST(LeaseTableTest, TellsWhoWaitsForWhom) {
  LeaseTable table = Table(3);
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kNobody);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  ASSERT_THAT(table.Join(2, 0), IsOk());
  // The first batch has not been asked for, or is being made.
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kWorker);
  EXPECT_EQ(Next(table, 1, kLeaseStart, 2), 0);
  EXPECT_EQ(table.WaitOf(1, true), SessionWait::kWorker);
  // It was sent, and the worker does not read, or is working on it.
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kServer);
  // The worker has one while the next one is made.
  EXPECT_EQ(Next(table, 1, kLeaseStart, 2), 1);
  EXPECT_EQ(table.WaitOf(1, true), SessionWait::kNobody);
  EXPECT_EQ(Next(table, 1, kLeaseStart, 2), kTooMany);
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kServer);
  // It has done one of the two, or both, and the disk is slow.
  EXPECT_EQ(table.WaitOf(1, false, 1), SessionWait::kServer);
  EXPECT_EQ(table.WaitOf(1, false, 2), SessionWait::kWorker);
  // What is being made for one may be acknowledged by another.
  EXPECT_EQ(Next(table, 2), 2);
  table.Acknowledge(1, {2}, kLeaseStart);
  EXPECT_EQ(table.WaitOf(2, true), SessionWait::kWorker);
  // The others have what is left.
  EXPECT_EQ(Next(table, 2), kAllLeased);
  EXPECT_EQ(table.WaitOf(2, false), SessionWait::kNobody);
  table.SessionEnded(1);
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kNobody);
  table.Acknowledge(2, {0, 1}, kLeaseStart);
  EXPECT_EQ(Next(table, 2), kFinished);
  EXPECT_EQ(table.WaitOf(2, false), SessionWait::kNobody);
}

// Windows of the epoch are being planned: the worker waits for the server, once it has done all.
TEST(LeaseTableTest, TellsWhoWaitsForWindows) {
  LeaseTable table(Dealing::CreateGrowing({0, 4}, {}, Sharing::Dynamic()).value(), kLease);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  constexpr int64_t kNotKnown = -static_cast<int64_t>(LeaseOutcome::kNotKnown);
  EXPECT_EQ(Next(table, 1), kNotKnown);
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kWorker);
  table.Grow({1}, /*is_all=*/false);
  EXPECT_EQ(Next(table, 1), 0);
  EXPECT_EQ(Next(table, 1), kNotKnown);
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kNobody);
  table.Acknowledge(1, {0}, kLeaseStart);
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kWorker);
  table.Grow({1}, /*is_all=*/true);
  EXPECT_EQ(table.WaitOf(1, false), SessionWait::kNobody);
}

TEST(LeaseTableTest, AGoneSessionsBatchesComeNextAndItMayStillAcknowledge) {
  LeaseTable table = Table(5);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  ASSERT_THAT(table.Join(2, 0), IsOk());
  EXPECT_EQ(Next(table, 1), 0);
  EXPECT_EQ(Next(table, 2), 1);
  EXPECT_EQ(Next(table, 1), 2);
  table.SessionGone(1);
  table.SessionGone(1);
  EXPECT_FALSE(table.IsPresent(1));
  EXPECT_EQ(table.counters().given_back, 2U);
  EXPECT_EQ(table.num_leased(), 1U);
  EXPECT_EQ(Next(table, 2), 0);
  EXPECT_EQ(table.Acknowledge(1, {2}, kLeaseStart), 1U);
  EXPECT_EQ(Next(table, 2), 3);
  EXPECT_EQ(table.Acknowledge(1, {0}, kLeaseStart), 1U);
  EXPECT_THAT(table.InFlight(2), ElementsAre(1, 3));
}

TEST(LeaseTableTest, ARanksNewSessionTakesItsStepsOverInOrder) {
  LeaseTable table = Table(7, Sharing::Ranked(2));
  ASSERT_THAT(table.Join(1, 0), IsOk());
  ASSERT_THAT(table.Join(2, 1), IsOk());
  EXPECT_EQ(Next(table, 1), 0);
  EXPECT_EQ(Next(table, 1), 2);
  EXPECT_EQ(Next(table, 1), 4);
  EXPECT_EQ(table.Acknowledge(1, {2}, kLeaseStart), 1U);
  ASSERT_THAT(table.Join(3, 0), IsOk());
  EXPECT_FALSE(table.IsPresent(1));
  EXPECT_EQ(Next(table, 3), 0);
  EXPECT_EQ(Next(table, 3), 4);
  EXPECT_EQ(Next(table, 3), 6);
  EXPECT_EQ(Next(table, 3), kAllLeased);
  // Nobody else could do it.
  EXPECT_EQ(table.NextExpiry(), absl::InfiniteFuture());
  EXPECT_EQ(table.Expire(absl::InfiniteFuture()), 0U);
  // The old stream ends late.
  table.SessionGone(1);
  EXPECT_THAT(table.InFlight(3), ElementsAre(0, 4, 6));
  table.Acknowledge(3, {0, 4, 6}, kLeaseStart);
  EXPECT_EQ(Next(table, 3), kFinished);
  // Rank 1 gets padding as its last step.
  for (const int64_t batch : {1, 3, 5, 7}) EXPECT_EQ(Next(table, 2), batch);
}

TEST(LeaseTableTest, ReadersShareARanksStepsInTurn) {
  LeaseTable table = Table(7, Sharing::Ranked(1), BatchSet::Of({2}));
  ASSERT_THAT(table.Join(1, 0, {0, 2}), IsOk());
  ASSERT_THAT(table.Join(2, 0, {1, 2}), IsOk());
  for (const int64_t batch : std::vector<int64_t>{0, 4, 6, kAllLeased})
    EXPECT_EQ(Next(table, 1), batch);
  for (const int64_t batch : {1, 3}) EXPECT_EQ(Next(table, 2), batch);
  // A reader ends when its share is done, whatever the others do.
  table.Acknowledge(1, {0, 4, 6}, kLeaseStart);
  EXPECT_EQ(Next(table, 1), kFinished);
  // One that comes again gets its own share, in order.
  ASSERT_THAT(table.Join(3, 0, {1, 2}), IsOk());
  EXPECT_FALSE(table.IsPresent(2));
  EXPECT_TRUE(table.IsPresent(1));
  for (const int64_t batch : {1, 3, 5}) EXPECT_EQ(Next(table, 3), batch);
  EXPECT_THAT(table.Join(4, 0, {2, 2}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reader 2: there are 2")));
}

TEST(LeaseTableTest, ReadersOfAnotherNumberTakeARankOverInOrder) {
  for (const uint32_t before : {1, 2, 3}) {
    for (const uint32_t after : {1, 2, 3, 20}) {
      LeaseTable table = Table(12, Sharing::Ranked(1));
      for (uint32_t reader = 0; reader < before; ++reader) {
        ASSERT_THAT(table.Join(1 + reader, 0, {reader, before}), IsOk());
      }
      // Both are not equally far away.
      EXPECT_EQ(Next(table, 1), 0);
      EXPECT_EQ(Next(table, 1), before);
      EXPECT_EQ(Next(table, 1), 2 * before);
      table.Acknowledge(1, {before}, kLeaseStart);
      std::vector<int64_t> received;
      for (uint32_t reader = 0; reader < after; ++reader) {
        ASSERT_THAT(table.Join(100 + reader, 0, {reader, after}), IsOk());
        int64_t last = -1;
        for (int64_t batch = Next(table, 100 + reader); batch >= 0;
             batch = Next(table, 100 + reader)) {
          EXPECT_LT(last, batch);
          EXPECT_EQ(batch % after, reader);
          last = batch;
          received.push_back(batch);
          table.Acknowledge(100 + reader, {static_cast<uint64_t>(batch)}, kLeaseStart);
        }
      }
      EXPECT_EQ(received.size(), 11);
      EXPECT_TRUE(table.finished()) << before << " readers, then " << after;
    }
  }
}

TEST(LeaseTableTest, WhatIsInFlightWhenASessionEndsStaysLeasedToIt) {
  LeaseTable table = Table(2);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  ASSERT_THAT(table.Join(2, 0), IsOk());
  EXPECT_EQ(Next(table, 1), 0);
  EXPECT_EQ(Next(table, 1), 1);
  table.SessionEnded(1);
  table.SessionEnded(2);
  EXPECT_FALSE(table.IsPresent(2));
  ASSERT_THAT(table.Join(3, 0), IsOk());
  EXPECT_EQ(Next(table, 3), kAllLeased);
  EXPECT_EQ(table.Acknowledge(1, {0}, kLeaseStart + kLease / 2), 1U);
  // Renewed.
  EXPECT_EQ(table.Expire(kLeaseStart + kLease), 0U);
  EXPECT_EQ(Next(table, 3), kAllLeased);
  EXPECT_EQ(table.Expire(kLeaseStart + kLease + kLease / 2), 1U);
  EXPECT_EQ(Next(table, 3), 1);
  EXPECT_EQ(table.Acknowledge(3, {1}, kLeaseStart), 1U);
  EXPECT_FALSE(table.IsPresent(1));
  EXPECT_EQ(Next(table, 3), kFinished);
}

TEST(LeaseTableTest, GoesOnFromWhatWasDone) {
  LeaseTable table = Table(6, Sharing::Dynamic(), BatchSet::Of({0, 1, 4, 99}));
  EXPECT_EQ(table.num_done(), 3U);
  ASSERT_THAT(table.Join(1, 0), IsOk());
  EXPECT_EQ(Next(table, 1), 2);
  // Sent by the server's earlier run.
  EXPECT_EQ(table.Acknowledge(1, {3}, kLeaseStart), 1U);
  EXPECT_EQ(Next(table, 1), 5);
  EXPECT_EQ(table.counters().acknowledged, 1U);
}

// What is told of a job's workers: steps of each, and how many of them are done, whoever did them.
TEST(LeaseTableTest, TellsOfEachWorkersSteps) {
  LeaseTable table = Table(14, Sharing::Ranked(2), BatchSet::Of({2}));
  ASSERT_THAT(table.Join(1, 0), IsOk());
  ASSERT_THAT(table.Join(2, 1), IsOk());
  for (const int64_t batch : {0, 4, 6}) EXPECT_EQ(Next(table, 1), batch);
  EXPECT_EQ(Next(table, 2), 1);
  table.Acknowledge(1, {0}, kLeaseStart + absl::Seconds(1));
  EpochWatch watch;
  std::vector<SessionId> sessions;
  table.AddTo(watch, sessions);
  EXPECT_TRUE(watch.is_ranked);
  ASSERT_EQ(watch.queues.size(), 2U);
  ASSERT_EQ(watch.workers.size(), 2U);
  ASSERT_EQ(sessions.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const bool is_first = sessions[i] == 1;
    const WorkerWatch& worker = watch.workers[i];
    EXPECT_EQ(worker.queue, is_first ? 0U : 1U);
    EXPECT_EQ(worker.num_steps, 7U);
    EXPECT_EQ(worker.num_done, is_first ? 2U : 0U);
    EXPECT_EQ(worker.num_acknowledged, is_first ? 1U : 0U);
    EXPECT_EQ(worker.num_in_flight, is_first ? 2U : 1U);
    EXPECT_EQ(worker.last_heard, is_first ? kLeaseStart + absl::Seconds(1) : kLeaseStart);
    EXPECT_FALSE(worker.has_ended);
    EXPECT_EQ(watch.queues[worker.queue].num_batches, 7U);
    EXPECT_EQ(watch.queues[worker.queue].num_done, worker.num_done);
    EXPECT_EQ(watch.queues[worker.queue].num_given_back, 0U);
    EXPECT_EQ(worker.reader, 0U);
    EXPECT_EQ(worker.num_readers, 1U);
  }
  EXPECT_EQ(watch.num_leased, 3U);
  EXPECT_EQ(watch.num_sessions, 2U);
  EXPECT_EQ(watch.counters.leased, 4U);
  EXPECT_EQ(watch.counters.acknowledged, 1U);
  // The second rank comes with two readers: what it had not done is to be sent again.
  ASSERT_THAT(table.Join(3, 1, {1, 2}), IsOk());
  EXPECT_EQ(Next(table, 3), 3);
  EpochWatch again;
  again.counters.leased = 10;
  sessions.clear();
  table.AddTo(again, sessions);
  EXPECT_EQ(again.num_sessions, 2U);
  EXPECT_EQ(again.counters.leased, 15U);
  EXPECT_EQ(again.counters.given_back, 1U);
  EXPECT_EQ(again.queues[1].num_given_back, 1U);
  ASSERT_EQ(sessions, (std::vector<SessionId>{1, 3}));
  EXPECT_EQ(again.workers[1].reader, 1U);
  EXPECT_EQ(again.workers[1].num_readers, 2U);
  EXPECT_EQ(again.workers[1].num_steps, 3U);
}

// However many there are.
TEST(LeaseTableTest, ManyWorkersAreListedInPart) {
  constexpr size_t kListed = EpochWatch::kMostListed;
  LeaseTable table = Table(kListed + 3, Sharing::Ranked(kListed + 1));
  for (uint32_t rank = 0; rank <= kListed; ++rank) ASSERT_THAT(table.Join(rank, rank), IsOk());
  EpochWatch watch;
  std::vector<SessionId> sessions;
  table.AddTo(watch, sessions);
  EXPECT_EQ(watch.num_sessions, kListed + 1);
  EXPECT_EQ(watch.queues.size(), kListed);
  EXPECT_EQ(watch.workers.size(), kListed);
  EXPECT_EQ(sessions.size(), kListed);
}

// What a table that was destroyed had sent comes again in its place, without what is done or is not
// dealt.
TEST(LeaseTableTest, WhatWasSentBeforeComesAgain) {
  Dealing dealing = Dealing::Create({0, 6}, {}, Sharing::Dynamic()).value();
  LeaseTable table(std::move(dealing), kLease, BatchSet::Of({1}), BatchSet::Of({1, 2, 4, 99}));
  EXPECT_EQ(table.Sent(), BatchSet::Of({2, 4}));
  ASSERT_THAT(table.Join(1, 0), IsOk());
  for (const int64_t batch : {0, 2, 3}) EXPECT_EQ(Next(table, 1), batch);
  EXPECT_EQ(table.counters().redelivered, 1U);
  EXPECT_EQ(table.Sent(), BatchSet::Of({0, 2, 3, 4}));
  table.SessionGone(1);
  EXPECT_EQ(table.Sent(), BatchSet::Of({0, 2, 3, 4}));
  ASSERT_THAT(table.Join(2, 0), IsOk());
  for (const int64_t batch : std::vector<int64_t>{0, 2, 3, 4, 5, kAllLeased}) {
    EXPECT_EQ(Next(table, 2), batch);
  }
  EXPECT_EQ(table.counters().redelivered, 5U);
}

// Without ranks there are no readers: a worker that names some gets all that there is.
TEST(LeaseTableTest, ReadersOfNoRankAreOne) {
  LeaseTable table = Table(4);
  ASSERT_THAT(table.Join(1, 0, {1, 2}), IsOk());
  for (const int64_t batch : std::vector<int64_t>{0, 1, 2, 3, kAllLeased}) {
    EXPECT_EQ(Next(table, 1), batch);
  }
  EpochWatch watch;
  std::vector<SessionId> sessions;
  table.AddTo(watch, sessions);
  EXPECT_FALSE(watch.is_ranked);
  ASSERT_EQ(watch.workers.size(), 1U);
  EXPECT_EQ(watch.workers[0].reader, 0U);
  EXPECT_EQ(watch.workers[0].num_readers, 1U);
  // Steps are of ranks.
  EXPECT_EQ(watch.workers[0].num_steps, 0U);
  EXPECT_EQ(watch.workers[0].num_done, 0U);
  EXPECT_EQ(watch.workers[0].num_in_flight, 4U);
}

// Of each rank group, whatever comes again.
TEST(LeaseTableTest, TellsHowFarEachRankGroupHasCome) {
  LeaseTable table(Dealing::Create({0, 4, 9}, {}, {{0, 1, 1}, LastSteps::kPadded}).value(), kLease);
  EXPECT_THAT(table.leased_ends(), ElementsAre(0, 0));
  for (const SessionId session : {1, 2, 3}) {
    ASSERT_THAT(table.Join(session, static_cast<uint32_t>(session - 1)), IsOk());
  }
  EXPECT_EQ(Next(table, 1), 0);
  EXPECT_EQ(Next(table, 3), 5);
  EXPECT_THAT(table.leased_ends(), ElementsAre(1, 2));
  EXPECT_EQ(Next(table, 2), 4);
  EXPECT_EQ(Next(table, 1), 1);
  EXPECT_THAT(table.leased_ends(), ElementsAre(2, 2));
  table.SessionGone(1);
  ASSERT_THAT(table.Join(4, 0), IsOk());
  EXPECT_EQ(Next(table, 4), 0);
  EXPECT_THAT(table.leased_ends(), ElementsAre(2, 2));
}

// Who acknowledges one batch keeps its own leases, not those that are another's by now.
TEST(LeaseTableTest, AnAcknowledgementRenewsNoLeaseOfAnother) {
  LeaseTable table = Table(3);
  for (const SessionId session : {1, 2}) ASSERT_THAT(table.Join(session, 0), IsOk());
  EXPECT_EQ(Next(table, 1), 0);
  const absl::Time later = kLeaseStart + kLease;
  EXPECT_EQ(table.Expire(later), 1U);
  EXPECT_EQ(Next(table, 2, later), 0);
  EXPECT_EQ(Next(table, 1, later), 1);
  const absl::Time last = later + absl::Seconds(5);
  EXPECT_EQ(Next(table, 1, later), 2);
  EXPECT_EQ(table.Acknowledge(1, {1}, last), 1U);
  EXPECT_EQ(table.NextExpiry(), later + kLease);
  EXPECT_EQ(table.Expire(later + kLease), 1U);
  EXPECT_EQ(table.NextExpiry(), last + kLease);
}

// Batches that become known are shared by a rank's readers, and wake those who wait for them; who
// has as many as it may have waits on, until there are no others.
TEST(LeaseTableTest, WhatBecomesKnownIsSharedAndWakes) {
  LeaseTable table(Dealing::CreateGrowing({0, 9}, {}, Sharing::Ranked(1)).value(), kLease);
  ASSERT_THAT(table.Join(1, 0, {0, 2}), IsOk());
  ASSERT_THAT(table.Join(2, 0, {1, 2}), IsOk());
  constexpr int64_t kNotKnown = -static_cast<int64_t>(LeaseOutcome::kNotKnown);
  EXPECT_EQ(Next(table, 1), kNotKnown);
  EXPECT_EQ(Next(table, 2), kNotKnown);
  table.Grow({3}, /*is_all=*/false);
  EXPECT_THAT(table.TakeWoken(), ElementsAre(1, 2));
  EXPECT_EQ(table.NumLeftOf(0, {0, 2}), 2U);
  EXPECT_EQ(table.NumLeftOf(0, {1, 2}), 1U);
  EXPECT_EQ(table.NumStepsOf(0, {0, 2}), 2U);
  EXPECT_EQ(table.NumStepsOf(0, {1, 2}), 1U);
  EXPECT_EQ(table.NumStepsOf(0, {3, 5}), 0U);
  EXPECT_EQ(Next(table, 1, kLeaseStart, 1), 0);
  EXPECT_EQ(Next(table, 1, kLeaseStart, 1), kTooMany);
  EXPECT_EQ(Next(table, 2), 1);
  EXPECT_EQ(Next(table, 2), kNotKnown);
  EXPECT_FALSE(table.finished());
  table.Grow({5}, /*is_all=*/false);
  EXPECT_THAT(table.TakeWoken(), ElementsAre(2));
  EXPECT_EQ(table.NumLeftOf(0, {0, 2}), 3U);
  EXPECT_EQ(table.NumLeftOf(0, {1, 2}), 2U);
  EXPECT_EQ(Next(table, 2), 3);
  table.Acknowledge(2, {1, 3}, kLeaseStart);
  EXPECT_EQ(Next(table, 2), kNotKnown);
  table.Grow({5}, /*is_all=*/true);
  EXPECT_THAT(table.TakeWoken(), ElementsAre(1, 2));
  EXPECT_EQ(Next(table, 2), kFinished);
  table.Acknowledge(1, {0, 2, 4}, kLeaseStart);
  EXPECT_TRUE(table.finished());
  // Nothing can be known of it that is new.
  table.Grow({9}, /*is_all=*/true);
  EXPECT_TRUE(table.finished());
}

TEST(LeaseTableTest, Refuses) {
  LeaseTable table = Table(3, Sharing::Ranked(2, LastSteps::kDropped));
  EXPECT_EQ(table.Join(1, 2), absl::InvalidArgumentError("rank 2: there are 2"));
  EXPECT_EQ(Table(3).Join(1, 1), absl::InvalidArgumentError("rank group 1: there are 1"));
  ASSERT_THAT(table.Join(1, 1), IsOk());
  EXPECT_EQ(table.Join(1, 0), absl::AlreadyExistsError("session 1: has joined"));
  EXPECT_EQ(table.Join(2, 0, {2, 2}), absl::InvalidArgumentError("reader 2: there are 2"));
  EXPECT_THAT(table.CheckDealt({0, 1}), IsOk());
  EXPECT_EQ(table.CheckDealt({0, 2}),
            absl::InvalidArgumentError("batch 2: is not dealt in this generation of the epoch, "
                                       "which has 2 places"));
  EXPECT_THAT(table.CheckDealt({~uint64_t{0}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not dealt")));
}

}  // namespace
}  // namespace packhouse
