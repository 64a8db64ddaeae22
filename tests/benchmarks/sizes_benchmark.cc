// Counting size tuples: seconds per tuple ("per_tuple") in tables of the argument's size, once all
// sizes are known, beside reading the same bytes. Molecules have about 1,000 distinct sizes, wide
// ones about 250,000, so that each tuple is a cache miss.
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "service/algorithms/histograms/decaying_histogram.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/sizes/size_table.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

constexpr size_t kNumGraphs = size_t{1} << 18;

std::vector<uint32_t> MoleculeLikeSizes() {
  Random random(0);
  std::vector<uint32_t> sizes;
  for (size_t i = 0; i < kNumGraphs; ++i) {
    uint64_t nodes = 4 + random.Below(16) + random.Below(16) + random.Below(16);
    if (random.Below(128) == 0) nodes += random.Below(160);
    const uint64_t rings = random.Below(3) + random.Below(3) + random.Below(3);
    sizes.push_back(static_cast<uint32_t>(nodes));
    sizes.push_back(static_cast<uint32_t>(2 * (nodes - 1 + rings)));
  }
  return sizes;
}

std::vector<uint32_t> WideSizes() {
  Random random(0);
  std::vector<uint32_t> sizes;
  for (size_t i = 0; i < kNumGraphs; ++i) {
    const uint64_t nodes = 1 + random.Below(4000);
    sizes.push_back(static_cast<uint32_t>(nodes));
    sizes.push_back(static_cast<uint32_t>(nodes + random.Below(1000)));
  }
  return sizes;
}

// All graphs, in tables of `num_graphs`.
std::vector<SizeTable> TablesOf(const std::vector<uint32_t>& sizes, size_t num_graphs) {
  std::vector<SizeTable> tables;
  for (auto at = sizes.begin(); at != sizes.end(); at += 2 * num_graphs) {
    tables.push_back(SizeTable::WithConsecutiveIds(
                         num_graphs, 2, std::vector<uint32_t>(at, at + 2 * num_graphs), 0)
                         .value());
  }
  return tables;
}

// `add` counts a table; it has counted each once before the clock starts.
template <typename Add>
void CountAgainAndAgain(benchmark::State& state, const std::vector<uint32_t>& sizes, Add add) {
  const size_t num_graphs = state.range(0);
  const std::vector<SizeTable> tables = TablesOf(sizes, num_graphs);
  for (const SizeTable& table : tables) {
    if (!add(table).ok()) return state.SkipWithError("not counted");
  }
  size_t next = 0;
  for (auto unused : state) {
    if (!add(tables[next]).ok()) return state.SkipWithError("not counted");
    next = next + 1 == tables.size() ? 0 : next + 1;
  }
  const auto tuples = static_cast<double>(state.iterations() * num_graphs);
  state.counters["per_tuple"] =
      benchmark::Counter(tuples, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_AddTable(benchmark::State& state, const std::vector<uint32_t>& sizes) {
  SizeHistogram histogram(2);
  CountAgainAndAgain(state, sizes,
                     [&](const SizeTable& table) { return histogram.AddTable(table); });
  state.counters["distinct"] = static_cast<double>(histogram.num_distinct());
}
BENCHMARK_CAPTURE(BM_AddTable, molecules, MoleculeLikeSizes())->Arg(64)->Arg(1024)->Arg(8192);
BENCHMARK_CAPTURE(BM_AddTable, wide, WideSizes())->Arg(64)->Arg(1024)->Arg(8192);

void BM_AddTableDecaying(benchmark::State& state, const std::vector<uint32_t>& sizes) {
  DecayingHistogram histogram(2, absl::Hours(1), absl::UnixEpoch());
  CountAgainAndAgain(state, sizes, [&](const SizeTable& table) {
    return histogram.AddTable(table, absl::UnixEpoch() + absl::Minutes(1));
  });
}
BENCHMARK_CAPTURE(BM_AddTableDecaying, molecules, MoleculeLikeSizes())->Arg(1024);

// What reading the tuples alone takes.
void BM_SumTables(benchmark::State& state, const std::vector<uint32_t>& sizes) {
  CountAgainAndAgain(state, sizes, [&](const SizeTable& table) {
    uint64_t sum = 0;
    for (const uint32_t count : table.counts()) sum += count;
    benchmark::DoNotOptimize(sum);
    return absl::OkStatus();
  });
}
BENCHMARK_CAPTURE(BM_SumTables, molecules, MoleculeLikeSizes())->Arg(1024);

// Sizes that are not known yet: all of them, into an empty histogram.
void BM_AddNewSizes(benchmark::State& state) {
  const std::vector<SizeTable> tables = TablesOf(WideSizes(), state.range(0));
  for (auto unused : state) {
    SizeHistogram histogram(2);
    for (const SizeTable& table : tables) {
      if (!histogram.AddTable(table).ok()) return state.SkipWithError("not counted");
    }
  }
  state.counters["per_tuple"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kNumGraphs),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_AddNewSizes)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace packhouse
