// Numbers distinct size tuples; histograms count by these numbers.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_TUPLE_INDEX_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_TUPLE_INDEX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace packhouse {

// A set of tuples of l counts, each with a row: the d tuples have the rows 0 to d - 1, d < 2^32.
// Rows depend only on the calls and their order, not on the hash.
//
// Tuples come from clients. The hash therefore has a new key in each process and whenever the table
// grows: nobody can know which tuples collide. Thread-compatible. Memory: 4 * l bytes for each
// tuple, and 8 to 16 for its place in the table.
class TupleIndex {
 public:
  explicit TupleIndex(size_t num_components) : num_components_(num_components) {}

  size_t num_components() const { return num_components_; }
  size_t num_rows() const { return num_rows_; }
  // Its memory; and the most memory that an index takes while it grows to this many tuples. Lists
  // have room for up to twice their tuples, and exist twice for a moment.
  uint64_t bytes() const { return sizeof(uint32_t) * (tuples_.capacity() + slots_.capacity()); }
  static uint64_t BytesFor(uint64_t num_tuples, size_t num_components) {
    return sizeof(uint32_t) * (3 * num_tuples * num_components + 6 * (num_tuples + kBlock));
  }
  // Room for this many tuples in all, of an index that has none: it takes no more than an index
  // that has grown to them, and does not grow until it has them.
  void Expect(size_t num_tuples);
  static uint64_t BytesWhenExpected(uint64_t num_tuples, size_t num_components) {
    return sizeof(uint32_t) * (num_tuples * num_components + SlotsFor(num_tuples));
  }

  absl::Span<const uint32_t> tuple(size_t row) const {
    return absl::MakeConstSpan(tuples_).subspan(row * num_components_, num_components_);
  }

  // All tuples must have l counts. Expected O(l).
  std::optional<uint32_t> Find(absl::Span<const uint32_t> tuple) const;

  // The tuple's row; a new one becomes the next row.
  uint32_t FindOrInsert(absl::Span<const uint32_t> tuple) {
    uint32_t row;
    FindOrInsertBlock(tuple.data(), absl::MakeSpan(&row, 1));
    return row;
  }

  // The same for `num_tuples` tuples, row-major in `tuples`. Calls on_rows(span) in order, each
  // time with the rows of some tuples. Faster than one call for each tuple: several tuples are
  // fetched from memory at the same time.
  template <typename OnRows>
  void ForEachRow(absl::Span<const uint32_t> tuples, size_t num_tuples, OnRows on_rows) {
    uint32_t rows[kBlock];
    for (size_t done = 0; done < num_tuples; done += kBlock) {
      const absl::Span<uint32_t> block(rows, std::min(kBlock, num_tuples - done));
      FindOrInsertBlock(tuples.data() + done * num_components_, block);
      on_rows(absl::Span<const uint32_t>(block));
    }
  }

  // The last row, if it is not the removed one, takes the removed row's number. Expected O(l).
  void Remove(uint32_t row);

 private:
  // How many tuples are looked up together.
  static constexpr size_t kBlock = 64;

  // Calls lookup(constant). `constant` is l as an integral_constant if l is 1 or 2, else 0: code
  // that knows l is several times faster.
  template <typename Lookup>
  auto WithWidth(Lookup lookup) const;
  template <size_t kWidth>
  size_t SlotOf(const uint32_t* tuple) const;
  template <size_t kWidth>
  bool Equals(uint32_t row, const uint32_t* tuple) const;
  // The rows of rows.size() tuples, at most kBlock.
  void FindOrInsertBlock(const uint32_t* tuples, absl::Span<uint32_t> rows);
  template <size_t kWidth>
  void FindOrInsertBlockOf(const uint32_t* tuples, absl::Span<uint32_t> rows);
  // The slot where a row's tuple belongs, and the slot where it is.
  size_t HomeOf(uint32_t row) const;
  size_t SlotHolding(uint32_t row) const;
  // The slots of an index that has had at most this many tuples.
  static size_t SlotsFor(size_t num_tuples);
  // Makes room for `added` tuples: afterwards at most half of the slots are taken.
  void Reserve(size_t added);

  size_t num_components_;
  size_t num_rows_ = 0;           // Needed because l may be 0.
  std::vector<uint32_t> tuples_;  // Row-major.
  // Open addressing with linear probing: row + 1, or 0 for a free slot. A power of two, or none.
  std::vector<uint32_t> slots_;
  uint64_t key_ = 1;  // Of the hash; odd.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_TUPLE_INDEX_H_
