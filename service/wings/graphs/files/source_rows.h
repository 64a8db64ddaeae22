// Rows of one node set or edge set of a source graph, as files have them.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_SOURCE_ROWS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_SOURCE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace packhouse::graph_files {

// The most bytes of an id that is a text; the least is 1.
inline constexpr size_t kMaxIdBytes = 4096;

// External ids of nodes: numbers, or texts one after the other.
struct IdRows {
  bool is_text = false;
  std::vector<int64_t> numbers;
  // Texts: all their bytes, and where each one ends.
  std::string bytes;
  std::vector<uint64_t> ends;

  size_t size() const { return is_text ? ends.size() : numbers.size(); }
  void AddText(absl::string_view id) {
    bytes.append(id.data(), id.size());
    ends.push_back(bytes.size());
  }
  absl::string_view text(size_t row) const {
    const uint64_t begin = row == 0 ? 0 : ends[row - 1];
    return absl::string_view(bytes).substr(begin, ends[row] - begin);
  }
};

// The rows of one column, as SourceColumnSpec has them: little-endian and dense.
struct ColumnRows {
  std::string bytes;
  // Ragged columns and texts: the steps of each row. Otherwise empty.
  std::vector<uint64_t> lengths;
};

struct SourceRows {
  bool is_edges = false;
  // The number of the set in the schema.
  size_t set = 0;
  size_t count = 0;
  // Nodes.
  IdRows ids;
  // Edges.
  IdRows sources;
  IdRows targets;
  // One for each column of the set's spec.
  std::vector<ColumnRows> columns;

  // What the rows take in memory, about. O(columns).
  size_t bytes() const {
    size_t sum = 0;
    for (const IdRows* const some : {&ids, &sources, &targets}) {
      sum += some->bytes.size() + sizeof(uint64_t) * (some->numbers.size() + some->ends.size());
    }
    for (const ColumnRows& column : columns) {
      sum += column.bytes.size() + sizeof(uint64_t) * column.lengths.size();
    }
    return sum;
  }
};

}  // namespace packhouse::graph_files

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_SOURCE_ROWS_H_
