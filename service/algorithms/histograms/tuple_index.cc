#include "service/algorithms/histograms/tuple_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "absl/hash/hash.h"
#include "absl/numeric/int128.h"

namespace packhouse {
namespace {

constexpr size_t kMinSlots = 256;

uint64_t LoadPair(const uint32_t* counts) {
  uint64_t pair;
  std::memcpy(&pair, counts, sizeof(pair));
  return pair;
}

// Both halves of the product: the low one alone would not let high bits of `a` matter to low bits.
uint64_t Mix(uint64_t a, uint64_t key) {
  const absl::uint128 product = absl::uint128(a) * key;
  return absl::Uint128High64(product) ^ absl::Uint128Low64(product);
}

}  // namespace

template <typename Lookup>
auto TupleIndex::WithWidth(Lookup lookup) const {
  switch (num_components_) {
    case 1:
      return lookup(std::integral_constant<size_t, 1>());
    case 2:
      return lookup(std::integral_constant<size_t, 2>());
    default:
      return lookup(std::integral_constant<size_t, 0>());
  }
}

template <size_t kWidth>
size_t TupleIndex::SlotOf(const uint32_t* tuple) const {
  const size_t mask = slots_.size() - 1;
  if constexpr (kWidth == 1) return Mix(tuple[0] + key_, key_) & mask;
  if constexpr (kWidth == 2) return Mix(LoadPair(tuple) + key_, key_) & mask;
  uint64_t hash = key_;
  size_t k = 0;
  for (; k + 2 <= num_components_; k += 2) hash = Mix(hash + LoadPair(tuple + k), key_);
  if (k != num_components_) hash = Mix(hash + tuple[k], key_);
  return hash & mask;
}

template <size_t kWidth>
bool TupleIndex::Equals(uint32_t row, const uint32_t* tuple) const {
  const uint32_t* const own = tuples_.data() + size_t{row} * num_components_;
  if constexpr (kWidth == 1) return *own == *tuple;
  if constexpr (kWidth == 2) return LoadPair(own) == LoadPair(tuple);
  return std::equal(own, own + num_components_, tuple);
}

size_t TupleIndex::SlotsFor(size_t num_tuples) {
  return num_tuples == 0 ? 0 : std::max(kMinSlots, std::bit_ceil(2 * num_tuples));
}

void TupleIndex::Reserve(size_t added) {
  const size_t needed = 2 * (num_rows_ + added);
  if (needed <= slots_.size()) return;
  const size_t num_slots = std::max(2 * slots_.size(), SlotsFor(num_rows_ + added));
  slots_.assign(num_slots, 0);
  // Abseil's hash is seeded by where the process was loaded.
  key_ = absl::HashOf(num_slots, key_) | 1;
  WithWidth([&](auto width) {
    for (size_t row = 0; row < num_rows_; ++row) {
      size_t slot = SlotOf<width()>(tuples_.data() + row * num_components_);
      while (slots_[slot] != 0) slot = (slot + 1) & (num_slots - 1);
      slots_[slot] = row + 1;
    }
  });
}

void TupleIndex::Expect(size_t num_tuples) {
  Reserve(num_tuples);
  tuples_.reserve(num_tuples * num_components_);
}

std::optional<uint32_t> TupleIndex::Find(absl::Span<const uint32_t> tuple) const {
  if (slots_.empty()) return std::nullopt;
  return WithWidth([&](auto width) -> std::optional<uint32_t> {
    size_t slot = SlotOf<width()>(tuple.data());
    for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
      if (Equals<width()>(slots_[slot] - 1, tuple.data())) return slots_[slot] - 1;
    }
    return std::nullopt;
  });
}

template <size_t kWidth>
void TupleIndex::FindOrInsertBlockOf(const uint32_t* tuples, absl::Span<uint32_t> rows) {
  const size_t l = kWidth == 0 ? num_components_ : kWidth;
  const size_t mask = slots_.size() - 1;
  size_t slots[kBlock];
  for (size_t i = 0; i < rows.size(); ++i) {
    slots[i] = SlotOf<kWidth>(tuples + i * l);
    __builtin_prefetch(slots_.data() + slots[i]);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    // For a free slot, any row is fine.
    const size_t row = std::max(slots_[slots[i]], uint32_t{1}) - 1;
    __builtin_prefetch(tuples_.data() + row * l);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t* const tuple = tuples + i * l;
    size_t slot = slots[i];
    while (slots_[slot] != 0 && !Equals<kWidth>(slots_[slot] - 1, tuple)) slot = (slot + 1) & mask;
    if (slots_[slot] == 0) {
      tuples_.insert(tuples_.end(), tuple, tuple + l);
      slots_[slot] = ++num_rows_;
    }
    rows[i] = slots_[slot] - 1;
  }
}

void TupleIndex::FindOrInsertBlock(const uint32_t* tuples, absl::Span<uint32_t> rows) {
  Reserve(rows.size());
  WithWidth([&](auto width) { FindOrInsertBlockOf<width()>(tuples, rows); });
}

size_t TupleIndex::HomeOf(uint32_t row) const {
  return WithWidth([&](auto width) { return SlotOf<width()>(tuple(row).data()); });
}

size_t TupleIndex::SlotHolding(uint32_t row) const {
  size_t slot = HomeOf(row);
  while (slots_[slot] != row + 1) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void TupleIndex::Remove(uint32_t row) {
  const size_t mask = slots_.size() - 1;
  size_t gap = SlotHolding(row);
  // The gap would hide tuples that were pushed beyond it. So the next tuple that may stand in the
  // gap moves into it.
  for (size_t slot = (gap + 1) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const size_t home = HomeOf(slots_[slot] - 1);
    if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
    slots_[gap] = slots_[slot];
    gap = slot;
  }
  slots_[gap] = 0;
  const uint32_t last = num_rows_ - 1;
  const auto end = tuples_.end() - num_components_;
  if (row != last) {
    slots_[SlotHolding(last)] = row + 1;
    std::copy(end, tuples_.end(), tuples_.begin() + row * num_components_);
  }
  tuples_.erase(end, tuples_.end());
  --num_rows_;
}

}  // namespace packhouse
