// The fewest rows that every graph of a batch has, padding graphs included.
//
// This is TF-GNN's min_nodes_per_component, for Padding::kTfgnn. Let m be the minimum of a
// component, N its capacity and T that of `graphs`. C real graphs with n rows fit if the T - C
// padding graphs get m rows each: n + m * (T - C) <= N. Put otherwise, the sum of what each graph
// has above m is at most N - m * T. So such graphs are packed by *packed sizes*: twice the rows
// above the minimum. They are doubled because N - m * T may be 0, which is no capacity: it becomes
// 2 * (N - m * T) + 1.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_MIN_ROWS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_MIN_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace packhouse {

// By default there is no minimum, and packed sizes are the sizes. Immutable; thread-safe.
class MinRows {
 public:
  // The largest capacity of a component with a minimum: packed sizes stay within 32 bits.
  static constexpr uint64_t kMaxCapacity = uint64_t{1} << 30;

  MinRows() = default;
  // One for each component, without `graphs`; 0: none.
  explicit MinRows(std::vector<uint32_t> rows) : rows_(std::move(rows)) {
    for (const uint32_t rows_of_component : rows_) is_empty_ &= rows_of_component == 0;
  }

  bool empty() const { return is_empty_; }
  uint32_t operator[](size_t k) const { return is_empty_ || k >= rows_.size() ? 0 : rows_[k]; }
  absl::Span<const uint32_t> rows() const { return rows_; }

  // Of one graph; UINT32_MAX, which exceeds every packed capacity, if it has too few rows.
  uint32_t PackedSize(size_t k, uint32_t rows) const {
    const uint32_t least = (*this)[k];
    if (least == 0) return rows;
    if (rows < least || rows - least > kMaxCapacity) return UINT32_MAX;
    return 2 * (rows - least);
  }
  // Of a batch with this capacity of component k and of `graphs`; needs least * graphs <= capacity.
  uint64_t PackedCapacity(size_t k, uint64_t capacity, uint64_t graphs) const {
    const uint64_t least = (*this)[k];
    return least == 0 ? capacity : 2 * (capacity - least * graphs) + 1;
  }
  // Of graphs whose packed sizes have this sum.
  uint64_t RealRows(size_t k, uint64_t packed, uint64_t num_graphs) const {
    const uint64_t least = (*this)[k];
    return least == 0 ? packed : packed / 2 + least * num_graphs;
  }
  // The first component of which a graph of this size has too few rows.
  std::optional<size_t> FirstBelow(absl::Span<const uint32_t> tuple) const {
    for (size_t k = 0; !is_empty_ && k < tuple.size(); ++k) {
      if (tuple[k] < rows_[k]) return k;
    }
    return std::nullopt;
  }

 private:
  std::vector<uint32_t> rows_;
  bool is_empty_ = true;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_MIN_ROWS_H_
