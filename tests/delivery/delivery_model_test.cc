// Delivery under everything that can go wrong: thousands of random schedules of a server, its
// workers and their trainer on a simulated clock. Workers crash, lose streams, stall until leases
// expire, and acknowledge late, twice, or for a generation that is over; the server is killed at
// any time, in the middle of an append too, and replays its log; the disk fills up; trainers
// restart from old cursors, and in other numbers.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/delivery/epoch_delivery.h"
#include "service/delivery/round_plan.h"
#include "tests/delivery/epoch_worlds.h"
#include "tests/delivery/ledger_logs.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using Items = std::vector<uint32_t>;

constexpr absl::Duration kLease = absl::Seconds(10);

// What happened over all schedules: a schedule in which nothing happens proves nothing.
struct Tally {
  uint64_t server_crashes = 0;
  uint64_t torn_appends = 0;
  uint64_t full_disks = 0;
  uint64_t worker_crashes = 0;
  uint64_t stream_losses = 0;
  uint64_t roll_backs = 0;
  uint64_t changes_of_number = 0;
  uint64_t stale_acknowledgements = 0;
  uint64_t batches_acknowledged = 0;
  LeaseCounters leases;
};

// A data set of small graphs, and profiles to serve it to.
struct World {
  std::vector<uint32_t> counts;
  std::vector<RankProfile> profiles;
  EpochSeed seed;

  EpochBatches Batches() const {
    const SizeClasses classes = SizeClasses::Create(NodesAndEdges(counts)).value();
    OptimizerOptions options;
    options.steps = 2000;
    const RoundPlan plan = PlanRounds(classes.Histogram().value(), profiles, options).value();
    return DrawEpoch(classes, plan.patterns_by_profile, seed).value();
  }
};

World RandomWorld(Random& random) {
  World world;
  world.counts = FewSizes(random.Below(60), random.Next());
  world.profiles.push_back({Limits::Create({8, 10, 4}).value(), 1});
  if (random.Below(3) == 0) world.profiles.push_back({Limits::Create({16, 20, 8}).value(), 1});
  world.seed = {random.Next(), random.Below(5)};
  return world;
}

struct Worker {
  uint32_t lane = 0;
  std::string name;
  uint64_t trainer = 0;
  std::optional<SessionId> session;
  uint64_t generation = 0;
  bool has_joined = false;  // Since it, or its trainer, started.
  std::vector<uint64_t> unacknowledged;
  // Of its session.
  std::set<uint64_t> received;
  std::optional<uint64_t> last_position;
};

class Schedule {
 public:
  Schedule(uint64_t seed, Tally* tally)
      : random_(seed), tally_(tally), world_(RandomWorld(random_)) {
    const EpochBatches batches = world_.Batches();
    std::vector<uint64_t> of_profile;
    for (size_t j = 0; j + 1 < batches.first_batches().size(); ++j) {
      of_profile.push_back(batches.first_batches()[j + 1] - batches.first_batches()[j]);
    }
    identity_ = IdentityOf(of_profile, world_.seed.epoch);
    max_in_flight_ = random_.Between(1, 4);
    StartServer();
    StartTrainer(RandomSharing(), std::nullopt);
  }

  void Run() {
    for (uint64_t steps = random_.Between(20, 200); steps != 0 && !Failed(); --steps) Step();
    if (!Failed()) Finish();
    if (!Failed()) CheckHistory();
    tally_->leases.redelivered += counters_.redelivered;
    tally_->leases.expired += counters_.expired;
    tally_->leases.duplicates += counters_.duplicates;
    tally_->leases.given_back += counters_.given_back;
  }

 private:
  static bool Failed() { return ::testing::Test::HasFailure(); }

  Sharing RandomSharing() {
    Sharing sharing;
    if (random_.Below(3) == 0) return sharing;
    for (uint32_t j = 0; j < world_.profiles.size(); ++j) {
      for (uint64_t ranks = random_.Between(1, 3); ranks != 0; --ranks) {
        sharing.profile_of_rank.push_back(j);
      }
    }
    sharing.last_steps = static_cast<LastSteps>(random_.Below(2));
    return sharing;
  }

  // --- The server.

