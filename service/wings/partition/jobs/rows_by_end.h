// The edges of a part by one of their ends, as the csr and csc forms of graph.dgl have them.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ROWS_BY_END_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ROWS_BY_END_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition/files/dgl_writer.h"

namespace packhouse {

// Number: that of a node. Thread-compatible.
template <typename Number>
class RowsByEnd {
 public:
  // No nodes.
  RowsByEnd() = default;

  // Edge i has `ends[i]`, which is below `num_nodes`, and `others[i]`. Each row is in the order of
  // the edges. O(nodes + edges).
  RowsByEnd(size_t num_nodes, const std::vector<Number>& ends, const std::vector<Number>& others)
      : offsets_(num_nodes + 1), neighbours_(ends.size()), edges_(ends.size()) {
    for (const Number end : ends) ++offsets_[end + 1];
    for (size_t row = 1; row < offsets_.size(); ++row) offsets_[row] += offsets_[row - 1];
    std::vector<uint64_t> next = offsets_;
    for (size_t edge = 0; edge < ends.size(); ++edge) {
      const uint64_t at = next[ends[edge]]++;
      neighbours_[at] = others[edge];
      edges_[at] = edge;
    }
  }

  // Valid as long as this.
  DglCsrSource Source() const {
    return {Int64Array("offsets", absl::MakeConstSpan(offsets_)),
            Int64Array("neighbours", absl::MakeConstSpan(neighbours_)),
            Int64Array("edges", absl::MakeConstSpan(edges_))};
  }

 private:
  std::vector<uint64_t> offsets_;
  std::vector<Number> neighbours_;
  std::vector<uint64_t> edges_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ROWS_BY_END_H_
