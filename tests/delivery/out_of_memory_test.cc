// Whichever allocation fails, nothing ends, nothing hangs, and what was answered with OK is there.
#include "service/base/out_of_memory.h"

#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/jobs/cursor.h"
#include "service/engine/jobs/job.h"
#include "tests/delivery/job_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/ledger/lmdb/one_log.h"
#include "tests/support/failing_new.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr uint64_t kBatches = 6;

// Keeps all of the records of an append, or none.
class SteadyLog final : public RecordLog {
 public:
  absl::Status Append(absl::Span<const std::string> records) override {
    if (during_append != nullptr) during_append();
    std::vector<std::string> added(records.begin(), records.end());
    records_.reserve(records_.size() + added.size());
    for (std::string& record : added) records_.push_back(std::move(record));
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return records_; }
  absl::Status Replace(absl::Span<const std::string> records) override {
    records_.assign(records.begin(), records.end());
    return absl::OkStatus();
  }

  std::function<void()> during_append;

 private:
  std::vector<std::string> records_;
};

JoinRequest Worker(const std::string& name) {
  JoinRequest request;
  request.worker = name;
  return request;
}

// What `work` returns, or RESOURCE_EXHAUSTED if an allocation failed that it could not do without:
// then its caller is the call, which ends.
template <typename Work>
auto AsCall(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

// Two workers, of whom one waits for the other's batches, and somebody who forgets what is old: as
// far as they come.
class Script {
 public:
  explicit Script(JobWorld& world) : job_(world.job()) {
    // Nothing of the test's own may fail.
    leased_.reserve(2 * kBatches);
    acknowledged_.reserve(2);
    batches_.reserve(2);
    first_ = AsCall([&] { return world.Join(epoch_, Worker("a")); });
  }

  void Run(JobWorld& world) {
    if (first_.ok()) Lease(*first_);
    second_ = AsCall([&] {
      return world.Join(epoch_, Worker("b"), /*max_in_flight=*/100, [this] { ++num_wakes_; });
    });
    if (second_.ok()) {
      const auto offer = AsCall([&] { return job_.Next(*second_->session, kStart); });
      waits_ = offer.ok() && offer->outcome == LeaseOutcome::kAllLeased;
    }
    if (first_.ok() && leased_.size() == kBatches) {
      batches_.assign(leased_.begin(), leased_.begin() + 2);
      Acknowledge();
      // Gives the rest back: the other one may go on.
      job_.Leave(*first_->session);
    } else if (first_.ok()) {
      job_.Leave(*first_->session);
    }
    job_.Expire(kStart + absl::Hours(1));
    AsCall([&] { return job_.ForgetUnused(kStart).status(); }).IgnoreError();
  }

  // Memory is there again. Every worker that may go on has been told.
  void Finish() {
    if (!second_.ok()) return;
    if (waits_ && !job_.WouldWait(*second_->session)) {
      EXPECT_GT(num_wakes_, 0);
    }
    job_.Leave(*second_->session);
  }

  const std::vector<uint64_t>& acknowledged() const { return acknowledged_; }

 private:
  void Lease(const Seat& seat) {
    for (;;) {
      const auto offer = AsCall([&] { return job_.Next(*seat.session, kStart); });
      if (!offer.ok() || offer->outcome != LeaseOutcome::kLeased) return;
      leased_.push_back(offer->batch);
    }
  }

  void Acknowledge() {
    const auto done = AsCall([&] {
      return job_.Acknowledge(epoch_.key.epoch, /*session=*/1, first_->start.join.generation,
                              batches_, kStart);
    });
    if (done.ok()) acknowledged_ = batches_;
  }

  const EpochIdentity epoch_ = IdentityOf({kBatches});
  Job& job_;
  absl::StatusOr<Seat> first_ = absl::UnknownError("");
  absl::StatusOr<Seat> second_ = absl::UnknownError("");
  bool waits_ = false;
  std::vector<uint64_t> leased_;
  std::vector<uint64_t> batches_;
  std::vector<uint64_t> acknowledged_;
  int num_wakes_ = 0;
};

// Once there is memory again, a new worker does what is left. Each batch that is acknowledged
// counts once.
void FinishEpoch(JobWorld& world, const std::vector<uint64_t>& acknowledged) {
  const EpochIdentity epoch = IdentityOf({kBatches});
  PH_ASSERT_OK_AND_ASSIGN(const Seat seat, world.Join(epoch, Worker("late")));
  uint64_t num_new = 0;
  std::map<uint64_t, int> given;
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(const Offer offer, world.job().Next(*seat.session, kStart));
    if (offer.outcome != LeaseOutcome::kLeased) {
      EXPECT_EQ(offer.outcome, LeaseOutcome::kFinished);
      break;
    }
    ++given[offer.batch];
    const std::vector<uint64_t> one = {offer.batch};
    PH_ASSERT_OK_AND_ASSIGN(
        const AcknowledgeResult done,
        world.job().Acknowledge(epoch.key.epoch, 1000, seat.start.join.generation, one, kStart));
    num_new += done.num_new;
  }
  for (const uint64_t batch : acknowledged) EXPECT_EQ(given.count(batch), 0U) << batch;
  PH_ASSERT_OK_AND_ASSIGN(const EpochProgress progress, world.job().ProgressOf(epoch));
  EXPECT_EQ(progress.num_done, kBatches);
  world.job().Leave(*seat.session);
}

