#include "service/wings/graphs/epochs/seed_counter.h"

#include <algorithm>

namespace packhouse {
namespace {

constexpr uint64_t kBits = 64;

uint64_t KeyOf(absl::Span<const uint32_t> row) {
  uint64_t key = 0;
  for (const uint32_t node : row) key = key << 32 | node;
  return key;
}

}  // namespace

SeedCounter::SeedCounter(uint64_t num_nodes, size_t per_row) : per_row_(per_row) {
  if (per_row == 1) seen_.resize((num_nodes + kBits - 1) / kBits);
}

uint32_t SeedCounter::CountRow(absl::Span<const uint32_t> row) {
  if (per_row_ != 1) return counts_[KeyOf(row)]++;
  const uint64_t bit = uint64_t{1} << (row[0] % kBits);
  uint64_t& word = seen_[row[0] / kBits];
  if ((word & bit) == 0) {
    word |= bit;
    return 0;
  }
  return ++counts_[row[0]];
}

std::vector<uint32_t> SeedCounter::Count(absl::Span<const uint32_t> nodes) {
  std::vector<uint32_t> counts;
  const size_t rows = nodes.size() / per_row_;
  for (size_t r = 0; r < rows; ++r) {
    const uint32_t before = CountRow(nodes.subspan(r * per_row_, per_row_));
    if (before == 0 && counts.empty()) continue;
    counts.resize(rows);
    counts[r] = before;
  }
  return counts;
}

uint64_t SeedCounter::num_bytes() const {
  // An entry, and a byte of control for each slot.
  constexpr uint64_t kEntry = sizeof(decltype(counts_)::value_type) + 1;
  return seen_.capacity() * sizeof(uint64_t) + counts_.capacity() * kEntry;
}

std::vector<uint32_t> SeedOccurrences(absl::Span<const uint32_t> nodes, uint64_t num_nodes,
                                      size_t per_row) {
  if (per_row != 1) {
    std::vector<uint64_t> keys;
    keys.reserve(nodes.size() / per_row);
    for (size_t at = 0; at + per_row <= nodes.size(); at += per_row) {
      keys.push_back(KeyOf(nodes.subspan(at, per_row)));
    }
    std::sort(keys.begin(), keys.end());
    if (std::adjacent_find(keys.begin(), keys.end()) == keys.end()) return {};
  }
  return SeedCounter(num_nodes, per_row).Count(nodes);
}

}  // namespace packhouse
