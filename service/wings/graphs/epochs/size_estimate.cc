#include "service/wings/graphs/epochs/size_estimate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// `wanted` of the numbers below `total`, each once, in random order (Floyd's choice).
absl::StatusOr<std::vector<uint64_t>> ChooseRows(uint64_t total, uint64_t wanted,
                                                 SeededRandom& random, const Making& making) {
  std::vector<uint64_t> rows;
  if (wanted >= total) {
    for (uint64_t row = 0; row < total; ++row) rows.push_back(row);
  } else {
    absl::flat_hash_set<uint64_t> chosen;
    for (uint64_t last = total - wanted; last < total; ++last) {
      uint64_t row = random.Below(last + 1);
      if (!chosen.insert(row).second) {
        row = last;
        chosen.insert(row);
      }
      rows.push_back(row);
    }
  }
  PH_RETURN_IF_ERROR(Shuffle(absl::MakeSpan(rows), random, making));
  return rows;
}

}  // namespace

absl::StatusOr<SizeEstimate> EstimateSizes(std::shared_ptr<const SubGraphSource> source,
                                           const SeedList& seeds, const EpochSeed& seed,
                                           uint64_t num_graphs, const Making& making,
                                           SamplingObserver* observer) {
  if (num_graphs > SizeEstimate::kMaxGraphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_graphs: ", num_graphs, ", at most ", SizeEstimate::kMaxGraphs));
  }
  const uint64_t per_graph = source->request().seeds_per_graph;
  if (per_graph != 1 && !seeds.times.empty()) {
    return absl::InvalidArgumentError("seeds.times: not with seeds_per_graph above 1");
  }
  SizeEstimate estimate{{}, SizeHistogram(source->schema().num_components())};
  estimate.num_seeds = source->NumSeeds(seeds);
  estimate.num_graphs = source->NumGraphs(seeds);
  const uint64_t rows = std::min(estimate.num_seeds, num_graphs * per_graph);
  PH_ASSIGN_OR_RETURN(
      estimate.memory,
      making.Hold(
          "the sizes of sub-graphs",
          SizeHistogram::BytesFor(num_graphs, source->schema().num_components()) + 40 * rows));
  SeededRandom random(SequenceStart(seed, DrawPurpose::kEstimate));
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> chosen,
                      ChooseRows(estimate.num_seeds, rows, random, making));
  PH_ASSIGN_OR_RETURN(SubGraphDrawer drawer,
                      SubGraphDrawer::Create(source, making.memory(), observer));
  const size_t ends = source->nodes_per_graph() / per_graph;
  double bytes = 0;
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> occurrences;
  for (size_t begin = 0; begin < chosen.size(); begin += per_graph) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    nodes.clear();
    occurrences.clear();
    const size_t end = std::min<size_t>(chosen.size(), begin + per_graph);
    for (size_t i = begin; i < end; ++i) {
      for (size_t j = 0; j < ends; ++j) {
        nodes.push_back(seeds.nodes == nullptr ? static_cast<uint32_t>(chosen[i])
                                               : (*seeds.nodes)[chosen[i] * ends + j]);
      }
      if (!seeds.occurrences.empty()) occurrences.push_back(seeds.occurrences[chosen[i]]);
    }
    SubGraphDrawer::Draw draw;
    draw.seed_number = seed.seed;
    draw.epoch = seed.epoch;
    draw.seeds = nodes;
    draw.occurrences = occurrences;
    draw.edge_numbers = false;
    if (!seeds.times.empty()) draw.time = seeds.times[chosen[begin]];
    PH_RETURN_IF_ERROR(drawer.Next(draw));
    PH_RETURN_IF_ERROR(estimate.histogram.Add(drawer.tuple()));
    bytes += static_cast<double>(drawer.num_bytes());
  }
  const uint64_t drawn = estimate.histogram.num_graphs();
  if (drawn != 0) estimate.mean_bytes = bytes / static_cast<double>(drawn);
  return estimate;
}

}  // namespace packhouse
