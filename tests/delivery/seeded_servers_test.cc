// Two servers' engines with their stores, over one store of keys and one of objects, with their
// threads, timers and waits, on one thread in the order of a seed: an epoch that two ranks load is
// acknowledged exactly once, though a server is dropped at any step and answers of the stores get
// lost.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/planning_pool.h"
#include "service/access/worker_pool.h"
#include "service/base/early_end.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/jobs/loader.h"
#include "service/stores/datasets/dataset_copy.h"
#include "service/stores/keys/replica_lease.h"
#include "service/stores/objects/retrying_object_store.h"
#include "service/wings/cluster/datasets/chunk_cache.h"
#include "service/wings/cluster/datasets/object_dataset_store.h"
#include "service/wings/cluster/jobs/etcd_job_logs.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random.h"
#include "tests/support/seeded_execution.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr uint32_t kRanks = 2;
constexpr size_t kGraphs = 120;
constexpr size_t kMaxInFlight = 3;
// Between two tries of a worker that has found no server.
constexpr absl::Duration kRetry = absl::Milliseconds(200);
// Longer than anything that a worker may have to wait for.
constexpr absl::Duration kTooLong = absl::Minutes(10);

JobsOptions GatheringJoins() {
  JobsOptions options;
  options.gather_joins = absl::Milliseconds(5);
  return options;
}

// What all servers of a cluster have in common.
struct Cluster {
  Cluster(Clock* time, uint64_t seed) : clock(*time), keys(time, seed), random(seed) {}

  Clock& clock;
  FakeKeyValueServers keys;
  FakeObjectStore objects;
  const TemporaryFolder caches{TemporaryFolder::InMemory()};
  Random random;  // Of the thread that has the baton.
};

// As a server has it, without its port.
struct Engine {
  Engine(Cluster& cluster, StoreFaults faults, const std::string& name)
      : Engine(cluster, cluster.clock, std::move(faults), name) {}
  Engine(Cluster& cluster, Clock& clock, StoreFaults faults, const std::string& name)
      : connection(&cluster.keys, std::move(faults)),
        lease(&connection, {name, name + ":1", absl::Seconds(10), absl::Seconds(1)},
              [&clock] { return clock.Now(); }),
        logs(&connection, &lease, name, uint64_t{1} << 20, [&clock] { return clock.Now(); }),
        appends(&clock, 2),
        planning(&clock, 1),
        objects(&cluster.objects, &clock, Pause, {.max_attempts = 1000}),
        cache(ChunkCache::Open({.folder = cluster.caches.path() + "/" + name}).value()),
        datasets({.objects = &objects,
                  .keys = &connection,
                  .clock = &clock,
                  .sleep = Pause,
                  .draw = [&cluster] { return cluster.random.Next() | 1; }},
                 cache.get(), {}),
        catalog(&datasets, EpochBounds()),
        loader(&catalog) {
    loader.RunInBackground(
        [this](std::function<void()> work) { appends.Submit("", std::move(work)); });
    loader.PrepareAheadBy(
        [this](const ClientId& client, const std::string& /*job*/, Loader::AheadWork work) {
          const auto turn =
              std::make_shared<PlanningTurn>(&planning, client, PlanningTurn::Urgency::kBackground);
          planning.Submit(turn, [turn, work = std::move(work)] {
            work(Cancellation([turn] { return turn->YieldTurn(); },
                              [turn] { return turn->LeaveTurn(); }));
          });
          return [turn] { turn->Hurry(); };
        });
    jobs = Jobs::Create(&loader, &logs, GatheringJoins(), /*memory=*/nullptr).value();
    while (!lease.Tick().ok()) Pause(lease.Period());
    keeper = std::make_unique<Repeating>(lease.Period(), [this] { lease.Tick().IgnoreError(); });
    sweeper = std::make_unique<Repeating>(lease.Period(), [this] { jobs->Sweep(); });
  }

  // Nobody hears of it any more, nor it of the store.
  void Drop() {
    connection.Crash();
    end.Begin(absl::UnavailableError("dropped"));
  }

  FakeConnection connection;
  ReplicaLease lease;
  EtcdJobLogs logs;
  WorkerPool appends;
  PlanningPool planning;
  RetryingObjectStore objects;
  std::unique_ptr<ChunkCache> cache;
  ObjectDatasetStore datasets;
  EpochCatalog catalog;
  Loader loader;
  std::unique_ptr<Jobs> jobs;
  EarlyEnd end;
  std::unique_ptr<Repeating> keeper;
  std::unique_ptr<Repeating> sweeper;
};

