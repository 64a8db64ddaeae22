// Online packing, on one core: `percent` is the efficiency, the volume bound on packs as a share of
// the packs made; `next_fit_percent` is what other frameworks make of the same stream. Synthetic
// streams take the place of real ones that are missing; the label tells. All packs are checked,
// outside of what is timed: each graph in one pack, no pack beyond the limits.
//
//   build/release/tests/benchmarks/packhouse_benchmarks --benchmark_filter='OnlinePacker|NextFit'
//       --benchmark_repetitions=3 --benchmark_report_aggregates_only=true
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "service/algorithms/packing/online_packer.h"
#include "service/algorithms/planning/lower_bound.h"
#include "tests/packing/dense_sizes.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/packing/next_fit.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {
namespace {

struct Stream {
  std::string name;
  std::vector<uint32_t> sizes;  // Row-major nodes, edges.
  Limits limits;
  uint64_t bound;

  size_t num_graphs() const { return sizes.size() / 2; }
  absl::Span<const uint32_t> tuple(size_t i) const {
    return absl::MakeConstSpan(sizes).subspan(2 * i, 2);
  }
  double Percent(uint64_t packs) const {
    return 100.0 * static_cast<double>(bound) / static_cast<double>(packs);
  }
};

const Stream* NewStream(const std::string& name, std::vector<uint32_t> sizes, uint64_t nodes,
                        uint64_t edges) {
  Limits limits = Limits::Create({nodes, edges, kUnlimited}).value();
  SizeHistogram histogram(2);
  for (size_t i = 0; i < sizes.size(); i += 2) {
    histogram.Add(absl::MakeConstSpan(sizes).subspan(i, 2)).IgnoreError();
  }
  const uint64_t bound = ComputeVolumeBound(histogram, limits).packs;
  return new Stream{absl::StrCat(name, " (", nodes, ", ", edges, ")"), std::move(sizes),
                    std::move(limits), bound};
}

const Stream& Molecules() {
  static const Stream* const stream = [] {
    const auto real = ReadSizes("molhiv_all");
    return real ? NewStream("molhiv_all", *real, 222, 502)
                : NewStream("synthetic molecules", MoleculeSizes(40000, 0), 222, 502);
  }();
  return *stream;
}

const Stream& MoleculesInLargeBatches() {
  static const Stream* const stream = [] {
    const auto real = ReadSizes("molpcba_train");
    return real ? NewStream("molpcba_train", *real, 512, 1152)
                : NewStream("synthetic molecules", MoleculeSizes(300000, 0), 512, 1152);
  }();
  return *stream;
}

const Stream& DenseGraphs() {
  static const Stream* const stream = [] {
    const auto real = ReadSizes("ppa_standin_ego");
    return real ? NewStream("ppa_standin_ego, shuffled", Shuffled(*real, 1), 1200, 36138)
                : NewStream("uncorrelated sizes", UncorrelatedSizes(80000, 0), 1200, 36138);
  }();
  return *stream;
}

const Stream& DenserGraphs() {
  static const Stream* const stream =
      NewStream("dense graphs with 1.7 times the edges",
                Denser(DenseGraphs().sizes, DenseGraphs().limits), 1200, 36138);
  return *stream;
}

// Near-cliques among sparse graphs: in no order, and by kind.
const Stream& EgoNetworks() {
  static const Stream* const stream = NewStream("ego networks", EgoSizes(60000, 0), 1225, 80000);
  return *stream;
}

const Stream& EgoNetworksByKind() {
  static const Stream* const stream = NewStream(
      "ego networks, near-cliques last", ByKind(EgoSizes(60000, 0), 50'000, true), 1225, 80000);
  return *stream;
}

// Packs the whole stream; `take` gets each pack. False if a graph is refused.
template <typename Take>
bool PackAll(const Stream& stream, const OnlinePackerOptions& options, Take take) {
  OnlinePacker packer = OnlinePacker::Create(stream.limits, options).value();
  for (size_t i = 0; i < stream.num_graphs(); ++i) {
    const absl::StatusOr<bool> complete = packer.Push(stream.tuple(i), i, absl::UnixEpoch());
    if (!complete.ok()) return false;
    if (*complete) take(packer.TakePack());
  }
  while (packer.PackPending()) take(packer.TakePack());
  return true;
}

bool IsPartition(const Stream& stream, const std::vector<Pack>& packs) {
  std::vector<bool> seen(stream.num_graphs(), false);
  size_t num_graphs = 0;
  for (const Pack& pack : packs) {
    uint64_t nodes = 0;
    uint64_t edges = 0;
    for (const uint64_t handle : pack) {
      if (handle >= seen.size() || seen[handle]) return false;
      seen[handle] = true;
      nodes += stream.tuple(handle)[0];
      edges += stream.tuple(handle)[1];
    }
    if (nodes > stream.limits.capacity(0) || edges > stream.limits.capacity(1)) return false;
    num_graphs += pack.size();
  }
  return num_graphs == stream.num_graphs();
}

void RunOnlinePacker(benchmark::State& state, const Stream& stream,
                     const OnlinePackerOptions& options) {
  std::vector<Pack> packs;
  const bool packed =
      PackAll(stream, options, [&](Pack pack) { packs.push_back(std::move(pack)); });
  if (!packed || !IsPartition(stream, packs)) {
    return state.SkipWithError("the packs do not partition the stream, or exceed the limits");
  }
  for (auto unused : state) {
    PackAll(stream, options, [](const Pack& pack) { benchmark::DoNotOptimize(pack.data()); });
  }
  state.SetLabel(stream.name);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * stream.num_graphs()));
  state.counters["percent"] = stream.Percent(packs.size());
  state.counters["next_fit_percent"] = stream.Percent(NextFit(stream.sizes, stream.limits).size());
}

void RunOnlinePacker(benchmark::State& state, const Stream& stream) {
  OnlinePackerOptions options;
  options.look_ahead = state.range(0);
  RunOnlinePacker(state, stream, options);
}

// The argument is the look-ahead.
void BM_OnlinePacker(benchmark::State& state) { RunOnlinePacker(state, Molecules()); }
BENCHMARK(BM_OnlinePacker)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);

