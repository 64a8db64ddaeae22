// Epochs of a large data set: 3.4 million small molecules of a few hundred sizes, as in PCQM4Mv2.
// bytes_per_graph is what is kept while an epoch is delivered: size classes and batches.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "service/access/worker_pool.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/base/clock.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/round_plan.h"
#include "service/engine/epochs/selection.h"
#include "service/engine/epochs/size_classes.h"
#include "service/engine/jobs/job.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

constexpr size_t kGraphs = 3'400'000;

// (nodes, edges): about 14 nodes, edges even; some 200 distinct sizes.
const std::vector<uint32_t>& Sizes() {
  static const std::vector<uint32_t>* const sizes = [] {
    auto* const made = new std::vector<uint32_t>;
    made->reserve(2 * kGraphs);
    Random random(0);
    for (size_t i = 0; i < kGraphs; ++i) {
      const uint64_t nodes = 1 + random.Below(8) + random.Below(8) + random.Below(8);
      const uint64_t rings = random.Below(5) + random.Below(5);
      made->push_back(static_cast<uint32_t>(nodes));
      made->push_back(static_cast<uint32_t>(2 * (nodes - 1 + rings)));
    }
    return made;
  }();
  return *sizes;
}

ItemSizes Items() { return ItemSizes::Create(kGraphs, 2, Sizes()).value(); }

const SizeClasses& Classes() {
  static const SizeClasses* const classes = new SizeClasses(SizeClasses::Create(Items()).value());
  return *classes;
}

PackingPlan PlanFor(const Limits& limits) {
  return OptimizePlan(Classes().Histogram().value(), limits, {}).value().plan;
}

void BM_SizeClasses(benchmark::State& state) {
  const ItemSizes items = Items();
  for (auto unused : state) {
    const SizeClasses classes = SizeClasses::Create(items).value();
    benchmark::DoNotOptimize(classes.num_classes());
    state.counters["distinct"] = static_cast<double>(classes.num_classes());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs));
}
BENCHMARK(BM_SizeClasses)->Unit(benchmark::kMillisecond);

// The argument is the limit on nodes; edges have room for twice and a quarter as many.
void BM_DrawEpoch(benchmark::State& state) {
  const auto nodes = static_cast<uint64_t>(state.range(0));
  const PackingPlan plan = PlanFor(Limits::Create({nodes, nodes * 9 / 4, kUnlimited}).value());
  uint64_t epoch = 0;
  uint64_t batches = 0;
  for (auto unused : state) {
    const EpochBatches drawn =
        DrawEpoch(Classes(), absl::MakeConstSpan(&plan.patterns, 1), {0, epoch++}).value();
    batches = drawn.num_batches();
    benchmark::DoNotOptimize(drawn.batch(0).data());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs));
  state.counters["batches"] = static_cast<double>(batches);
  state.counters["bytes_per_graph"] =
      8 + 4 * static_cast<double>(batches) / static_cast<double>(kGraphs);
}
BENCHMARK(BM_DrawEpoch)->Arg(32)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

// As DrawEpoch, each graph a group of its own.
void BM_DrawEpochOfGroups(benchmark::State& state) {
  const PackingPlan plan = PlanFor(Limits::Create({64, 144, kUnlimited}).value());
  std::vector<uint64_t> ids(kGraphs);
  for (size_t i = 0; i < kGraphs; ++i) ids[i] = i;
  uint64_t epoch = 0;
  for (auto unused : state) {
    const EpochBatches drawn =
        DrawEpoch(Classes(), absl::MakeConstSpan(&plan.patterns, 1), {0, epoch++}, ids).value();
    benchmark::DoNotOptimize(drawn.batch(0).data());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs));
}
BENCHMARK(BM_DrawEpochOfGroups)->Unit(benchmark::kMillisecond);

// A data set of sizes, as a store would open it.
class SizesReader final : public DatasetReader {
 public:
  SizesReader() {
    info_.name = "molecules";
    info_.schema = std::make_shared<const GraphSchema>(
        GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
    info_.state = DatasetState::kSealed;
    info_.num_graphs = kGraphs;
    info_.version = 1;
    for (size_t i = 0; i < kGraphs; ++i) graph_ids_.push_back(i);
  }
  const DatasetInfo& info() const override { return info_; }
  const SizeHistogram& histogram() const override { return histogram_; }
  absl::Span<const uint32_t> counts() const override { return Sizes(); }
  absl::Span<const uint64_t> graph_ids() const override { return graph_ids_; }
  absl::Span<const uint64_t> group_ids() const override { return {}; }
  absl::Span<const DamagedRecord> unreadable() const override { return {}; }
  absl::StatusOr<StoredGraph> Graph(size_t) const override {
    return absl::UnimplementedError("sizes only");
  }

 private:
  DatasetInfo info_;
  SizeHistogram histogram_{2};  // Not asked for.
  std::vector<uint64_t> graph_ids_;
};

EpochRequest RequestFor(uint64_t epoch) {
  EpochRequest request;
  request.dataset = "molecules";
  request.key = {"job", epoch};
  request.rank_groups.push_back({{{512, 1152, 256}}, std::nullopt, 1});
  request.whole_graphs = false;
  return request;
}

// What the first epoch of a data set costs once: selection, classes, plan, figures.
void BM_PlanOfAnEpoch(benchmark::State& state) {
  const auto reader = std::make_shared<const SizesReader>();
  for (auto unused : state) {
    const auto plan = EpochPlan::Make(reader, RequestFor(0), EpochBounds()).value();
    state.counters["batches"] = static_cast<double>(plan->num_batches(0));
    state.counters["lower_bound"] = static_cast<double>(plan->lower_bound());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs));
}
BENCHMARK(BM_PlanOfAnEpoch)->Unit(benchmark::kMillisecond);

