// Online packing of ogbg-molhiv in its own order, or of a synthetic stream where it is missing.
// `percent` is the efficiency: the volume bound on packs as a share of the packs made.
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "service/packing/online_packer.h"
#include "service/planning/lower_bound.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/packing/next_fit.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {
namespace {

struct Stream {
  const char* name;
  std::vector<uint32_t> sizes;  // Row-major nodes, edges.
  Limits limits;
  uint64_t bound;

  size_t num_graphs() const { return sizes.size() / 2; }
  double Percent(uint64_t packs) const {
    return 100.0 * static_cast<double>(bound) / static_cast<double>(packs);
  }
};

const Stream& Molecules() {
  static const Stream* const stream = [] {
    std::optional<std::vector<uint32_t>> real = ReadSizes("molhiv_all");
    const char* const name = real ? "molhiv_all" : "synthetic molecules";
    std::vector<uint32_t> sizes = real ? *std::move(real) : MoleculeSizes(40000, 0);
    Limits limits = Limits::Create({222, 502, kUnlimited}).value();
    SizeHistogram histogram(2);
    for (size_t i = 0; i < sizes.size(); i += 2) {
      histogram.Add(absl::MakeConstSpan(sizes).subspan(i, 2)).IgnoreError();
    }
    const uint64_t bound = ComputeVolumeBound(histogram, limits).packs;
    return new Stream{name, std::move(sizes), std::move(limits), bound};
  }();
  return *stream;
}

// The argument is the look-ahead.
void BM_OnlinePacker(benchmark::State& state) {
  const Stream& stream = Molecules();
  OnlinePackerOptions options;
  options.look_ahead = state.range(0);
  uint64_t packs = 0;
  for (auto unused : state) {
    OnlinePacker packer = OnlinePacker::Create(stream.limits, options).value();
    packs = 0;
    for (size_t i = 0; i < stream.num_graphs(); ++i) {
      const auto tuple = absl::MakeConstSpan(stream.sizes).subspan(2 * i, 2);
      const absl::StatusOr<bool> complete = packer.Push(tuple, i, absl::UnixEpoch());
      if (!complete.ok()) return state.SkipWithError("a graph does not fit");
      if (*complete) {
        benchmark::DoNotOptimize(packer.TakePack());
        ++packs;
      }
    }
    for (; packer.PackPending(); ++packs) benchmark::DoNotOptimize(packer.TakePack());
  }
  state.SetLabel(stream.name);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * stream.num_graphs()));
  state.counters["percent"] = stream.Percent(packs);
  state.counters["next_fit_percent"] = stream.Percent(NextFit(stream.sizes, stream.limits).size());
}
BENCHMARK(BM_OnlinePacker)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);

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
