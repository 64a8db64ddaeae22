// Size tuples of many graphs, columnar.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_SIZES_SIZE_TABLE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_SIZES_SIZE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace packhouse {

// n size tuples of l counts each, and the graphs' ids. Immutable; thread-safe.
class SizeTable {
 public:
  // An empty table.
  SizeTable() = default;

  // Graph i has the id first_id + i. `counts` is row-major, n * l. INVALID_ARGUMENT if
  // counts.size() != n * l, or if an id would exceed 2^64 - 1.
  static absl::StatusOr<SizeTable> WithConsecutiveIds(size_t num_graphs, size_t num_components,
                                                      std::vector<uint32_t> counts,
                                                      uint64_t first_id);

  // INVALID_ARGUMENT if the lengths disagree, or for an id that occurs twice, which it names. O(n).
  static absl::StatusOr<SizeTable> WithIds(size_t num_graphs, size_t num_components,
                                           std::vector<uint32_t> counts,
                                           std::vector<uint64_t> graph_ids);

  // The same for graphs of which several may have one id: pieces of a graph, and what is stored.
  static absl::StatusOr<SizeTable> WithAnyIds(size_t num_graphs, size_t num_components,
                                              std::vector<uint32_t> counts,
                                              std::vector<uint64_t> graph_ids);

  size_t num_graphs() const { return num_graphs_; }
  size_t num_components() const { return num_components_; }

  // The l counts of graph i.
  absl::Span<const uint32_t> tuple(size_t i) const {
    return absl::MakeConstSpan(counts_).subspan(i * num_components_, num_components_);
  }
  // All counts, row-major.
  absl::Span<const uint32_t> counts() const { return counts_; }

  uint64_t graph_id(size_t i) const { return graph_ids_.empty() ? first_id_ + i : graph_ids_[i]; }

  // Prefetches graph i's size and id.
  void Prefetch(size_t i) const {
    __builtin_prefetch(counts_.data() + i * num_components_);
    if (!graph_ids_.empty()) __builtin_prefetch(graph_ids_.data() + i);
  }

 private:
  SizeTable(size_t num_graphs, size_t num_components, std::vector<uint32_t> counts,
            uint64_t first_id, std::vector<uint64_t> graph_ids)
      : num_graphs_(num_graphs),
        num_components_(num_components),
        first_id_(first_id),
        counts_(std::move(counts)),
        graph_ids_(std::move(graph_ids)) {}

  size_t num_graphs_ = 0;
  size_t num_components_ = 0;
  uint64_t first_id_ = 0;
  std::vector<uint32_t> counts_;
  std::vector<uint64_t> graph_ids_;  // Empty: consecutive from first_id_.
};

// A view of size tuples without ids, in a table or a message that must outlive it. Immutable;
// thread-safe.
class SizesView {
 public:
  // INVALID_ARGUMENT if counts.size() != n * l.
  static absl::StatusOr<SizesView> Create(size_t num_graphs, size_t num_components,
                                          absl::Span<const uint32_t> counts);

  // NOLINTNEXTLINE(google-explicit-constructor): functions that take sizes take tables too.
  SizesView(const SizeTable& table)
      : SizesView(table.num_graphs(), table.num_components(), table.counts()) {}

  size_t num_graphs() const { return num_graphs_; }
  size_t num_components() const { return num_components_; }
  // All counts, row-major.
  absl::Span<const uint32_t> counts() const { return counts_; }

 private:
  SizesView(size_t num_graphs, size_t num_components, absl::Span<const uint32_t> counts)
      : num_graphs_(num_graphs), num_components_(num_components), counts_(counts) {}

  size_t num_graphs_;
  size_t num_components_;
  absl::Span<const uint32_t> counts_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_SIZES_SIZE_TABLE_H_