// What each later one costs before its first batch.
void BM_PrepareEpoch(benchmark::State& state) {
  const auto plan =
      EpochPlan::Make(std::make_shared<const SizesReader>(), RequestFor(0), EpochBounds()).value();
  uint64_t number = 0;
  for (auto unused : state) {
    const auto epoch = PreparedEpoch::Prepare(plan, RequestFor(++number), EpochBounds()).value();
    benchmark::DoNotOptimize(epoch->NumGraphs(0));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs));
}
BENCHMARK(BM_PrepareEpoch)->Unit(benchmark::kMillisecond);

void BM_PackInOrder(benchmark::State& state) {
  const ItemSizes items = Items();
  const Limits limits = Limits::Create({512, 1152, kUnlimited}).value();
  for (auto unused : state) {
    const EpochBatches packed = PackInOrder(items, std::nullopt, limits, 64).value();
    benchmark::DoNotOptimize(packed.num_batches());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs));
}
BENCHMARK(BM_PackInOrder)->Unit(benchmark::kMillisecond);

std::vector<uint32_t> Weights() {
  std::vector<uint32_t> weights(kGraphs);
  Random random(0);
  for (uint32_t& weight : weights) weight = static_cast<uint32_t>(random.Next() >> 40);
  return weights;
}

void BM_SampleWithReplacement(benchmark::State& state) {
  const WeightedSampler sampler = WeightedSampler::Create(Weights()).value();
  uint64_t epoch = 0;
  for (auto unused : state) {
    benchmark::DoNotOptimize(sampler.Draw(kGraphs, {0, epoch++}).value().data());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs));
}
BENCHMARK(BM_SampleWithReplacement)->Unit(benchmark::kMillisecond);

// Half of the data set.
void BM_SampleWithoutReplacement(benchmark::State& state) {
  const std::vector<uint32_t> weights = Weights();
  uint64_t epoch = 0;
  for (auto unused : state) {
    benchmark::DoNotOptimize(
        SampleWithoutReplacement(weights, kGraphs / 2, {0, epoch++}).value().data());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kGraphs / 2));
}
BENCHMARK(BM_SampleWithoutReplacement)->Unit(benchmark::kMillisecond);

// Cards of different memory; the gap is to the bound on rounds.
void BM_PlanRounds(benchmark::State& state) {
  const SizeHistogram histogram = Classes().Histogram().value();
  const std::vector<RankGroup> rank_groups = {
      {Limits::Create({256, 576, kUnlimited}).value(), 4},
      {Limits::Create({640, 1440, kUnlimited}).value(), 2},
      {Limits::Create({1024, 2304, kUnlimited}).value(), 1}};
  for (auto unused : state) {
    const RoundPlan plan = PlanRounds(histogram, rank_groups, {}).value();
    state.counters["rounds"] = static_cast<double>(plan.rounds);
    state.counters["lower_bound"] = static_cast<double>(plan.lower_bound);
  }
}
BENCHMARK(BM_PlanRounds)->Unit(benchmark::kMillisecond);

// A log in memory: what is measured is all but the disk.
class MemoryLog final : public RecordLog {
 public:
  absl::Status Append(absl::Span<const std::string> records) override {
    for (const std::string& record : records) bytes_ += record.size();
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return std::vector<std::string>(); }
  absl::Status Replace(absl::Span<const std::string>) override { return absl::OkStatus(); }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

// An epoch of 100,000 batches through 8 ranks: lease, acknowledge one by one, a cursor each time.
void BM_DeliverEpoch(benchmark::State& state) {
  constexpr uint64_t kBatches = 100'000;
  constexpr uint32_t kRanks = 8;
  EpochIdentity identity;
  identity.key.job = "job";
  identity.rank_groups.push_back({{512, 1152, kUnlimited}, 0, kBatches});
  uint64_t bytes = 0;
  for (auto unused : state) {
    MemoryLog log;
    EpochQuota quota(1, 1);
    Job::Environment environment;
    environment.max_log_records = size_t{1} << 40;
    environment.quota = &quota;
    environment.executor = [](const std::function<void()>& work) { work(); };
    const auto job = std::make_shared<Job>(
        "job", JobLedger(), std::shared_ptr<RecordLog>(std::shared_ptr<void>(), &log), 0,
        &environment);
    std::vector<std::shared_ptr<Job::Session>> sessions;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      JoinRequest request;
      request.lane = rank;
      request.sharing = Sharing::Ranked(kRanks);
      sessions.push_back(job->StartJoin(
          identity, request, rank, 4, [] {}, nullptr));
    }
    for (uint64_t rank = 0;; rank = (rank + 1) % kRanks) {
      const Lease lease = job->Next(*sessions[rank], absl::UnixEpoch()).value();
      if (lease.outcome != LeaseOutcome::kLeased) break;
      const auto done = job->Acknowledge(0, rank, 1, {lease.batch}, absl::UnixEpoch());
      benchmark::DoNotOptimize(done.value().cursor.data());
    }
    bytes = log.bytes();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kBatches));
  state.counters["log_bytes_per_batch"] = static_cast<double>(bytes) / kBatches;
}
BENCHMARK(BM_DeliverEpoch)->Unit(benchmark::kMillisecond);