TEST(OutOfMemoryTest, AJobGoesOnWhicheverAllocationFails) {
  for (const uint64_t count : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 40}) {
    bool has_failed = true;
    for (uint64_t first = 0; has_failed; ++first) {
      SCOPED_TRACE(testing::Message() << "first=" << first << " count=" << count);
      SteadyLog log;
      JobWorld world(&log);
      Script script(world);
      {
        FailingNew failing(first, count);
        script.Run(world);
        has_failed = failing.num_failed() != 0;
      }
      script.Finish();
      FinishEpoch(world, script.acknowledged());
      // What is on the disk is what is in memory.
      PH_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> records, log.ReadAll());
      JobWorld restarted(&log);
      EXPECT_EQ(restarted.Ledger().EpochRecords(), world.Ledger().EpochRecords());
      ASSERT_LT(first, 100'000U);
      if (HasFailure()) return;
    }
  }
}

// Others use the job while a change of it is made durable, and their allocations may fail. Then the
// epochs in memory are gone when the change is to be applied to them.
TEST(OutOfMemoryTest, WhatIsLostWhileAChangeIsWrittenIsMadeAgainFromTheLedger) {
  const std::vector<std::function<void(JobWorld&, Seat&, Seat&)>> others = {
      [](JobWorld& world, Seat&, Seat&) { world.job().Expire(kStart + absl::Hours(1)); },
      [](JobWorld& world, Seat&, Seat& other) { world.job().Leave(*other.session); },
      [](JobWorld& world, Seat&, Seat& other) {
        AsCall([&] { return world.job().Next(*other.session, kStart).status(); }).IgnoreError();
      },
  };
  for (size_t which = 0; which < others.size(); ++which) {
    for (const bool joins : {false, true}) {
      bool has_failed = true;
      for (uint64_t first = 0; has_failed; ++first) {
        SCOPED_TRACE(testing::Message()
                     << "which=" << which << " joins=" << joins << " first=" << first);
        SteadyLog log;
        JobWorld world(&log);
        const EpochIdentity epoch = IdentityOf({kBatches});
        PH_ASSERT_OK_AND_ASSIGN(Seat seat, world.Join(epoch, Worker("a"), /*max_in_flight=*/2));
        PH_ASSERT_OK_AND_ASSIGN(Seat other, world.Join(epoch, Worker("b"), /*max_in_flight=*/1));
        PH_ASSERT_OK_AND_ASSIGN(const Offer offer, world.job().Next(*seat.session, kStart));
        ASSERT_THAT(world.job().Next(*other.session, kStart), IsOk());
        // Waits, so that it is told when a lease ends.
        ASSERT_THAT(world.job().Next(*other.session, kStart), IsOk());
        log.during_append = [&] {
          FailingNew failing(first, 1);
          others[which](world, seat, other);
          has_failed = failing.num_failed() != 0;
        };
        std::vector<uint64_t> acknowledged;
        if (joins) {
          has_failed = false;
          world.Join(epoch, Worker("c")).status().IgnoreError();
        } else {
          acknowledged = {offer.batch};
          world.job()
              .Acknowledge(epoch.key.epoch, 1, seat.start.join.generation, acknowledged, kStart)
              .status()
              .IgnoreError();
        }
        log.during_append = nullptr;
        if (which != 1) world.job().Leave(*other.session);
        world.job().Leave(*seat.session);
        world.job().Expire(kStart + absl::Hours(2));
        FinishEpoch(world, acknowledged);
        JobWorld restarted(&log);
        EXPECT_EQ(restarted.Ledger().EpochRecords(), world.Ledger().EpochRecords());
        ASSERT_LT(first, 1000U);
        if (HasFailure()) return;
      }
    }
  }
}

