// Epochs of a large data set: 3.4 million small molecules of a few hundred sizes, as in PCQM4Mv2.
// bytes_per_graph is what is kept while an epoch is delivered: size classes and batches.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "service/delivery/epoch_batches.h"
#include "service/delivery/epoch_delivery.h"
#include "service/delivery/epoch_plan.h"
#include "service/delivery/round_plan.h"
#include "service/delivery/selection.h"
#include "service/delivery/size_classes.h"
#include "service/planning/plan_optimizer.h"
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
  request.profiles.push_back({{{512, 1152, 256}}, std::nullopt, 1});
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
  const std::vector<RankProfile> profiles = {{Limits::Create({256, 576, kUnlimited}).value(), 4},
                                             {Limits::Create({640, 1440, kUnlimited}).value(), 2},
                                             {Limits::Create({1024, 2304, kUnlimited}).value(), 1}};
  for (auto unused : state) {
    const RoundPlan plan = PlanRounds(histogram, profiles, {}).value();
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
  identity.profiles.push_back({{512, 1152, kUnlimited}, 0, kBatches});
  uint64_t bytes = 0;
  for (auto unused : state) {
    JobLedger ledger;
    MemoryLog log;
    const auto epoch = EpochDelivery::Open(identity, absl::Minutes(1), &ledger, &log).value();
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      JoinRequest request;
      request.session = rank;
      request.lane = rank;
      request.sharing = Sharing::Ranked(kRanks);
      if (!epoch->Join(request).ok()) return state.SkipWithError("join");
    }
    for (uint64_t rank = 0; !epoch->finished(); rank = (rank + 1) % kRanks) {
      const Lease lease = epoch->Next(rank, 4, absl::UnixEpoch()).value();
      const auto done = epoch->Acknowledge(rank, 1, {lease.batch}, absl::UnixEpoch());
      benchmark::DoNotOptimize(done.value().cursor.data());
    }
    bytes = log.bytes();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kBatches));
  state.counters["log_bytes_per_batch"] = static_cast<double>(bytes) / kBatches;
}
BENCHMARK(BM_DeliverEpoch)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace packhouse