  void StartServer() {
    log_.Reopen();
    const auto records = log_.ReadAll();
    auto ledger = JobLedger::Replay(*records);
    ASSERT_THAT(ledger, IsOk());
    ledger_ = *std::move(ledger);
    auto opened = EpochDelivery::Open(identity_, kLease, &ledger_, &log_);
    ASSERT_THAT(opened, IsOk());
    epoch_ = *std::move(opened);
    batches_ = std::make_unique<EpochBatches>(world_.Batches());
    // What was promised is still there.
    const EpochState* const state = ledger_.Find(identity_.key);
    if (state == nullptr) {
      EXPECT_TRUE(told_.empty());
      return;
    }
    for (const uint64_t batch : told_[state->generation]) EXPECT_TRUE(state->done.Contains(batch));
  }

  void CrashServer() {
    ++tally_->server_crashes;
    KeepCounters();
    epoch_.reset();
    ledger_ = JobLedger();
    for (Worker& worker : workers_) worker.session.reset();
    StartServer();
  }

  void KeepCounters() {
    const LeaseCounters counters = epoch_->counters();
    counters_.redelivered += counters.redelivered;
    counters_.expired += counters.expired;
    counters_.duplicates += counters.duplicates;
    counters_.given_back += counters.given_back;
  }

  // After an append whose end is not known the server does not go on.
  void CrashIfLogIsDead() {
    if (!log_.dead()) return;
    ++tally_->torn_appends;
    CrashServer();
  }

  void BreakNextAppend() {
    const uint64_t how = random_.Below(3);
    log_.FailNext(how == 0   ? FailingLog::Failure::kRefuses
                  : how == 1 ? FailingLog::Failure::kDiesBefore
                             : FailingLog::Failure::kDiesAfter);
    if (how == 0) ++tally_->full_disks;
  }

  void Compact() {
    ASSERT_THAT(log_.Replace(ledger_.Snapshot()), IsOk());
    const auto records = log_.ReadAll();
    const auto replayed = JobLedger::Replay(*records);
    ASSERT_THAT(replayed, IsOk());
    EXPECT_TRUE(*replayed == ledger_);
  }

  // --- The trainer and its workers.

  void StartTrainer(Sharing sharing, std::optional<Cursor> cursor) {
    for (Worker& worker : workers_) {
      // Some streams are seen to end, others are not.
      if (worker.session && random_.Below(2) == 0) epoch_->SessionGone(*worker.session);
      if (worker.has_joined) zombies_.push_back(worker);
    }
    sharing_ = std::move(sharing);
    cursor_ = std::move(cursor);
    ++trainer_;
    // Without ranks, workers from a cursor could not tell which of them belong together.
    const bool named = (cursor_ && !sharing_.ranked()) || random_.Below(2) == 0;
    attempt_ = named ? std::to_string(trainer_) : "";
    workers_.clear();
    const uint64_t n = sharing_.ranked() ? sharing_.profile_of_rank.size()
                                         : world_.profiles.size() * random_.Between(1, 3);
    for (uint64_t i = 0; i < n; ++i) {
      Worker worker;
      worker.lane = static_cast<uint32_t>(sharing_.ranked() ? i : i % world_.profiles.size());
      worker.name = "worker " + std::to_string(i);
      worker.trainer = trainer_;
      workers_.push_back(worker);
    }
  }

