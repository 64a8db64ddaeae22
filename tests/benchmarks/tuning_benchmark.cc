// Searches for limits, each from the histogram to the recommendation with its frontier. `planned`
// of `candidates` were planned; `nodes` and `edges` are efficiencies in percent, over all shapes;
// `over_least` is what an epoch costs more than the real rows, in percent; `saved` is what several
// shapes save, in percent of one shape's cost.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "tests/support/random.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {
namespace {

// Like threads of a forum: many small graphs, sizes with a heavy tail up to 100,000 nodes, and
// twice to ten times as many edges.
SizeHistogram HeavyTail(int num_sizes, uint64_t seed) {
  Random random(seed);
  SizeHistogram histogram(2);
  for (int i = 0; i < num_sizes; ++i) {
    // 20 / u for u uniform in (0, 1], about.
    const uint64_t nodes = std::min<uint64_t>(
        100'000, (20 << 20) / random.Between(100, uint64_t{1} << 20) + random.Below(20));
    const uint64_t edges = nodes * random.Between(200, 1000) / 100;
    histogram
        .Add({static_cast<uint32_t>(nodes), static_cast<uint32_t>(edges)},
             1 + random.Below(1 + 2000 / (1 + nodes / 20)))
        .IgnoreError();
  }
  return histogram;
}

// Small graphs, and a few that are a thousand times as large.
SizeHistogram FewVeryLarge() {
  Random random(3);
  SizeHistogram histogram(2);
  for (int i = 0; i < 100'000; ++i) {
    const auto nodes = static_cast<uint32_t>(10 + random.Below(15) + random.Below(15));
    histogram.Add({nodes, 2 * (nodes + static_cast<uint32_t>(random.Below(4)))}).IgnoreError();
  }
  for (int i = 0; i < 5; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(15'000, 30'000));
    histogram.Add({nodes, 3 * nodes}).IgnoreError();
  }
  return histogram;
}

struct TuningCase {
  std::string name;
  std::optional<SizeHistogram> histogram;
  ComponentProfile nodes;
  ComponentProfile edges;
  uint64_t max_graphs = 256;
  uint32_t max_distinct_shapes = 1;
  TuneObjective objective = TuneObjective::kEpochCost;
  bool include_grid = false;
};

void RunTuning(benchmark::State& state, const TuningCase& tuning) {
  if (!tuning.histogram) return state.SkipWithError("the data is missing");
  DeviceProfile profile;
  profile.components = {tuning.nodes, tuning.edges, {1, tuning.max_graphs, 1, 0, 0}};
  profile.max_distinct_shapes = tuning.max_distinct_shapes;
  TuneOptions options;
  options.objective = tuning.objective;
  options.equal_cost = 0;
  options.include_grid = tuning.include_grid;
  TuneProgress last;
  options.progress = [&last](const TuneProgress& progress) {
    last = progress;
    last.incumbent = nullptr;
  };
  std::optional<TuneResult> result;
  for (auto unused : state) {
    absl::StatusOr<TuneResult> tuned =
        TuneLimits(*tuning.histogram, profile, SizeSchema::NodesAndEdges(), options);
    if (!tuned.ok()) return state.SkipWithError("no limits");
    result = *std::move(tuned);
  }
  double rows[2] = {0, 0};
  for (const TunedShape& shape : result->shapes) {
    for (size_t k = 0; k < 2; ++k) {
      rows[k] += static_cast<double>(shape.packs) * static_cast<double>(shape.capacities[k]);
    }
  }
  state.counters["candidates"] = static_cast<double>(last.candidates);
  state.counters["planned"] = static_cast<double>(last.planned);
  state.counters["exact"] = result->exact ? 1 : 0;
  state.counters["nodes"] = 100 * static_cast<double>(tuning.histogram->total(0)) / rows[0];
  state.counters["edges"] = 100 * static_cast<double>(tuning.histogram->total(1)) / rows[1];
  state.counters["over_least"] = 100 * (result->epoch_cost / result->least_cost - 1);
  if (profile.max_distinct_shapes > 1) {
    state.counters["shapes"] = static_cast<double>(result->shapes.size());
    state.counters["saved"] = 100 * (1 - result->epoch_cost / result->single_shape.epoch_cost);
  }
  std::string label;
  for (const TunedShape& shape : result->shapes) {
    absl::StrAppend(&label, label.empty() ? "" : " ", shape.packs, "x(", shape.capacities[0], ",",
                    shape.capacities[1], ")");
  }
  state.SetLabel(label);
}

ComponentProfile UpTo(uint64_t max_rows, uint64_t multiple_of = 1) {
  return {1, max_rows, multiple_of, 0, 1};
}

// One benchmark a case, registered before main.
const bool kTuningIsRegistered = [] {
  constexpr TuneObjective kMean = TuneObjective::kHarmonicMean;
  const ComponentProfile notebook_nodes = {20, 59, 1, 0, 1};
  const ComponentProfile notebook_edges = {54, 160, 2, 0, 1};
  std::vector<TuningCase> cases;
  cases.push_back({"notebook_grid/mean", ReadHistogram("pcqm4mv2_train_heatmap"), notebook_nodes,
                   notebook_edges, 256, 1, kMean});
  cases.push_back({"notebook_grid/cost", ReadHistogram("pcqm4mv2_train_heatmap"), notebook_nodes,
                   notebook_edges});
  cases.push_back({"notebook_grid/mean_all_cells", ReadHistogram("pcqm4mv2_train_heatmap"),
                   notebook_nodes, notebook_edges, 256, 1, kMean, true});
  for (const auto& [name, nodes, edges] :
       {std::tuple{"molhiv_train", 512, 1152}, std::tuple{"molpcba_train", 512, 1152},
        std::tuple{"qm9_h", 256, 576}}) {
    cases.push_back({std::string(name) + "/mean", ReadHistogram(name), UpTo(nodes), UpTo(edges),
                     256, 1, kMean});
    cases.push_back({std::string(name) + "/cost", ReadHistogram(name), UpTo(nodes), UpTo(edges)});
  }
  cases.push_back({"ppa_standin_ego/cost", ReadHistogram("ppa_standin_ego"), UpTo(4096, 8),
                   UpTo(131'072, 128)});
  for (const int num_sizes : {3'000, 20'000}) {
    const std::string name = "heavy_tail_" + std::to_string(num_sizes);
    const SizeHistogram histogram = HeavyTail(num_sizes, 7);
    cases.push_back({name + "/cost", histogram, UpTo(1 << 20, 8), UpTo(1 << 22, 128), 100'000});
    cases.push_back({name + "/4_shapes", histogram, UpTo(1 << 20, 8), UpTo(1 << 22, 128), 256, 4});
  }
  for (const uint32_t shapes : {1, 2, 8}) {
    const std::string suffix = absl::StrCat("/", shapes, "_shapes");
    cases.push_back({"pyast_functions" + suffix, ReadHistogram("pyast_functions"), UpTo(189'054),
                     UpTo(189'053), 256, shapes});
    cases.push_back(
        {"few_very_large" + suffix, FewVeryLarge(), UpTo(65'536, 8), UpTo(131'072, 8), 64, shapes});
  }
  for (const TuningCase& tuning : cases) {
    benchmark::RegisterBenchmark(("BM_Tune/" + tuning.name).c_str(), [tuning](
                                                                         benchmark::State& state) {
      RunTuning(state, tuning);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace packhouse
