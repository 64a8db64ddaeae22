// Each tuple-packing heuristic on ogbg-molhiv's training histogram, or on a synthetic one where it
// is missing. `percent` is the lower bound on packs as a share of the packs planned.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/algorithms/planning/lower_bound.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {
namespace {

const SizeHistogram& MoleculeHistogram() {
  static const SizeHistogram* const histogram = [] {
    if (std::optional<SizeHistogram> real = ReadHistogram("molhiv_train")) {
      return new SizeHistogram(*std::move(real));
    }
    auto* const synthetic = new SizeHistogram(2);
    const std::vector<uint32_t> sizes = MoleculeSizes(33000, 0);
    for (size_t i = 0; i < sizes.size(); i += 2) {
      synthetic->Add(absl::MakeConstSpan(sizes).subspan(i, 2)).IgnoreError();
    }
    return synthetic;
  }();
  return *histogram;
}

void RunHeuristic(benchmark::State& state, const PlanHeuristic& heuristic) {
  const SizeHistogram& histogram = MoleculeHistogram();
  const Limits limits = Limits::Create({222, 502, 256}).value();
  uint64_t packs = 0;
  for (auto unused : state) {
    // With verification and measurement, as a caller gets it.
    const absl::StatusOr<PlanComparison> plan =
        ComparePlans(histogram, limits, SizeSchema::NodesAndEdges(), {heuristic});
    if (!plan.ok()) return state.SkipWithError("no plan");
    packs = plan->best_plan.num_packs();
  }
  const uint64_t bound = ComputeVolumeBound(histogram, limits).packs;
  state.counters["percent"] = 100.0 * static_cast<double>(bound) / static_cast<double>(packs);
  state.counters["packs"] = static_cast<double>(packs);
}

// One benchmark a heuristic, registered before main.
const bool kPlanningIsRegistered = [] {
  const Limits limits = Limits::Create({222, 502, 256}).value();
  for (const PlanHeuristic& heuristic : TuplePackingHeuristics(limits)) {
    const std::string name = absl::StrReplaceAll(
        "BM_Plan/" + HeuristicName(heuristic, SizeSchema::NodesAndEdges()), {{" ", "_"}});
    benchmark::RegisterBenchmark(name.c_str(), [heuristic](benchmark::State& state) {
      RunHeuristic(state, heuristic);
    })->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace packhouse