void BM_OnlinePackerLargeBatches(benchmark::State& state) {
  RunOnlinePacker(state, MoleculesInLargeBatches());
}
BENCHMARK(BM_OnlinePackerLargeBatches)->Arg(64)->Unit(benchmark::kMillisecond);

void BM_OnlinePackerDense(benchmark::State& state) { RunOnlinePacker(state, DenseGraphs()); }
BENCHMARK(BM_OnlinePackerDense)->Arg(256)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

void BM_OnlinePackerDenser(benchmark::State& state) { RunOnlinePacker(state, DenserGraphs()); }
BENCHMARK(BM_OnlinePackerDenser)->Arg(256)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

void BM_OnlinePackerEgos(benchmark::State& state) { RunOnlinePacker(state, EgoNetworks()); }
BENCHMARK(BM_OnlinePackerEgos)->RangeMultiplier(4)->Range(64, 16384)->Unit(benchmark::kMillisecond);

void BM_OnlinePackerEgosByKind(benchmark::State& state) {
  RunOnlinePacker(state, EgoNetworksByKind());
}
BENCHMARK(BM_OnlinePackerEgosByKind)
    ->RangeMultiplier(4)
    ->Range(64, 16384)
    ->Unit(benchmark::kMillisecond);

// The argument is the vector level, from plain on.
void BM_OnlinePackerVectorLevel(benchmark::State& state) {
  OnlinePackerOptions options;
  options.vector_level = static_cast<VectorLevel>(state.range(0));
  if (options.vector_level > BestVectorLevel()) {
    return state.SkipWithError("this machine has no such instructions");
  }
  RunOnlinePacker(state, Molecules(), options);
}
BENCHMARK(BM_OnlinePackerVectorLevel)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

// What other frameworks do.
void BM_NextFit(benchmark::State& state) {
  const Stream& stream = Molecules();
  uint64_t packs = 0;
  for (auto unused : state) packs = NextFit(stream.sizes, stream.limits).size();
  state.SetLabel(stream.name);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * stream.num_graphs()));
  state.counters["percent"] = stream.Percent(packs);
}
BENCHMARK(BM_NextFit)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace packhouse