// A change is in the ledger, and there is no memory to apply it to the epochs in memory. Whoever
// asked for it is not told OK, and whoever sits in an epoch that is lost is told to load again. A
// worker that joined has what it needs.
TEST(OutOfMemoryTest, WhoeverIsInALostEpochLoadsAgain) {
  uint64_t num_lost = 0;
  for (const bool joins : {false, true}) {
    bool has_failed = true;
    for (uint64_t first = 0; has_failed; ++first) {
      SCOPED_TRACE(testing::Message() << "joins=" << joins << " first=" << first);
      SteadyLog log;
      JobWorld world(&log);
      const EpochIdentity epoch = IdentityOf({kBatches});
      PH_ASSERT_OK_AND_ASSIGN(const Seat seat, world.Join(epoch, Worker("a"), /*max_in_flight=*/2));
      PH_ASSERT_OK_AND_ASSIGN(const Seat other,
                              world.Join(epoch, Worker("b"), /*max_in_flight=*/1));
      PH_ASSERT_OK_AND_ASSIGN(const Offer offer, world.job().Next(*seat.session, kStart));
      // The other one waits, so that it is told when a lease ends.
      ASSERT_THAT(world.job().Next(*other.session, kStart), IsOk());
      ASSERT_THAT(world.job().Next(*other.session, kStart), IsOk());
      const std::vector<uint64_t> batches = {offer.batch};
      // From the append on, so that the log and what follows it are what is left without memory.
      std::optional<FailingNew> failing;
      log.during_append = [&] { failing.emplace(first, 1); };
      const absl::Status made = AsCall([&]() -> absl::Status {
        if (!joins) {
          return world.job()
              .Acknowledge(epoch.key.epoch, 1, seat.start.join.generation, batches, kStart)
              .status();
        }
        // With a cursor: a new generation.
        JoinRequest request = Worker("c");
        request.attempt = "second";
        request.cursor = DecodeCursor(seat.start.join.cursor).value();
        const auto joined = world.Join(epoch, std::move(request));
        if (joined.ok()) {
          EXPECT_NE(joined->start.dealing, nullptr);
        }
        return joined.status();
      });
      has_failed = failing.has_value() && failing->num_failed() != 0;
      failing.reset();
      log.during_append = nullptr;
      for (const Seat* const each : {&seat, &other}) {
        const absl::Status next = world.job().Next(*each->session, kStart).status();
        if (absl::IsUnavailable(next)) {
          EXPECT_THAT(next, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("load again")));
          EXPECT_THAT(made, StatusIs(absl::StatusCode::kResourceExhausted, _));
          ++num_lost;
        } else if (absl::IsFailedPrecondition(next)) {
          // The generation has begun, also if there was no memory left to tell so.
          EXPECT_THAT(next, StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("has no part in generation")));
          EXPECT_TRUE(joins);
        } else {
          EXPECT_THAT(next, IsOk());
          EXPECT_FALSE(joins && made.ok());
        }
      }
      ASSERT_LT(first, 1000U);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(num_lost, 5);
}

// The store's own commits, in the thread that has them to do.
TEST(OutOfMemoryTest, AnAppendIsThereOrIsNot) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  LmdbJobLogs::Options options;
  options.folder = folder.path();
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OneLog::Open(options));
  std::vector<std::string> expected;
  const auto append = [&](uint64_t number) {
    const std::vector<std::string> records = {absl::StrCat("record ", number),
                                              std::string(5000, 'r')};
    const absl::Status status = AsCall([&] { return log->Append(records); });
    if (status.ok()) expected.insert(expected.end(), records.begin(), records.end());
    return status;
  };
  bool has_failed = true;
  for (uint64_t first = 0; has_failed; ++first) {
    SCOPED_TRACE(testing::Message() << "first=" << first);
    const std::vector<std::string> records = {absl::StrCat("failing ", first),
                                              std::string(5000, 'f')};
    absl::Status status;
    {
      FailingNew failing(first, 1);
      status = AsCall([&] { return log->Append(records); });
      has_failed = failing.num_failed() != 0;
    }
    if (status.ok()) expected.insert(expected.end(), records.begin(), records.end());
    // The next one is not held up by it.
    ASSERT_THAT(append(first), IsOk());
    ASSERT_LT(first, 10'000U);
  }
  EXPECT_EQ(log->ReadAll().value(), expected);
}

}  // namespace
}  // namespace packhouse
