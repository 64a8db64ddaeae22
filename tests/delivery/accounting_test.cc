// What jobs and evaluations reserve is what they hold (tests/support/accounting.h).
#include "tests/support/accounting.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/jobs/cursor.h"
#include "service/engine/jobs/evaluation.h"
#include "service/engine/jobs/held_plan.h"
#include "service/engine/jobs/job.h"
#include "service/engine/jobs/job_state.h"
#include "service/engine/jobs/kept_plan.h"
#include "tests/delivery/job_worlds.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/ledger/ledger_logs.h"

namespace packhouse {
namespace {

constexpr absl::Time kJobTime = absl::UnixEpoch();
constexpr uint64_t kNumBatches = 40;

// A job of a server, with its own log.
struct OneJob {
  explicit OneJob(MemoryBudget* memory) : world(&log, absl::InfiniteDuration(), 1 << 20, memory) {}

  FailingLog log;
  JobWorld world;
};

// What a job holds: its ledger, and of each epoch in memory the table of leases and how it is
// dealt.
uint64_t BytesOf(JobWorld& world, const std::vector<uint64_t>& open_epochs) {
  const JobLedger ledger = world.job().ForkLedger();
  uint64_t bytes = ledger.bytes();
  for (const uint64_t epoch : open_epochs) {
    const EpochState& state = *ledger.Find({"job", epoch});
    // Windows have at most kNumBatches, whatever their rank groups.
    bytes += JobState::TableBytes(state) +
             Dealing::MostBytes(kNumBatches, state.identity.rank_groups.size(), state.sharing);
  }
  return bytes;
}

JoinRequest Rank(uint32_t rank, size_t ranks) {
  JoinRequest request;
  request.queue = rank;
  request.sharing = Sharing::Ranked(ranks);
  return request;
}

// Joins, works on some batches, and acknowledges them.
absl::Status WorkOn(JobWorld& world, const EpochIdentity& epoch, uint32_t rank,
                    std::vector<Seat>& seats) {
  PH_ASSIGN_OR_RETURN(Seat seat, world.Join(epoch, Rank(rank, 3)));
  seats.push_back(std::move(seat));
  const Seat& own = seats.back();
  std::vector<uint64_t> batches;
  for (int i = 0; i < 5; ++i) {
    PH_ASSIGN_OR_RETURN(const Offer offer, world.job().Next(*own.session, kJobTime));
    // With gaps between them.
    if (i % 2 == 0) batches.push_back(offer.batch);
  }
  return world.job()
      .Acknowledge(epoch.key.epoch, own.start.session, own.start.join.generation, batches, kJobTime)
      .status();
}

TEST(JobAccountingTest, OpenEpochs) {
  for (const size_t num_epochs : {1, 3}) {
    std::vector<uint64_t> epochs;
    for (uint64_t epoch = 0; epoch < num_epochs; ++epoch) epochs.push_back(epoch);
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<std::shared_ptr<OneJob>> {
          auto job = std::make_shared<OneJob>(memory);
          std::vector<Seat> seats;
          for (const uint64_t epoch : epochs) {
            for (const uint32_t rank : {0, 1}) {
              PH_RETURN_IF_ERROR(WorkOn(job->world, IdentityOf({kNumBatches}, epoch), rank, seats));
            }
          }
          return job;
        },
        [&](const std::shared_ptr<OneJob>& job) { return BytesOf(job->world, epochs); });
  }
}

// Of whose items all rank groups together have a batch each at the most.
TEST(JobAccountingTest, AnOpenEpochOfWindows) {
  EpochIdentity epoch = IdentityOf({kNumBatches, kNumBatches});
  epoch.num_windows = 2;
  JoinRequest request;
  request.sharing.rank_group_of_rank = {0, 0, 1};
  request.windows = {5, 15};
  ExpectAccounted(
      [&](MemoryBudget* memory) -> absl::StatusOr<std::shared_ptr<OneJob>> {
        auto job = std::make_shared<OneJob>(memory);
        PH_RETURN_IF_ERROR(job->world.Join(epoch, request).status());
        return job;
      },
      [](const std::shared_ptr<OneJob>& job) { return BytesOf(job->world, {0}); });
}

// What was in memory before is held as it was, whichever reservation of a later call is refused.
TEST(JobAccountingTest, ARefusedCallHoldsNothing) {
  const EpochIdentity epoch = IdentityOf({kNumBatches});
  using Call = std::function<absl::Status(JobWorld & world, std::vector<Seat> & seats)>;
  const std::vector<Call> calls = {
      [&](JobWorld& world, std::vector<Seat>& seats) {
        return world.job()
            .Acknowledge(0, 1, seats[0].start.join.generation, std::vector<uint64_t>{1, 9},
                         kJobTime)
            .status();
      },
      [&](JobWorld& world, std::vector<Seat>&) { return world.Join(epoch, Rank(2, 3)).status(); },
      // A new generation.
      [&](JobWorld& world, std::vector<Seat>& seats) {
        JoinRequest request = Rank(0, 3);
        request.cursor = DecodeCursor(seats[0].start.join.cursor).value();
        return world.Join(epoch, std::move(request)).status();
      },
      // Another epoch.
      [&](JobWorld& world, std::vector<Seat>&) {
        return world.Join(IdentityOf({kNumBatches}, 7), Rank(2, 3)).status();
      },
  };
  for (size_t which = 0; which < calls.size(); ++which) {
    bool has_refused = true;
    for (uint64_t refused = 0; has_refused; ++refused) {
      SCOPED_TRACE(testing::Message() << "call " << which << ", reservation " << refused);
      SeenBudget seen;
      {
        OneJob job(seen.memory());
        std::vector<Seat> seats;
        ASSERT_THAT(WorkOn(job.world, epoch, 0, seats), IsOk());
        const uint64_t before = seen.held();
        EXPECT_EQ(before, BytesOf(job.world, {0}));
        seen.RefuseFromNow(refused);
        const absl::Status ended = calls[which](job.world, seats);
        has_refused = seen.has_refused();
        if (has_refused) {
          EXPECT_THAT(ended, StatusIs(absl::StatusCode::kResourceExhausted,
                                      testing::HasSubstr("--memory-budget: ")));
          EXPECT_EQ(seen.held(), before);
        } else {
          EXPECT_THAT(ended, IsOk());
          EXPECT_GT(refused, 0);
          // The old dealing is held as long as a stream has it.
          if (which == 2) job.world.job().Leave(*seats[0].session);
          seats.clear();
          EXPECT_EQ(seen.held(), which == 3 ? BytesOf(job.world, {0, 7}) : BytesOf(job.world, {0}));
        }
      }
      EXPECT_EQ(seen.held(), 0);
      if (HasFailure()) return;
    }
  }
}

// An epoch that nobody loads any more gives its memory back, and a late worker brings it back.
TEST(JobAccountingTest, AnEpochThatIsOpenedAgainHoldsItsTable) {
  const EpochIdentity epoch = IdentityOf({kNumBatches});
  for (const bool is_new_server : {false, true}) {
    SCOPED_TRACE(is_new_server);
    bool has_refused = true;
    for (uint64_t refused = 0; has_refused; ++refused) {
      SCOPED_TRACE(refused);
      SeenBudget seen;
      FailingLog log;
      {
        auto world =
            std::make_unique<JobWorld>(&log, absl::InfiniteDuration(), 1 << 20, seen.memory());
        std::vector<Seat> seats;
        ASSERT_THAT(WorkOn(*world, epoch, 0, seats), IsOk());
        const uint64_t generation = seats[0].start.join.generation;
        world->job().Leave(*seats[0].session);
        world->job().Expire(kJobTime + absl::Hours(1));
        seats.clear();
        world->job().Rest();
        ASSERT_EQ(world->job().num_open(), 0);
        if (is_new_server) {
          world = nullptr;
          log.Reopen();
          world =
              std::make_unique<JobWorld>(&log, absl::InfiniteDuration(), 1 << 20, seen.memory());
        }
        EXPECT_EQ(seen.held(), BytesOf(*world, {}));
        seen.RefuseFromNow(refused);
        const absl::Status ended =
            world->job()
                .Acknowledge(0, 1, generation, std::vector<uint64_t>{1, 9}, kJobTime)
                .status();
        has_refused = seen.has_refused();
        if (has_refused) {
          EXPECT_THAT(ended, StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
          // Refused after it was opened, the epoch is there.
          EXPECT_EQ(seen.held(),
                    world->job().num_open() == 0 ? BytesOf(*world, {}) : BytesOf(*world, {0}));
        } else {
          EXPECT_THAT(ended, IsOk());
          EXPECT_EQ(seen.held(), BytesOf(*world, {0}));
        }
      }
      EXPECT_EQ(seen.held(), 0);
      if (HasFailure()) return;
    }
  }
}

TEST(JobAccountingTest, Evaluations) {
  DatasetWorld world(60);
  world.Seal();
  EpochCatalog catalog(&world.store(), EpochBounds());
  EpochRequest request = DatasetWorld::Request();
  request.key.job.clear();
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
  const Sharing sharing = Sharing::Ranked(3);
  ExpectAccounted(
      [&](MemoryBudget* memory) {
        return Evaluation::Open(epoch, {sharing, /*rank=*/1, /*first_step=*/0}, memory);
      },
      [&](const std::unique_ptr<Evaluation>&) {
        return Dealing::MostBytes(epoch->identity().num_batches(), 1, sharing);
      });
}

TEST(JobAccountingTest, PlansOfTheLedger) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const std::shared_ptr<const KeptPlan> plan = KeepPlan(RandomPlannerResult(random));
    ExpectAccounted(
        [&](MemoryBudget* memory) { return ReadHeldPlan(*plan, memory); },
        [](const std::shared_ptr<const PlannerResult>& planned) { return planned->Bytes(); });
  }
}

}  // namespace
}  // namespace packhouse
