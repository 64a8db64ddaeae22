// Delivery under everything that can go wrong: thousands of random schedules of a server, its
// workers and their trainer, on one thread and a simulated clock. Workers crash, lose streams,
// stall until leases expire, and acknowledge late, twice, for one another, or for a generation that
// is over; joins wait for their commit and share it; the server is killed at any time, in the
// middle of an append or of a compaction too, and replays its log; the disk fills up; trainers
// restart from old cursors, in other numbers, and go on to the next epoch; jobs are deleted.
//
// After each step the law of waking is checked too, for every stream. A stream that was told to
// wait, and would be told something else now, has been woken since.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/jobs/loader.h"
#include "tests/delivery/all_jobs.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);
constexpr uint64_t kEpochs = 2;

// What happened over all schedules: a schedule in which nothing happens proves nothing.
struct Tally {
  uint64_t server_crashes = 0;
  uint64_t torn_writes = 0;
  uint64_t full_disks = 0;
  uint64_t worker_crashes = 0;
  uint64_t stream_losses = 0;
  uint64_t roll_backs = 0;
  uint64_t changes_of_number = 0;
  uint64_t deletions = 0;
  uint64_t compactions = 0;
  uint64_t stale_acknowledgements = 0;
  uint64_t batches_acknowledged = 0;
  uint64_t shared_commits = 0;
  uint64_t waits = 0;
  uint64_t wakes = 0;
  LeaseCounters leases;
};

// A data set of small graphs, and rank groups to serve it to: the same for many schedules, as its
// epochs are planned once.
class World {
 public:
  explicit World(uint64_t seed) : dataset_(1 + Random(seed).Below(50), seed, 5) {
    dataset_.Seal();
    request_ = DatasetWorld::Request({8, 10, 4});
    if (seed % 3 == 0) {
      request_.rank_groups.push_back({{{16, 20, 8}}, std::nullopt, 1});
    }
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      epochs_.push_back(catalog_.Prepare(Request(epoch)).value());
    }
  }

  EpochRequest Request(uint64_t epoch) const {
    EpochRequest request = request_;
    request.key.epoch = epoch;
    return request;
  }
  const PreparedEpoch& epoch(uint64_t number) const { return *epochs_[number]; }
  size_t num_rank_groups() const { return request_.rank_groups.size(); }
  size_t num_graphs() const { return dataset_.num_graphs(); }
  EpochCatalog& catalog() { return catalog_; }

 private:
  DatasetWorld dataset_;
  EpochCatalog catalog_{&dataset_.store(), EpochBounds()};
  EpochRequest request_;
  std::vector<std::shared_ptr<const PreparedEpoch>> epochs_;
};

World& WorldOf(uint64_t seed) {
  static auto& worlds = *new std::vector<std::unique_ptr<World>>();
  constexpr uint64_t kWorlds = 9;
  while (worlds.size() < kWorlds) worlds.push_back(std::make_unique<World>(worlds.size()));
  return *worlds[seed % kWorlds];
}

// A stream, and whether it sleeps.
struct Stream {
  std::unique_ptr<LoadSession> session;
  bool joined = false;
  bool told_to_wait = false;
  std::shared_ptr<bool> woken = std::make_shared<bool>(false);
  // Generations.
  std::set<uint64_t> deleted_before;
  // What this stream has received.
  std::set<uint64_t> received;
  std::optional<uint64_t> last_position;
};

struct Worker {
  uint64_t epoch = 0;
  uint32_t queue = 0;
  std::string name;
  uint64_t trainer = 0;
  std::shared_ptr<Stream> stream;
  uint64_t generation = 0;
  SessionId session = 0;    // Its last.
  bool has_joined = false;  // Since it, or its trainer, started.
  bool at_end = false;
  std::vector<uint64_t> unacknowledged;
};

class Schedule {
 public:
  Schedule(uint64_t seed, Tally* tally) : random_(seed), tally_(tally), world_(WorldOf(seed)) {
    max_in_flight_ = random_.Between(1, 4);
    StartServer();
    StartTrainer(RandomSharing(), std::nullopt);
  }
  ~Schedule() {
    RunDeferred();
    streams_.clear();
    workers_.clear();
    zombies_.clear();
    RunDeferred();
  }