// What the trainer has done of an epoch.
class Trained {
 public:
  // A batch has come: not one that is surely done, and always the same graphs.
  void Comes(uint64_t batch, const std::vector<uint64_t>& graphs) {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(done_.contains(batch)) << batch;
    const auto [known, is_new] = batches_.try_emplace(batch, graphs);
    EXPECT_EQ(known->second, graphs) << batch;
    num_again_ += !is_new;
  }
  void IsDone(uint64_t batch) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(done_.insert(batch).second) << batch;
  }
  // Each graph is in one batch, and each batch has come.
  void ExpectAll(uint64_t num_batches) {
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(batches_.size(), num_batches);
    std::vector<uint64_t> graphs;
    for (const auto& [batch, of_batch] : batches_) {
      graphs.insert(graphs.end(), of_batch.begin(), of_batch.end());
    }
    std::vector<uint64_t> all(kGraphs);
    for (size_t i = 0; i < kGraphs; ++i) all[i] = 1000 + i;
    std::sort(graphs.begin(), graphs.end());
    EXPECT_EQ(graphs, all);
  }
  int num_again() const {
    absl::MutexLock lock(&mutex_);
    return num_again_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<uint64_t, std::vector<uint64_t>> batches_;
  std::set<uint64_t> done_;
  int num_again_ = 0;
};

class Worker {
 public:
  Worker(SeededExecution& execution, std::vector<std::unique_ptr<Engine>>& engines,
         Trained& trained, uint32_t rank)
      : execution_(execution), engines_(engines), trained_(trained), rank_(rank) {}

  // Loads its share of the epoch, by whichever server has the job.
  void Run() {
    for (size_t tries = rank_; !LoadBy(*engines_[tries % engines_.size()]).ok(); ++tries) {
      ASSERT_LT(tries, 2000U) << "rank " << rank_;
      Pause(kRetry);
    }
  }

 private:
  absl::Status LoadBy(Engine& asked) {
    PH_RETURN_IF_ERROR(asked.end.status());
    PH_ASSIGN_OR_RETURN(const Jobs::Place place, asked.jobs->Open(DatasetWorld::Request().key.job));
    if (place.job != nullptr) return Load(asked, place.job);
    for (const auto& engine : engines_) {
      if (engine.get() != &asked && engine->lease.address() == place.owner.address) {
        PH_RETURN_IF_ERROR(engine->end.status());
        PH_ASSIGN_OR_RETURN(const Jobs::Place there,
                            engine->jobs->Open(DatasetWorld::Request().key.job));
        if (there.job != nullptr) return Load(*engine, there.job);
      }
    }
    return absl::UnavailableError("no server has the job");
  }

  // OK at the end of the epoch.
  absl::Status Load(Engine& engine, const std::shared_ptr<Job>& job) {
    const EarlyEnd::Stream dropped(&engine.end, [this] { BeWoken(); });
    const EarlyEnd::Stream lost(&job->early_end(), [this] { BeWoken(); });
    JoinRequest join;
    join.queue = rank_;
    join.sharing = Sharing::Ranked(kRanks);
    join.now = execution_.clock().Now();
    PH_ASSIGN_OR_RETURN(const auto session,
                        engine.loader.StartLoad(job, DatasetWorld::Request(), std::move(join),
                                                kMaxInFlight, [this] { BeWoken(); }));
    std::vector<uint64_t> in_flight;
    for (;;) {
      PH_RETURN_IF_ERROR(dropped.status());
      PH_RETURN_IF_ERROR(lost.status());
      PH_RETURN_IF_ERROR(job->log().ownership());
      PH_ASSIGN_OR_RETURN(const bool has_joined, session->HasJoined());
      if (!has_joined) {
        AwaitWake();
        continue;
      }
      PH_ASSIGN_OR_RETURN(const LoadEvent event, session->Next(execution_.clock().Now()));
      if (event.kind == LoadEvent::Kind::kEnd) return absl::OkStatus();
      if (event.kind == LoadEvent::Kind::kBatch) {
        if (!event.is_padding) {
          trained_.Comes(event.number, event.built.batch.graph_ids);
          execution_.Note(
              absl::StrCat("rank ", rank_, " has ", event.number, " of ", engine.lease.address()));
        }
        in_flight.push_back(event.number);
        if (in_flight.size() < kMaxInFlight) continue;
      }
      if (in_flight.empty()) {
        AwaitWake();
        continue;
      }
      // The training takes a while.
      Pause(absl::Milliseconds(20));
      PH_RETURN_IF_ERROR(dropped.status());
      const auto acknowledged =
          job->Acknowledge(session->epoch().identity().key.epoch, session->start().session,
                           session->start().join.generation, in_flight, execution_.clock().Now());
      execution_.Note(absl::StrCat("rank ", rank_, " acknowledged ", absl::StrJoin(in_flight, " "),
                                   ": ", acknowledged.status().message()));
      PH_RETURN_IF_ERROR(acknowledged.status());
      EXPECT_EQ(acknowledged->num_new, in_flight.size());
      for (const uint64_t batch : in_flight) trained_.IsDone(batch);
      in_flight.clear();
    }
  }