// A disk that takes its time: each append blocks for so long, one at a time.
class SlowLog final : public RecordLog {
 public:
  explicit SlowLog(absl::Duration commit) : commit_(commit) {}
  absl::Status Append(absl::Span<const std::string> /*records*/) override {
    absl::MutexLock lock(&mutex_);
    absl::SleepFor(commit_);
    ++num_commits_;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return std::vector<std::string>(); }
  absl::Status Replace(absl::Span<const std::string> /*records*/) override {
    return absl::OkStatus();
  }
  uint64_t num_commits() {
    absl::MutexLock lock(&mutex_);
    return num_commits_;
  }

 private:
  const absl::Duration commit_;
  absl::Mutex mutex_;
  uint64_t num_commits_ = 0;
};

// 64 workers join an epoch at once while a commit takes 10 ms: how many commits that are, and how
// late a timer is meanwhile that is due every millisecond. It has leases that have expired looked
// for on a pool, as LeaseTimer does: that may wait for the job's mutex (expire_ms), the timer may
// not.
void BM_WorkersJoinAtOnce(benchmark::State& state) {
  constexpr uint32_t kWorkers = 64;
  SlowLog log(absl::Milliseconds(10));
  EpochQuota quota(1 << 20, 1 << 20);
  SystemClock clock;
  WorkerPool pool(&clock, 8);
  Job::Environment environment;
  environment.max_log_records = size_t{1} << 40;
  environment.quota = &quota;
  environment.executor = [&](std::function<void()> work) { pool.Submit("", std::move(work)); };
  const auto job = std::make_shared<Job>("job", JobLedger(),
                                         std::shared_ptr<RecordLog>(std::shared_ptr<void>(), &log),
                                         0, &environment);

  absl::Mutex mutex;
  absl::Duration latest;
  absl::Duration longest_expire;
  bool is_over = false;
  bool has_ended = false;
  WorkerPool expire_pool(&clock, 1);
  std::function<void(absl::Time)> tick = [&](absl::Time due) {
    const absl::Time now = clock.Now();
    expire_pool.Submit("", [&] {
      const absl::Time begun = clock.Now();
      job->Expire(begun);
      absl::MutexLock lock(&mutex);
      longest_expire = std::max(longest_expire, clock.Now() - begun);
    });
    absl::MutexLock lock(&mutex);
    latest = std::max(latest, now - due);
    has_ended = is_over;
    const absl::Time next = clock.Now() + absl::Milliseconds(1);
    if (!is_over) clock.CallAt(next, [&tick, next] { tick(next); });
  };
  tick(clock.Now());

  uint64_t most_commits = 0;
  SessionId session = 0;
  EpochIdentity identity;
  identity.key.job = "job";
  identity.rank_groups.push_back({{512, 1152, kUnlimited}, 0, 100'000});
  for (auto unused : state) {
    ++identity.key.epoch;
    const uint64_t before = log.num_commits();
    std::vector<std::shared_ptr<Job::Session>> sessions;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      JoinRequest request;
      request.lane = rank;
      request.sharing = Sharing::Ranked(kWorkers);
      sessions.push_back(job->StartJoin(
          identity, request, ++session, 4, [] {}, nullptr));
    }
    for (const auto& one : sessions) job->AwaitStarted(*one);
    most_commits = std::max(most_commits, log.num_commits() - before);
    for (const auto& one : sessions) job->Leave(*one);
  }
  {
    absl::MutexLock lock(&mutex);
    is_over = true;
    mutex.Await(absl::Condition(&has_ended));
    state.counters["timer_late_ms"] = absl::ToDoubleMilliseconds(latest);
    state.counters["expire_ms"] = absl::ToDoubleMilliseconds(longest_expire);
  }
  state.counters["most_commits"] = static_cast<double>(most_commits);
}
BENCHMARK(BM_WorkersJoinAtOnce)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace packhouse
