// Graph sizes in CSV files, plain or gzipped.
//
// The first line names the columns: `num_nodes,num_edges` or `nodes,edges`, any number of
// components; a leading `num_` is dropped. Each row is one graph or, if there is a column `count`,
// that many graphs (a histogram). Values are whole numbers, sizes below 2^32.
//
// What pandas, R and spreadsheets write is read as it comes: a first column of row numbers that has
// no name, quotes, CRLF, a byte order mark, and `;` or tabs instead of commas. The Python package
// (packhouse/files/size_files.py) reads the same files as the same sizes; tests compare them.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_SIZES_FILE_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_SIZES_FILE_H_

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

// Reads a file whole. Empty lines at the end, CRLF and a byte order mark are accepted.
//
// Errors: NOT_FOUND if it cannot be opened; INVALID_ARGUMENT naming file, line and value if it is
// not as above, or has a line of more than 1 MiB; DATA_LOSS if its compressed data is broken.
// Cost: O(bytes) time, O(values) memory.
absl::StatusOr<GraphSizes> ReadSizesFile(const std::string& path);
// The same from the standard input, which messages call `stdin`.
absl::StatusOr<GraphSizes> ReadSizesStdin();

// One row for each graph, in file order.
//
// Errors: OUT_OF_RANGE above `max_graphs` graphs.
absl::StatusOr<GraphSizes> ExpandHistogram(GraphSizes sizes, uint64_t max_graphs);

// Permutes the rows of expanded sizes at random. The same seed gives the same order on every
// machine. Returns the old place of each row.
std::vector<uint64_t> ShuffleRows(uint64_t seed, GraphSizes& sizes);

// Counts equal rows. The tuples of the result are distinct and ascending.
//
// Errors: OUT_OF_RANGE if counts overflow.
absl::StatusOr<v1::Histogram> MakeHistogram(const GraphSizes& sizes);

// The inverse: rows and counts of a histogram message.
//
// Errors: INVALID_ARGUMENT if its lengths disagree.
absl::StatusOr<GraphSizes> SizesOf(const v1::Histogram& histogram);

// Writes `num_NODES,...,count`, as ReadSizesFile reads it.
//
// Errors: UNAVAILABLE naming the file if it cannot be written.
absl::Status WriteHistogramFile(const std::string& path, const GraphSizes& histogram);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_SIZES_FILE_H_