  void Join(Worker& worker) {
    JoinRequest request;
    request.session = ++last_session_;
    request.lane = worker.lane;
    request.worker = worker.name;
    request.sharing = sharing_;
    request.attempt = attempt_;
    // One that knows the generation has only lost its stream, or goes on in its trainer.
    if (worker.has_joined) {
      request.generation = worker.generation;
    } else {
      request.cursor = cursor_;
    }
    const uint64_t before = epoch_->generation();
    const auto joined = epoch_->Join(request);
    if (!joined.ok()) {
      if (absl::IsFailedPrecondition(joined.status()) && worker.has_joined) {
        // Another worker of this trainer has started a generation: this one starts again.
        EXPECT_NE(worker.generation, epoch_->generation());
        Forget(worker);
      } else {
        EXPECT_TRUE(absl::IsUnavailable(joined.status()) ||
                    absl::IsResourceExhausted(joined.status()))
            << joined.status();
      }
      CrashIfLogIsDead();
      return;
    }
    EXPECT_EQ(joined->started, joined->generation != before);
    EXPECT_GE(joined->generation, before);
    const auto base = DecodeCursor(joined->cursor);
    ASSERT_THAT(base, IsOk());
    EXPECT_TRUE(base->done == ledger_.Find(identity_.key)->base);
    // Exactly there.
    if (request.cursor) {
      EXPECT_TRUE(base->done == request.cursor->done);
    }
    if (random_.Below(4) == 0) cursors_.push_back(*base);
    worker.session = request.session;
    // What it received in this generation, it still may acknowledge; a restarted one has lost it.
    if (joined->generation != worker.generation) worker.unacknowledged.clear();
    worker.generation = joined->generation;
    worker.has_joined = true;
    worker.received.clear();
    worker.last_position.reset();
  }

  static void Forget(Worker& worker) {
    worker.session.reset();
    worker.has_joined = false;
    worker.unacknowledged.clear();
  }

  void Take(Worker& worker) {
    const auto lease = epoch_->Next(*worker.session, max_in_flight_, clock_.Now());
    if (!lease.ok()) {
      EXPECT_TRUE(absl::IsFailedPrecondition(lease.status())) << lease.status();
      worker.session.reset();
      if (worker.generation != epoch_->generation()) Forget(worker);
      return;
    }
    if (lease->outcome != LeaseOutcome::kLeased) return;
    const uint64_t batch = lease->batch;
    EXPECT_EQ(worker.generation, epoch_->generation());
    EXPECT_FALSE(told_[worker.generation].contains(batch)) << "acknowledged, and sent again";
    EXPECT_FALSE(ledger_.Find(identity_.key)->done.Contains(batch));
    EXPECT_TRUE(worker.received.insert(batch).second) << "twice in one stream";
    EXPECT_EQ(lease->place.lane, worker.lane);
    if (sharing_.ranked()) {
      EXPECT_TRUE(!worker.last_position || *worker.last_position < lease->place.position);
      worker.last_position = lease->place.position;
    }
    // The same batch at the same place, with the same items.
    const auto place = std::tuple(worker.generation, lease->place.lane, lease->place.position);
    EXPECT_EQ(batch_at_.emplace(place, batch).first->second, batch);
    if (batch < identity_.num_batches()) {
      const Items items(batches_->batch(batch).begin(), batches_->batch(batch).end());
      EXPECT_EQ(items_of_.emplace(batch, items).first->second, items);
    }
    EXPECT_LE(epoch_->table()->InFlight(*worker.session).size(), max_in_flight_);
    worker.unacknowledged.push_back(batch);
  }

  void Acknowledge(Worker& worker) {
    std::vector<uint64_t> batches;
    for (const uint64_t batch : worker.unacknowledged) {
      if (random_.Below(2) == 0) batches.push_back(batch);
    }
    if (!batches.empty() && random_.Below(4) == 0) batches.push_back(batches.front());
    std::set<uint64_t>& told = told_[worker.generation];
    if (!told.empty() && random_.Below(4) == 0) batches.push_back(*told.begin());
    const uint64_t before = epoch_->table() ? epoch_->table()->num_done() : 0;
    const auto done =
        epoch_->Acknowledge(worker.session.value_or(0), worker.generation, batches, clock_.Now());
    if (!done.ok()) {
      if (absl::IsFailedPrecondition(done.status())) {
        ++tally_->stale_acknowledgements;
        EXPECT_NE(worker.generation, epoch_->generation());
        Forget(worker);
      } else {
        EXPECT_TRUE(absl::IsUnavailable(done.status()) || absl::IsResourceExhausted(done.status()))
            << done.status();
      }
      CrashIfLogIsDead();
      return;
    }
    EXPECT_EQ(epoch_->table()->num_done(), before + done->num_new);
    tally_->batches_acknowledged += done->num_new;
    told.insert(batches.begin(), batches.end());
    if (done->num_new != 0) trainers_of_[worker.generation].insert(worker.trainer);
    std::erase_if(worker.unacknowledged, [&](uint64_t batch) { return told.contains(batch); });
    const auto cursor = DecodeCursor(done->cursor);
    ASSERT_THAT(cursor, IsOk());
    EXPECT_TRUE(cursor->done == ledger_.Find(identity_.key)->done.Below(identity_.num_batches()));
    if (random_.Below(4) == 0) cursors_.push_back(*cursor);
  }