  void Run() {
    for (uint64_t steps = random_.Between(40, 240); steps != 0 && !Failed(); --steps) {
      Step();
      CheckNobodySleeps();
    }
    if (!Failed()) Finish();
    if (!Failed()) CheckHistory();
    KeepCounters();
  }

 private:
  static bool Failed() { return ::testing::Test::HasFailure(); }

  Sharing RandomSharing() {
    Sharing sharing;
    if (random_.Below(3) == 0) return sharing;
    for (uint32_t j = 0; j < world_.num_rank_groups(); ++j) {
      for (uint64_t ranks = random_.Between(1, 3); ranks != 0; --ranks) {
        sharing.rank_group_of_rank.push_back(j);
      }
    }
    sharing.last_steps = static_cast<LastSteps>(random_.Below(2));
    return sharing;
  }

  const EpochIdentity& identity() const { return world_.epoch(epoch_).identity(); }
  uint64_t CurrentGeneration(uint64_t epoch) {
    const auto description = loader_->Describe(world_.Request(epoch));
    EXPECT_THAT(description, IsOk());
    return description.ok() ? description->progress.generation : 0;
  }
  JobLedger Durable() { return JobLedger::Replay(log_.ReadAll().value()).value(); }

  // --- The server.

  void StartServer() {
    log_.Reopen();
    JobsOptions options;
    options.lease_duration = kLease;
    options.max_log_records = 12;
    auto opened = AllJobs::Open(&world_.catalog(), &logs_, options);
    ASSERT_THAT(opened, IsOk());
    loader_ = *std::move(opened);
    loader_->RunInBackground(
        [this](std::function<void()> work) { deferred_.push_back(std::move(work)); });
    // What was promised is still there.
    const JobLedger ledger = Durable();
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const EpochState* const state = ledger.Find({"job", epoch});
      if (state == nullptr) continue;
      EXPECT_FALSE(deleted_.contains(state->generation));
      for (const uint64_t batch : told_[state->generation]) {
        EXPECT_TRUE(state->done.Contains(batch));
      }
    }
  }

  // All at once: what is under way comes to nothing.
  void CrashServer() {
    ++tally_->server_crashes;
    log_.Die();
    RunDeferred();
    for (Worker& worker : workers_) worker.stream = nullptr;
    for (Worker& zombie : zombies_) zombie.stream = nullptr;
    streams_.clear();
    RunDeferred();
    KeepCounters();
    loader_ = nullptr;
    StartServer();
  }

  void KeepCounters() {
    const LeaseCounters counters = loader_->Snapshot().totals;
    tally_->leases.redelivered += counters.redelivered;
    tally_->leases.expired += counters.expired;
    tally_->leases.duplicates += counters.duplicates;
    tally_->leases.given_back += counters.given_back;
  }

  void RunDeferred() {
    const size_t appends = log_.num_appends();
    const size_t records = log_.num_records();
    const auto joining = std::count_if(workers_.begin(), workers_.end(), [](const Worker& one) {
      return one.stream != nullptr && !one.stream->joined;
    });
    while (!deferred_.empty()) {
      for (const auto& work : std::exchange(deferred_, {})) work();
    }
    if (joining > 1 && log_.num_appends() == appends + 1) ++tally_->shared_commits;
    if (log_.num_records() < records) ++tally_->compactions;
  }

  // After a write whose end is not known the server does not go on.
  void CrashIfLogIsDead() {
    if (!log_.dead()) return;
    ++tally_->torn_writes;
    CrashServer();
  }

  void BreakNextWrite() {
    const uint64_t how = random_.Below(3);
    log_.FailNext(how == 0   ? FailingLog::Failure::kRefuses
                  : how == 1 ? FailingLog::Failure::kDiesBefore
                             : FailingLog::Failure::kDiesAfter);
    if (how == 0) ++tally_->full_disks;
  }

  void CheckNobodySleeps() {
    for (const std::shared_ptr<Stream>& stream : streams_) {
      if (*stream->woken) {
        *stream->woken = false;
        if (stream->told_to_wait) ++tally_->wakes;
        stream->told_to_wait = false;
      }
      if (!stream->told_to_wait) continue;
      ASSERT_TRUE(stream->session->WouldWait()) << "a stream sleeps on";
    }
  }

  // --- The trainer and its workers.

  // The server sees a stream end, or does not.
  void MayEndStream(Worker& worker) {
    if (worker.stream == nullptr) return;
    if (random_.Below(2) == 0) std::erase(streams_, worker.stream);
    worker.stream = nullptr;
  }

  void StartTrainer(Sharing sharing, std::optional<Cursor> cursor) {
    for (Worker& worker : workers_) {
      MayEndStream(worker);
      if (worker.has_joined) zombies_.push_back(worker);
    }
    sharing_ = std::move(sharing);
    cursor_ = std::move(cursor);
    if (cursor_) {
      epoch_ = cursor_->identity.key.epoch;
    } else if (random_.Below(3) == 0) {
      epoch_ = random_.Below(kEpochs);
    }
    ++trainer_;
    // Without ranks, workers from a cursor could not tell which of them belong together.
    const bool named = (cursor_ && !sharing_.ranked()) || random_.Below(2) == 0;
    attempt_ = named ? std::to_string(trainer_) : "";
    workers_.clear();
    const uint64_t n = sharing_.ranked() ? sharing_.rank_group_of_rank.size()
                                         : world_.num_rank_groups() * random_.Between(1, 3);
    for (uint64_t i = 0; i < n; ++i) {
      Worker worker;
      worker.epoch = epoch_;
      worker.queue = static_cast<uint32_t>(sharing_.ranked() ? i : i % world_.num_rank_groups());
      worker.name = "worker " + std::to_string(i);
      worker.trainer = trainer_;
      workers_.push_back(worker);
    }
  }

  void StartJoin(Worker& worker) {
    JoinRequest request;
    request.queue = worker.queue;
    request.worker = worker.name;
    request.sharing = sharing_;
    request.attempt = attempt_;
    request.now = now_;
    // One that knows the generation has only lost its stream, or goes on in its trainer.
    if (worker.has_joined) {
      request.generation = worker.generation;
    } else {
      request.cursor = cursor_;
    }
    auto stream = std::make_shared<Stream>();
    auto session = loader_->StartLoad(world_.Request(worker.epoch), request, max_in_flight_,
                                      [woken = stream->woken] { *woken = true; });
    ASSERT_THAT(session, IsOk());
    stream->session = *std::move(session);
    stream->deleted_before = deleted_;
    streams_.push_back(stream);
    worker.stream = std::move(stream);
    worker.at_end = false;
  }

  // A stream that has asked to join asks whether it has.
  void PollJoin(Worker& worker) {
    Stream& stream = *worker.stream;
    const auto joined = stream.session->HasJoined();
    if (!joined.ok()) {
      if (absl::IsFailedPrecondition(joined.status())) {
        // Another worker of this trainer has started a generation: this one starts again.
        EXPECT_TRUE(worker.has_joined) << joined.status();
        Forget(worker);
      } else {
        EXPECT_TRUE(absl::IsUnavailable(joined.status()) ||
                    absl::IsResourceExhausted(joined.status()))
            << joined.status();
      }
      std::erase(streams_, worker.stream);
      worker.stream = nullptr;
      return;
    }
    if (!*joined) {
      stream.told_to_wait = true;
      ++tally_->waits;
      return;
    }
    stream.joined = true;
    const LoadStart& start = stream.session->start();
    EXPECT_GT(start.join.generation, 0U);
    // What was deleted before it came; a join that came before may hear of it later.
    EXPECT_FALSE(stream.deleted_before.contains(start.join.generation));
    if (start.join.started) {
      EXPECT_TRUE(started_.insert(start.join.generation).second);
    }
    const auto base = DecodeCursor(start.join.cursor);
    ASSERT_THAT(base, IsOk());
    EXPECT_EQ(base_of_.emplace(start.join.generation, base->done).first->second, base->done);
    // Exactly there.
    if (!worker.has_joined && cursor_) {
      EXPECT_TRUE(base->done == cursor_->done);
    }
    if (random_.Below(4) == 0) cursors_.push_back(*base);
    // What it received in this generation, it still may acknowledge; a restarted one has lost it.
    if (start.join.generation != worker.generation) worker.unacknowledged.clear();
    worker.generation = start.join.generation;
    worker.session = start.session;
    worker.has_joined = true;
  }

  static void Forget(Worker& worker) {
    worker.stream = nullptr;
    worker.has_joined = false;
    worker.unacknowledged.clear();
  }

  void Take(Worker& worker) {
    Stream& stream = *worker.stream;
    const auto event = stream.session->Next(now_);
    if (!event.ok()) {
      EXPECT_TRUE(absl::IsFailedPrecondition(event.status()) || absl::IsNotFound(event.status()))
          << event.status();
      std::erase(streams_, worker.stream);
      worker.stream = nullptr;
      if (worker.generation != CurrentGeneration(worker.epoch)) Forget(worker);
      return;
    }
    worker.at_end = event->kind == LoadEvent::Kind::kEnd;
    if (event->kind == LoadEvent::Kind::kWait) {
      stream.told_to_wait = true;
      ++tally_->waits;
    }
    if (event->kind != LoadEvent::Kind::kBatch) return;
    const uint64_t batch = event->number;
    EXPECT_EQ(worker.generation, CurrentGeneration(worker.epoch));
    EXPECT_FALSE(told_[worker.generation].contains(batch)) << "acknowledged, and sent again";
    EXPECT_TRUE(stream.received.insert(batch).second) << "twice in one stream";
    EXPECT_EQ(event->place.queue, worker.queue);
    if (sharing_.ranked()) {
      EXPECT_TRUE(!stream.last_position || *stream.last_position < event->place.position);
      stream.last_position = event->place.position;
    }
    // The same batch at the same place, with the same graphs.
    const auto place = std::tuple(worker.generation, event->place.queue, event->place.position);
    EXPECT_EQ(batch_at_.emplace(place, batch).first->second, batch);
    const std::vector<uint64_t>& ids = event->built.batch.graph_ids;
    EXPECT_EQ(event->is_padding, batch >= identity().num_batches());
    if (!event->is_padding) {
      EXPECT_EQ(ids_of_.emplace(std::pair(worker.epoch, batch), ids).first->second, ids);
    }
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
    // Under its own session, under another's, or under none.
    SessionId sender = worker.session;
    if (random_.Below(3) == 0) sender = workers_[random_.Below(workers_.size())].session;
    if (random_.Below(6) == 0) sender = 0;
    const auto done =
        loader_->Acknowledge({"job", worker.epoch}, sender, worker.generation, batches, now_);
    if (!done.ok()) {
      if (absl::IsFailedPrecondition(done.status()) || absl::IsNotFound(done.status())) {
        ++tally_->stale_acknowledgements;
        EXPECT_NE(worker.generation, CurrentGeneration(worker.epoch));
        Forget(worker);
      } else {
        EXPECT_TRUE(absl::IsUnavailable(done.status()) || absl::IsResourceExhausted(done.status()))
            << done.status();
      }
      CrashIfLogIsDead();
      return;
    }
    const std::set<uint64_t> distinct(batches.begin(), batches.end());
    const auto news = static_cast<uint64_t>(std::count_if(
        distinct.begin(), distinct.end(), [&](uint64_t batch) { return !told.contains(batch); }));
    // What was in the log when the server died was done before it was told.
    EXPECT_LE(done->num_new, news);
    tally_->batches_acknowledged += done->num_new;
    told.insert(batches.begin(), batches.end());
    if (done->num_new != 0) trainers_of_[worker.generation].insert(worker.trainer);
    std::erase_if(worker.unacknowledged, [&](uint64_t batch) { return told.contains(batch); });
    const auto cursor = DecodeCursor(done->cursor);
    ASSERT_THAT(cursor, IsOk());
    for (const uint64_t batch : told) {
      if (batch < cursor->identity.num_batches()) {
        EXPECT_TRUE(cursor->done.Contains(batch));
      }
    }
    if (random_.Below(4) == 0) cursors_.push_back(*cursor);
  }

  void DeleteJob() {
    std::set<uint64_t> generations;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      generations.insert(CurrentGeneration(epoch));
    }
    const absl::Status deleted = loader_->DeleteJob("job");
    CrashIfLogIsDead();
    if (!deleted.ok()) return;
    ++tally_->deletions;
    generations.erase(0);
    deleted_.insert(generations.begin(), generations.end());
  }

  void Step() {
    now_ += absl::Milliseconds(random_.Below(1500));
    if (random_.Below(3) == 0) {
      RunDeferred();
      if (log_.dead()) return CrashIfLogIsDead();
    }
    Worker& worker = workers_[random_.Below(workers_.size())];
    switch (random_.Below(24)) {
      case 0:
        if (random_.Below(3) == 0) CrashServer();
        return;
      case 1:
        BreakNextWrite();
        return;
      case 2:
        if (random_.Below(5) == 0) DeleteJob();
        return;
      case 3:
        // A worker dies with what it has; another takes its name, and comes back into the
        // generation of its trainer, from nothing.
        ++tally_->worker_crashes;
        MayEndStream(worker);
        if (worker.has_joined) zombies_.push_back(worker);
        worker.unacknowledged.clear();
        return;
      case 4:
        ++tally_->stream_losses;
        MayEndStream(worker);
        return;
      case 5:
        // A stall.
        now_ += kLease;
        [[fallthrough]];
      case 6:
        loader_->Expire(now_);
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
        if (sharing_.ranked() && worker.has_joined) {
          const auto text =
              loader_->CursorAtStep({"job", worker.epoch}, worker.generation, random_.Below(3));
          if (text.ok()) cursors_.push_back(DecodeCursor(*text).value());
        }
        return;
      default:
        Work(worker);
    }
  }

  void Work(Worker& worker) {
    if (worker.stream == nullptr) {
      StartJoin(worker);
    } else if (!worker.stream->joined) {
      PollJoin(worker);
    } else if (random_.Below(3) == 0) {
      Acknowledge(worker);
    } else {
      Take(worker);
    }
  }

  // From here on nothing goes wrong, and so the epoch ends.
  void Finish() {
    log_.FailNext(FailingLog::Failure::kNone);
    if (log_.dead()) CrashServer();
    uint64_t rounds = 0;
    const uint64_t bound = 50 + 4 * (identity().num_batches() + 16);
    const auto all_at_end = [&] {
      const uint64_t generation = CurrentGeneration(epoch_);
      return std::all_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
        return worker.has_joined && worker.generation == generation && worker.at_end;
      });
    };
    while (!all_at_end() && !Failed()) {
      ASSERT_LT(++rounds, bound) << "the epoch does not end";
      for (Worker& worker : workers_) {
        if (worker.stream == nullptr) StartJoin(worker);
        RunDeferred();
        if (!worker.stream->joined) PollJoin(worker);
        for (size_t i = 0; i < max_in_flight_ && worker.stream != nullptr; ++i) Take(worker);
        if (worker.stream != nullptr) Acknowledge(worker);
        CheckNobodySleeps();
      }
      if (rounds % 8 == 0) {
        now_ += kLease;
        loader_->Expire(now_);
      }
    }
    RunDeferred();
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
    const JobLedger ledger = Durable();
    const EpochState* const state = ledger.Find(identity().key);
    ASSERT_NE(state, nullptr);
    const uint64_t num_batches = identity().num_batches();
    const Dealing dealing =
        Dealing::Create(identity().first_batches(), state->base, state->sharing).value();
    BatchSet all = state->base;
    uint64_t size = state->base.size();
    const BatchSet here = acknowledged[state->generation].Below(num_batches);
    all.InsertAll(here);
    size += here.size();
    for (const uint64_t batch : dealing.dropped()) all.Insert(batch);
    size += dealing.dropped().size();
    EXPECT_EQ(size, num_batches);
    EXPECT_EQ(all.size(), num_batches);
    // Rolled back: nothing that an earlier trainer did after the cursor was left out.
    if (cursor_) {
      EXPECT_TRUE(state->base == cursor_->done);
      for (const uint64_t trainer : trainers_of_[state->generation]) EXPECT_EQ(trainer, trainer_);
    }
    // So every graph is there once.
    std::vector<uint64_t> ids;
    for (uint64_t batch = 0; batch < all.size(); ++batch) {
      const auto built = world_.epoch(epoch_).Build(batch);
      ASSERT_THAT(built, IsOk());
      ids.insert(ids.end(), built->batch.graph_ids.begin(), built->batch.graph_ids.end());
    }
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), world_.epoch(epoch_).plan().num_graphs());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  }

  Random random_;
  Tally* const tally_;
  World& world_;
  size_t max_in_flight_ = 1;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(24 * 365 * 50);

  FailingLog log_;
  LogsOfJobs logs_{&log_};
  std::vector<std::function<void()>> deferred_;
  std::unique_ptr<AllJobs> loader_;
  // All streams of all workers that the server has not seen end.
  std::vector<std::shared_ptr<Stream>> streams_;

  uint64_t epoch_ = 0;
  Sharing sharing_;
  std::string attempt_;
  uint64_t trainer_ = 0;  // Counts them.
  std::optional<Cursor> cursor_;
  std::vector<Worker> workers_;
  std::vector<Worker> zombies_;
  std::vector<Cursor> cursors_;

  // By generation: where it started, what clients were told is done, whose acknowledgements
  // counted.
  std::map<uint64_t, BatchSet> base_of_;
  std::map<uint64_t, std::set<uint64_t>> told_;
  std::map<uint64_t, std::set<uint64_t>> trainers_of_;
  std::set<uint64_t> started_;
  std::set<uint64_t> deleted_;
  std::map<std::tuple<uint64_t, uint32_t, uint64_t>, uint64_t> batch_at_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint64_t>> ids_of_;
};

