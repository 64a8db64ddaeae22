#include "service/wings/page/next_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "service/base/seeded_random.h"

namespace packhouse::page {
namespace {

// Rows of the histogram in the order in which the graphs come.
std::vector<uint32_t> Arrivals(const SizeHistogram& histogram, uint64_t seed) {
  const std::vector<uint32_t> rows = histogram.SortedRows();
  SeededRandom random(seed);
  std::vector<uint32_t> arrivals;
  if (histogram.num_graphs() <= kMostSampled) {
    arrivals.reserve(histogram.num_graphs());
    for (const uint32_t row : rows) arrivals.insert(arrivals.end(), histogram.count(row), row);
    for (size_t i = arrivals.size(); i > 1; --i) {
      std::swap(arrivals[i - 1], arrivals[random.Below(i)]);
    }
    return arrivals;
  }
  std::vector<uint64_t> ends;
  uint64_t end = 0;
  for (const uint32_t row : rows) ends.push_back(end += histogram.count(row));
  for (uint64_t i = 0; i < kMostSampled; ++i) {
    const auto drawn = std::upper_bound(ends.begin(), ends.end(), random.Below(end));
    arrivals.push_back(rows[static_cast<size_t>(drawn - ends.begin())]);
  }
  return arrivals;
}

}  // namespace

NextFitEstimate NextFitPacks(const SizeHistogram& histogram, absl::Span<const uint64_t> capacities,
                             uint64_t seed) {
  const size_t num_components = histogram.num_components();
  NextFitEstimate estimate;
  std::vector<uint64_t> rows(num_components + 1, 0);
  const std::vector<uint32_t> arrivals = Arrivals(histogram, seed);
  for (const uint32_t row : arrivals) {
    const auto size = histogram.tuple(row);
    bool fits = estimate.packs != 0 && rows.back() < capacities.back();
    // No sum wraps around: rows are below a capacity, and a count is below 2^32.
    for (size_t k = 0; fits && k < num_components; ++k) {
      fits = size[k] <= capacities[k] && rows[k] <= capacities[k] - size[k];
    }
    if (!fits) {
      ++estimate.packs;
      std::fill(rows.begin(), rows.end(), 0);
    }
    for (size_t k = 0; k < num_components; ++k) rows[k] += size[k];
    ++rows.back();
  }
  if (histogram.num_graphs() > kMostSampled) {
    estimate.is_exact = false;
    estimate.packs = static_cast<uint64_t>(std::llround(
        static_cast<double>(estimate.packs) * static_cast<double>(histogram.num_graphs()) /
        static_cast<double>(arrivals.size())));
  }
  return estimate;
}

}  // namespace packhouse::page