  void Step() {
    clock_.Advance(absl::Milliseconds(random_.Below(1500)));
    Worker& worker = workers_[random_.Below(workers_.size())];
    switch (random_.Below(24)) {
      case 0:
        if (random_.Below(3) == 0) CrashServer();
        return;
      case 1:
        BreakNextAppend();
        return;
      case 2:
        Compact();
        return;
      case 3:
        // A worker dies with what it has; another takes its name.
        ++tally_->worker_crashes;
        if (worker.session && random_.Below(2) == 0) epoch_->SessionGone(*worker.session);
        if (worker.has_joined) zombies_.push_back(worker);
        // It comes back into the generation of its trainer, from nothing.
        worker.session.reset();
        worker.unacknowledged.clear();
        return;
      case 4:
        ++tally_->stream_losses;
        if (worker.session && random_.Below(2) == 0) epoch_->SessionGone(*worker.session);
        worker.session.reset();
        return;
      case 5:
        // A stall.
        clock_.Advance(kLease);
        [[fallthrough]];
      case 6:
        epoch_->Expire(clock_.Now());
        return;
      case 7:
        if (!cursors_.empty() && random_.Below(4) == 0) {
          ++tally_->roll_backs;
          StartTrainer(random_.Below(2) == 0 ? sharing_ : RandomSharing(),
                       cursors_[random_.Below(cursors_.size())]);
        }
        return;
      case 8:
        if (random_.Below(6) == 0) {
          ++tally_->changes_of_number;
          StartTrainer(RandomSharing(), std::nullopt);
        }
        return;
      case 9:
        if (!zombies_.empty()) Acknowledge(zombies_[random_.Below(zombies_.size())]);
        return;
      case 10:
        if (sharing_.ranked() && worker.has_joined && worker.generation == epoch_->generation()) {
          const auto text = epoch_->CursorAtStep(worker.generation, random_.Below(3));
          if (text.ok()) cursors_.push_back(DecodeCursor(*text).value());
        }
        return;
      default:
        if (!worker.session) {
          Join(worker);
        } else if (random_.Below(3) == 0) {
          Acknowledge(worker);
        } else {
          Take(worker);
        }
    }
  }