TEST(DeliveryModelTest, EveryScheduleDeliversEachGraphOnce) {
  // Under ThreadSanitizer there is but one thread to see.
#if defined(__SANITIZE_THREAD__)
  constexpr uint64_t kSchedules = 300;
#else
  constexpr uint64_t kSchedules = 3000;
#endif
  Tally tally;
  for (uint64_t seed = 0; seed < kSchedules && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Schedule(seed, &tally).Run();
  }
  const std::vector<std::pair<const char*, uint64_t>> happened = {
      {"server crashes", tally.server_crashes},
      {"writes torn", tally.torn_writes},
      {"full disks", tally.full_disks},
      {"worker crashes", tally.worker_crashes},
      {"lost streams", tally.stream_losses},
      {"roll-backs", tally.roll_backs},
      {"changes of number", tally.changes_of_number},
      {"deletions", tally.deletions},
      {"compactions", tally.compactions},
      {"commits shared by joins", tally.shared_commits},
      {"waits", tally.waits},
      {"wakes", tally.wakes},
      {"redelivered", tally.leases.redelivered},
      {"expired", tally.leases.expired},
      {"given back", tally.leases.given_back},
      {"duplicate acknowledgements", tally.leases.duplicates},
      {"stale acknowledgements", tally.stale_acknowledgements},
      {"batches acknowledged", tally.batches_acknowledged}};
  std::printf("%d schedules", static_cast<int>(kSchedules));
  for (const auto& [what, times] : happened) {
    std::printf("; %d %s", static_cast<int>(times), what);
    EXPECT_GE(times, kSchedules / 10) << what;
  }
  std::printf("\n");
}

}  // namespace
}  // namespace packhouse
