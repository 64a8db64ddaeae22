// The sizes of graphs as a picture: counts by two components, and by each of them alone.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_HEAT_MAP_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_HEAT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/wings/page/json.h"

namespace packhouse::page {

inline constexpr size_t kMostBins = 64;

// Ascending whole numbers that cut 0..maximum into at most `most` bins, 1 <= most: bin i has the
// values from edge i up to, without it, edge i + 1. The first edge is 0, and the last is above
// `maximum`. Bins are equally wide or, if `is_log`, wider by a factor.
std::vector<uint64_t> BinEdges(uint64_t maximum, size_t most, bool is_log);

struct HeatMapOptions {
  size_t x = 0;                 // A component.
  std::optional<size_t> y;      // Another one; nullopt: x alone.
  size_t num_bins = kMostBins;  // At most.
  bool is_log = false;
};

// {"components", "num_graphs", "num_sizes", "totals", "maxima", "x": {"component", "edges",
// "counts"}, "y": the same or null, "cells": [[bin of x, bin of y, graphs], ...]}. Empty cells are
// left out. O(sizes).
Json HeatMapJson(const SizeHistogram& histogram, const SizeSchema& schema,
                 const HeatMapOptions& options);

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_HEAT_MAP_H_