  // From here on nothing goes wrong, and so the epoch ends.
  void Finish() {
    log_.FailNext(FailingLog::Failure::kNone);
    if (log_.dead()) CrashServer();
    uint64_t rounds = 0;
    const uint64_t bound = 50 + 4 * (identity_.num_batches() + 16);
    const auto all_joined = [&] {
      return std::all_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
        return worker.has_joined && worker.generation == epoch_->generation();
      });
    };
    while ((!epoch_->finished() || !all_joined()) && !Failed()) {
      ASSERT_LT(++rounds, bound) << "the epoch does not end";
      for (Worker& worker : workers_) {
        if (worker.has_joined && worker.generation != epoch_->generation()) Forget(worker);
        if (!worker.session) Join(worker);
        for (size_t i = 0; i < max_in_flight_ && worker.session; ++i) Take(worker);
        if (worker.session) Acknowledge(worker);
      }
      if (rounds % 8 == 0) {
        clock_.Advance(kLease);
        epoch_->Expire(clock_.Now());
      }
    }
    KeepCounters();
  }

  // Exactly once: from what is durable.
  void CheckHistory() {
    std::map<uint64_t, BatchSet> acknowledged;
    for (const std::string& record : log_.history()) {
      const auto event = DecodeEvent(record);
      ASSERT_THAT(event, IsOk());
      const auto* const batches = std::get_if<BatchesAcknowledged>(&*event);
      if (batches == nullptr) continue;
      for (const BatchRun& run : batches->batches.Runs()) {
        for (uint64_t batch = run.begin; batch < run.end; ++batch) {
          EXPECT_TRUE(acknowledged[batches->generation].Insert(batch)) << "counted twice";
        }
      }
    }
    // None lost: what was done before the generation, in it, and what nobody was to have, is all.
    const EpochState& state = *ledger_.Find(identity_.key);
    const Dealing& dealing = epoch_->table()->dealing();
    BatchSet all = state.base;
    uint64_t size = state.base.size();
    const BatchSet here = acknowledged[state.generation].Below(identity_.num_batches());
    all.InsertAll(here);
    size += here.size();
    for (const uint64_t batch : dealing.dropped()) all.Insert(batch);
    size += dealing.dropped().size();
    EXPECT_EQ(size, identity_.num_batches());
    EXPECT_EQ(all.size(), identity_.num_batches());
    // Rolled back: nothing that an earlier trainer did after the cursor was left out.
    if (cursor_) {
      EXPECT_TRUE(state.base == cursor_->done);
      for (const uint64_t trainer : trainers_of_[state.generation]) EXPECT_EQ(trainer, trainer_);
    }
    // So every item is there once.
    std::vector<uint32_t> items;
    for (uint64_t batch = 0; batch < all.size(); ++batch) {
      const auto batch_items = batches_->batch(batch);
      items.insert(items.end(), batch_items.begin(), batch_items.end());
    }
    std::sort(items.begin(), items.end());
    ASSERT_EQ(items.size(), world_.counts.size() / 2);
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i], i);
  }

  Random random_;
  Tally* const tally_;
  const World world_;
  EpochIdentity identity_;
  size_t max_in_flight_ = 1;
  rpc::SimulatedClock clock_;

  FailingLog log_;
  JobLedger ledger_;
  std::unique_ptr<EpochDelivery> epoch_;
  std::unique_ptr<EpochBatches> batches_;
  LeaseCounters counters_;

  Sharing sharing_;
  std::string attempt_;
  uint64_t trainer_ = 0;  // Counts them.
  std::optional<Cursor> cursor_;
  std::vector<Worker> workers_;
  std::vector<Worker> zombies_;
  std::vector<Cursor> cursors_;
  SessionId last_session_ = 0;

  // What clients were told is done, by generation.
  std::map<uint64_t, std::set<uint64_t>> told_;
  // Whose acknowledgements counted, by generation.
  std::map<uint64_t, std::set<uint64_t>> trainers_of_;
  std::map<std::tuple<uint64_t, uint32_t, uint64_t>, uint64_t> batch_at_;
  std::map<uint64_t, Items> items_of_;
};

TEST(DeliveryModelTest, EveryScheduleDeliversEachGraphOnce) {
  constexpr uint64_t kSchedules = 3000;
  Tally tally;
  for (uint64_t seed = 0; seed < kSchedules && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Schedule(seed, &tally).Run();
  }
  std::printf(
      "%d schedules: %d batches acknowledged; %d server crashes, %d of them within an append, %d "
      "full disks; %d worker crashes, %d lost streams; %d roll-backs, %d changes of number; "
      "%d redelivered, %d expired, %d given back, %d duplicate and %d stale acknowledgements\n",
      static_cast<int>(kSchedules), static_cast<int>(tally.batches_acknowledged),
      static_cast<int>(tally.server_crashes), static_cast<int>(tally.torn_appends),
      static_cast<int>(tally.full_disks), static_cast<int>(tally.worker_crashes),
      static_cast<int>(tally.stream_losses), static_cast<int>(tally.roll_backs),
      static_cast<int>(tally.changes_of_number), static_cast<int>(tally.leases.redelivered),
      static_cast<int>(tally.leases.expired), static_cast<int>(tally.leases.given_back),
      static_cast<int>(tally.leases.duplicates), static_cast<int>(tally.stale_acknowledgements));
  for (const uint64_t happened :
       {tally.server_crashes, tally.torn_appends, tally.full_disks, tally.worker_crashes,
        tally.stream_losses, tally.roll_backs, tally.changes_of_number, tally.leases.redelivered,
        tally.leases.expired, tally.leases.given_back, tally.leases.duplicates,
        tally.stale_acknowledgements}) {
    EXPECT_GE(happened, kSchedules / 10);
  }
}

}  // namespace
}  // namespace packhouse