  void BeWoken() {
    absl::MutexLock lock(&mutex_);
    is_woken_ = true;
  }
  void AwaitWake() {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_woken_), kTooLong)) << "not woken";
    is_woken_ = false;
  }

  SeededExecution& execution_;
  std::vector<std::unique_ptr<Engine>>& engines_;
  Trained& trained_;
  const uint32_t rank_;
  absl::Mutex mutex_;
  bool is_woken_ = false;
};

struct Outcome {
  SeededExecution::Trace trace;
  int num_again = 0;
  bool was_taken_over = false;
};

Outcome TrainOneEpoch(DatasetWorld& dataset, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed=" << seed);
  SeededExecution execution(seed);
  Random random(~seed);
  Outcome outcome;
  execution.Run([&] {
    Cluster cluster(&execution.clock(), seed);
    if (random.Below(2) == 0) {
      cluster.objects.SetFaults({.refused = 20, .lost_reply = 20, .cut = 20}, seed);
    }
    std::vector<std::unique_ptr<Engine>> engines;
    for (const char* name : {"a", "b"}) {
      const uint64_t percent = random.Below(3) == 0 ? 4 : 0;
      engines.push_back(
          std::make_unique<Engine>(cluster,
                                   RandomFaults(random.Next(), percent,
                                                {StoreFault::kUnreachable, StoreFault::kRequestLost,
                                                 StoreFault::kReplyLost, StoreFault::kDoneLater}),
                                   name));
    }
    const auto store = [&] {
      return CopyDataset(dataset.store(), engines[0]->datasets, DatasetWorld::Request().dataset,
                         [](const auto&...) { return true; });
    };
    while (!store().ok()) Pause(kRetry);
    Trained trained;
    std::vector<std::unique_ptr<Worker>> workers;
    {
      std::vector<Thread> threads;
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        workers.push_back(std::make_unique<Worker>(execution, engines, trained, rank));
        threads.emplace_back([worker = workers.back().get()] { worker->Run(); });
      }
      Pause(absl::Milliseconds(random.Below(120)));
      for (uint64_t steps = random.Below(40); steps > 0; --steps) Pause(absl::ZeroDuration());
      Engine& dropped = *engines[random.Below(engines.size())];
      execution.Note(absl::StrCat("drops ", dropped.lease.address()));
      dropped.Drop();
    }
    FakeConnection reader(&cluster.keys);
    const std::string name = DatasetWorld::Request().key.job;
    cluster.keys.DoLateRequests();
    const auto records = EtcdRecordLog::Read(reader, name);
    ASSERT_THAT(records, IsOk());
    const auto ledger = JobLedger::Replay(*records);
    ASSERT_THAT(ledger, IsOk());
    const EpochState* const epoch = ledger->Find({name, 0});
    ASSERT_NE(epoch, nullptr);
    EXPECT_TRUE(epoch->finished());
    trained.ExpectAll(epoch->identity.num_batches());
    outcome.num_again = trained.num_again();
    for (const auto& engine : engines) {
      outcome.was_taken_over = outcome.was_taken_over || engine->jobs->counts().num_taken_over != 0;
    }
    for (const auto& engine : engines) engine->connection.SetFaults(nullptr);
    engines.clear();  // Before the workers, whom they wake.
  });
  outcome.trace = execution.trace();
  return outcome;
}

TEST(SeededServersTest, EachGraphIsAcknowledgedOnce) {
  DatasetWorld dataset(kGraphs);
  dataset.Seal();
  std::set<uint64_t> orders;
  int num_again = 0;
  int num_taken_over = 0;
  constexpr uint64_t kSeeds = 300;
  for (uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    const Outcome outcome = TrainOneEpoch(dataset, seed);
    orders.insert(outcome.trace.digest);
    num_again += outcome.num_again;
    num_taken_over += outcome.was_taken_over;
    if (HasFailure()) {
      for (const std::string& note : outcome.trace.notes) ADD_FAILURE() << note;
    }
  }
  // The seeds meet what they are for.
  EXPECT_EQ(orders.size(), kSeeds);
  EXPECT_GT(num_again, 20);
  EXPECT_GT(num_taken_over, 20);
}

TEST(SeededServersTest, ASeedHasOneTrace) {
  DatasetWorld dataset(kGraphs);
  dataset.Seal();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(TrainOneEpoch(dataset, seed).trace, TrainOneEpoch(dataset, seed).trace) << seed;
  }
}

}  // namespace
}  // namespace packhouse
