#include "service/algorithms/histograms/size_histogram.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// However few tuples an index has, its slots take this (tuple_index.cc).
constexpr uint64_t kLeastIndexBytes = 256 * sizeof(uint32_t);

absl::Status DifferentComponents(size_t ours, size_t theirs) {
  return absl::InvalidArgumentError(
      absl::StrCat("histogram: ", theirs, " components, expected ", ours));
}

template <size_t kWidth>
void AddTotals(absl::Span<const uint32_t> counts, absl::Span<uint64_t> totals) {
  std::array<uint64_t, kWidth> sums = {};
  for (size_t i = 0; i < counts.size(); i += kWidth) {
    for (size_t k = 0; k < kWidth; ++k) sums[k] += counts[i + k];
  }
  std::copy(sums.begin(), sums.end(), totals.begin());
}

// Sum of each component.
absl::InlinedVector<uint64_t, 4> TotalsOf(const SizesView& table) {
  const size_t l = table.num_components();
  const absl::Span<const uint32_t> counts = table.counts();
  absl::InlinedVector<uint64_t, 4> totals(l, 0);
  if (l == 1) {
    AddTotals<1>(counts, absl::MakeSpan(totals));
  } else if (l == 2) {
    AddTotals<2>(counts, absl::MakeSpan(totals));
  } else {
    for (size_t i = 0; i < counts.size(); i += l) {
      for (size_t k = 0; k < l; ++k) totals[k] += counts[i + k];
    }
  }
  return totals;
}

}  // namespace

SizeHistogram::SizeHistogram(size_t num_components)
    : index_(num_components), totals_(num_components, 0), tuples_with_(num_components) {}

absl::Status SizeHistogram::CheckRoom(absl::Span<const uint64_t> added_totals,
                                      uint64_t added_graphs) const {
  if (!CheckedAdd(num_graphs_, added_graphs)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("histogram: ", num_graphs_, " + ", added_graphs, " graphs exceeds 2^64 - 1"));
  }
  for (size_t k = 0; k < totals_.size(); ++k) {
    if (!CheckedAdd(totals_[k], added_totals[k])) {
      return absl::ResourceExhaustedError(absl::StrCat("histogram: total of component ", k, " ",
                                                       totals_[k], " + ", added_totals[k],
                                                       " exceeds 2^64 - 1"));
    }
  }
  return absl::OkStatus();
}

void SizeHistogram::AddNewRows() {
  for (size_t row = counts_.size(); row < index_.num_rows(); ++row) {
    for (size_t k = 0; k < num_components(); ++k) ++tuples_with_[k][tuple(row)[k]];
  }
  counts_.resize(index_.num_rows(), 0);
}

void SizeHistogram::AddUnchecked(absl::Span<const uint32_t> tuple, uint64_t count) {
  num_graphs_ += count;
  for (size_t k = 0; k < tuple.size(); ++k) totals_[k] += tuple[k] * count;
  const uint32_t row = index_.FindOrInsert(tuple);
  AddNewRows();
  counts_[row] += count;
}

void SizeHistogram::RemoveUnchecked(uint32_t row, uint64_t count) {
  num_graphs_ -= count;
  for (size_t k = 0; k < num_components(); ++k) totals_[k] -= tuple(row)[k] * count;
  counts_[row] -= count;
  if (counts_[row] != 0) return;

  for (size_t k = 0; k < num_components(); ++k) {
    const auto entry = tuples_with_[k].find(tuple(row)[k]);
    if (--entry->second == 0) tuples_with_[k].erase(entry);
  }
  // The last row moves into the gap.
  index_.Remove(row);
  counts_[row] = counts_.back();
  counts_.pop_back();
}

absl::Status SizeHistogram::Add(absl::Span<const uint32_t> tuple, uint64_t count) {
  if (tuple.size() != num_components()) return DifferentComponents(num_components(), tuple.size());
  if (count == 0) return absl::OkStatus();
  absl::InlinedVector<uint64_t, 4> added;
  for (const uint32_t size : tuple) {
    const auto product = CheckedMultiply(size, count);
    if (!product) {
      return absl::ResourceExhaustedError(absl::StrCat("histogram: ", count, " graphs of size (",
                                                       absl::StrJoin(tuple, ", "),
                                                       "): their total exceeds 2^64 - 1"));
    }
    added.push_back(*product);
  }
  PH_RETURN_IF_ERROR(CheckRoom(added, count));
  AddUnchecked(tuple, count);
  return absl::OkStatus();
}

