// Sizes of graphs, and their histogram.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_GRAPH_SIZES_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_GRAPH_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "packhouse/v1/sizes.pb.h"

namespace packhouse::client {

struct GraphSizes {
  // Column names in file order, without `num_` and without `count`.
  std::vector<std::string> components;
  // num_rows * components.size() values, row by row.
  std::vector<uint32_t> values;
  // Graphs per row; empty if each row is one graph.
  std::vector<uint64_t> counts;
  std::size_t num_rows = 0;

  bool is_histogram() const { return !counts.empty(); }
  // Requires row < num_rows.
  absl::Span<const uint32_t> Row(std::size_t row) const {
    return absl::MakeConstSpan(values).subspan(row * components.size(), components.size());
  }
};

// Counts equal rows. The tuples of the result are distinct and ascending.
//
// Errors: OUT_OF_RANGE if counts overflow.
absl::StatusOr<v1::Histogram> MakeHistogram(const GraphSizes& sizes);

// Writes `num_NODES,...,count`, as `packhouse plan` reads it.
//
// Errors: UNAVAILABLE naming the file if it cannot be written.
absl::Status WriteHistogramFile(const std::string& path, const GraphSizes& histogram);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_GRAPH_SIZES_H_
