// The number of graphs of each size, kept incrementally and mergeable.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_SIZE_HISTOGRAM_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_SIZE_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/tuple_index.h"
#include "service/algorithms/sizes/size_table.h"

namespace packhouse {

using SizeTuple = absl::InlinedVector<uint32_t, 4>;

// Lets a hash table of SizeTuple be searched by span.
struct SizeTupleHash {
  using is_transparent = void;
  size_t operator()(absl::Span<const uint32_t> tuple) const { return absl::HashOf(tuple); }
};
struct SizeTupleEq {
  using is_transparent = void;
  bool operator()(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b) const {
    return a == b;
  }
};

// A multiset of size tuples of l counts. Graphs, totals and maxima are kept with every change,
// never recomputed. No sum wraps around: a change that would make a sum exceed 2^64 - 1 is refused
// with RESOURCE_EXHAUSTED. Each change happens as a whole or, with an error, not at all.
//
// Thread-compatible. Memory O(d * l) for d distinct tuples, d < 2^32.
class SizeHistogram {
 public:
  explicit SizeHistogram(size_t num_components);

  // Adds `count` graphs of this size; 0 is no change. Expected O(l), or O(l log d) for a new tuple.
  // `tuple` must have l counts.
  absl::Status Add(absl::Span<const uint32_t> tuple, uint64_t count = 1);

  // Counts every graph of a table, which must have l components.
  absl::Status AddTable(const SizesView& table);

  // Removes `count` graphs of this size. OUT_OF_RANGE, naming the size, if there are fewer.
  absl::Status Remove(absl::Span<const uint32_t> tuple, uint64_t count = 1);

  // Adds all of `other`; INVALID_ARGUMENT if it has another number of components.
  absl::Status Merge(const SizeHistogram& other);

  // Removes all of `other`; OUT_OF_RANGE as Remove.
  absl::Status Subtract(const SizeHistogram& other);

  size_t num_components() const { return totals_.size(); }
  uint64_t num_graphs() const { return num_graphs_; }
  // Number of tuples with a count above 0.
  size_t num_distinct() const { return index_.num_rows(); }
  // Its memory; and the most memory that a histogram takes while it grows to this many distinct
  // tuples.
  uint64_t bytes() const;
  static uint64_t BytesFor(uint64_t num_distinct, size_t num_components);
  // For who knows beforehand how many distinct tuples come, before the first. The histogram then
  // has the memory of BytesWhenExpected(), which is at most that of one that has grown to as many,
  // and takes at most BytesToAdd() more for some of them; bytes() tells how much that was.
  void Expect(size_t num_distinct) {
    index_.Expect(num_distinct);
    counts_.reserve(num_distinct);
  }
  static uint64_t BytesWhenExpected(uint64_t num_distinct, size_t num_components);
  static uint64_t BytesToAdd(uint64_t num_tuples, size_t num_components) {
    return kBytesOfValue * num_components * num_tuples;
  }
  // Sum of component k over all graphs.
  uint64_t total(size_t k) const { return totals_[k]; }
  // Largest count in component k; 0 if the histogram is empty.
  uint32_t maximum(size_t k) const {
    return tuples_with_[k].empty() ? 0 : tuples_with_[k].rbegin()->first;
  }

  // The distinct tuple with number `row`, 0 <= row < num_distinct(), and its count, which is never
  // 0. The order of rows is arbitrary, and any change may renumber them.
  absl::Span<const uint32_t> tuple(size_t row) const { return index_.tuple(row); }
  uint64_t count(size_t row) const { return counts_[row]; }

  // 0 if there is no graph of this size.
  uint64_t CountOf(absl::Span<const uint32_t> tuple) const;

  // Rows in ascending lexicographic order of their tuples. O(d log d).
  std::vector<uint32_t> SortedRows() const;

  // Same tuples, same counts.
  friend bool operator==(const SizeHistogram& a, const SizeHistogram& b);

 private:
  absl::Status CheckRoom(absl::Span<const uint64_t> added_totals, uint64_t added_graphs) const;
  // Bytes of an entry of tuples_with_: nodes are at least half full.
  static constexpr uint64_t kBytesOfValue = 6 * sizeof(uint32_t);

  void AddUnchecked(absl::Span<const uint32_t> tuple, uint64_t count);
  void RemoveUnchecked(uint32_t row, uint64_t count);
  // Adds counts of 0 for rows that are in the index and not yet in counts_.
  void AddNewRows();

  TupleIndex index_;
  std::vector<uint64_t> counts_;
  uint64_t num_graphs_ = 0;
  std::vector<uint64_t> totals_;
  // For each component: the number of distinct tuples with each count value. Keeps the maximum
  // under removal; touched only when a distinct tuple comes or goes.
  std::vector<absl::btree_map<uint32_t, uint32_t>> tuples_with_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_SIZE_HISTOGRAM_H_