absl::Status SizeHistogram::AddTable(const SizesView& table) {
  const size_t l = num_components();
  if (table.num_graphs() == 0) return absl::OkStatus();
  if (table.num_components() != l) return DifferentComponents(l, table.num_components());
  // n < 2^32 graphs of counts below 2^32 cannot wrap around among themselves.
  const absl::InlinedVector<uint64_t, 4> added = TotalsOf(table);
  PH_RETURN_IF_ERROR(CheckRoom(added, table.num_graphs()));
  num_graphs_ += table.num_graphs();
  for (size_t k = 0; k < l; ++k) totals_[k] += added[k];
  index_.ForEachRow(table.counts(), table.num_graphs(), [&](absl::Span<const uint32_t> rows) {
    AddNewRows();
    for (const uint32_t row : rows) ++counts_[row];
  });
  return absl::OkStatus();
}

absl::Status SizeHistogram::Remove(absl::Span<const uint32_t> tuple, uint64_t count) {
  if (tuple.size() != num_components()) return DifferentComponents(num_components(), tuple.size());
  if (CountOf(tuple) < count) {
    return absl::OutOfRangeError(absl::StrCat("histogram: cannot remove ", count,
                                              " graphs of size (", absl::StrJoin(tuple, ", "),
                                              "), there are ", CountOf(tuple)));
  }
  if (count != 0) RemoveUnchecked(*index_.Find(tuple), count);
  return absl::OkStatus();
}

absl::Status SizeHistogram::Merge(const SizeHistogram& other) {
  if (other.num_components() != num_components()) {
    return DifferentComponents(num_components(), other.num_components());
  }
  PH_RETURN_IF_ERROR(CheckRoom(other.totals_, other.num_graphs_));
  // Fixed before the loop: `other` may be *this.
  const size_t rows = other.num_distinct();
  for (size_t row = 0; row < rows; ++row) {
    AddUnchecked(other.tuple(row), other.count(row));
  }
  return absl::OkStatus();
}

absl::Status SizeHistogram::Subtract(const SizeHistogram& other) {
  if (other.num_components() != num_components()) {
    return DifferentComponents(num_components(), other.num_components());
  }
  if (&other == this) {
    *this = SizeHistogram(num_components());
    return absl::OkStatus();
  }
  for (size_t row = 0; row < other.num_distinct(); ++row) {
    const uint64_t ours = CountOf(other.tuple(row));
    if (ours < other.count(row)) {
      return absl::OutOfRangeError(
          absl::StrCat("histogram: cannot remove ", other.count(row), " graphs of size (",
                       absl::StrJoin(other.tuple(row), ", "), "), there are ", ours));
    }
  }
  for (size_t row = 0; row < other.num_distinct(); ++row) {
    RemoveUnchecked(*index_.Find(other.tuple(row)), other.count(row));
  }
  return absl::OkStatus();
}

uint64_t SizeHistogram::bytes() const {
  uint64_t values = 0;
  for (const auto& tuples_with : tuples_with_) values += tuples_with.size();
  return index_.bytes() + sizeof(uint64_t) * counts_.capacity() + kBytesOfValue * values +
         BytesFor(0, num_components()) - kLeastIndexBytes;
}

uint64_t SizeHistogram::BytesFor(uint64_t num_distinct, size_t num_components) {
  // A node of tuples_with_ takes 256 bytes at most, however few entries it has.
  const uint64_t of_components =
      num_components * (sizeof(uint64_t) + sizeof(absl::btree_map<uint32_t, uint32_t>) + 256);
  return TupleIndex::BytesFor(num_distinct, num_components) + 3 * sizeof(uint64_t) * num_distinct +
         kBytesOfValue * num_components * num_distinct + of_components + kLeastIndexBytes;
}

uint64_t SizeHistogram::BytesWhenExpected(uint64_t num_distinct, size_t num_components) {
  return TupleIndex::BytesWhenExpected(num_distinct, num_components) +
         sizeof(uint64_t) * num_distinct + BytesFor(0, num_components) - kLeastIndexBytes;
}

uint64_t SizeHistogram::CountOf(absl::Span<const uint32_t> tuple) const {
  const std::optional<uint32_t> row = index_.Find(tuple);
  return row ? counts_[*row] : 0;
}

std::vector<uint32_t> SizeHistogram::SortedRows() const {
  std::vector<uint32_t> rows(num_distinct());
  std::iota(rows.begin(), rows.end(), 0);
  std::sort(rows.begin(), rows.end(),
            [this](uint32_t a, uint32_t b) { return tuple(a) < tuple(b); });
  return rows;
}

bool operator==(const SizeHistogram& a, const SizeHistogram& b) {
  if (a.num_components() != b.num_components() || a.num_graphs() != b.num_graphs() ||
      a.num_distinct() != b.num_distinct()) {
    return false;
  }
  for (size_t row = 0; row < a.num_distinct(); ++row) {
    if (b.CountOf(a.tuple(row)) != a.count(row)) return false;
  }
  return true;
}

}  // namespace packhouse
