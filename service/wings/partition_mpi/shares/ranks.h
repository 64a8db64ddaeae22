// The processes that partition one graph together, each with a share of it, and what passes between
// them. The algorithms of this room know them by this interface: MPI's ranks are one
// implementation, threads of one process another, for tests.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_RANKS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_RANKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace packhouse {

// All ranks must make the same calls in the same order, and none returns before every rank that it
// needs something of has made it. A rank that fails by itself therefore says so with Agree() before
// the next call, and all of them stop. An implementation whose ranks cannot be reached ends the
// process.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual uint32_t rank() const = 0;  // Of this process, below size().
  virtual uint32_t size() const = 0;

  // to[r] is told to rank r; the result has what each rank told this one.
  virtual std::vector<uint64_t> ExchangeCounts(absl::Span<const uint64_t> to) = 0;
  // Sends out[r] to rank r, of any length. What comes lies at `in`, rank after rank, of the lengths
  // `in_bytes`, which are those of their `out`.
  virtual void ExchangeBytes(absl::Span<const absl::string_view> out, char* in,
                             absl::Span<const uint64_t> in_bytes) = 0;
  // In place, number by number, over all ranks. Sums wrap around.
  virtual void Sum(absl::Span<uint64_t> values) = 0;
  virtual void Max(absl::Span<uint64_t> values) = 0;
  // The sums over the ranks before this one.
  virtual void SumBefore(absl::Span<uint64_t> values) = 0;
  // What each rank gives. For small texts: every rank has all of them.
  virtual std::vector<std::string> Gather(absl::string_view bytes) = 0;
};

// The status of the lowest rank that has an error, with the rank's number if there are several; OK
// if none has.
absl::Status Agree(Ranks& ranks, const absl::Status& status);
bool AnyRank(Ranks& ranks, bool value);
uint64_t SumOfRanks(Ranks& ranks, uint64_t value);
uint64_t MaxOfRanks(Ranks& ranks, uint64_t value);

// [0, total) cut into one run for each rank, as even as can be.
class Blocks {
 public:
  Blocks(uint64_t total, uint32_t ranks)
      : each_(total / ranks), larger_(total % ranks), total_(total), ranks_(ranks) {}

  uint64_t total() const { return total_; }
  uint32_t ranks() const { return ranks_; }
  uint64_t begin(uint32_t rank) const { return each_ * rank + std::min<uint64_t>(rank, larger_); }
  uint64_t end(uint32_t rank) const { return begin(rank + 1); }
  uint64_t size(uint32_t rank) const { return each_ + (rank < larger_ ? 1 : 0); }
  // Requires id < total().
  uint32_t owner(uint64_t id) const {
    const uint64_t in_larger = larger_ * (each_ + 1);
    return static_cast<uint32_t>(id < in_larger ? id / (each_ + 1)
                                                : larger_ + (id - in_larger) / each_);
  }

 private:
  uint64_t each_;
  uint64_t larger_;  // The first ranks have one more.
  uint64_t total_;
  uint32_t ranks_;
};

// A round of ExchangeInRounds ends when one rank has this much for another, or for all of them.
inline constexpr size_t kRoundPairBytes = size_t{1} << 20;
inline constexpr size_t kRoundBytes = size_t{1} << 25;

// What a rank sends in a round.
template <typename Item>
class MessagesToRanks {
 public:
  explicit MessagesToRanks(uint32_t ranks) : to_(ranks) {}

  void Add(uint32_t rank, const Item& item) {
    to_[rank].push_back(item);
    ++items_;
    if (to_[rank].size() * sizeof(Item) >= kRoundPairBytes) full_ = true;
  }
  // Whether the round should end. Adding more is allowed.
  bool full() const { return full_ || items_ * sizeof(Item) >= kRoundBytes; }

  const std::vector<std::vector<Item>>& to() const { return to_; }
  void Clear() {
    for (std::vector<Item>& items : to_) items.clear();
    items_ = 0;
    full_ = false;
  }

 private:
  std::vector<std::vector<Item>> to_;
  size_t items_ = 0;
  bool full_ = false;
};

// One exchange: `take(rank, items)` for what each rank has sent, in the order of ranks.
template <typename Item, typename Take>
void ExchangeItems(Ranks& ranks, const std::vector<std::vector<Item>>& to, const Take& take) {
  std::vector<uint64_t> bytes(to.size());
  std::vector<absl::string_view> out(to.size());
  for (size_t r = 0; r < to.size(); ++r) {
    bytes[r] = to[r].size() * sizeof(Item);
    out[r] = {reinterpret_cast<const char*>(to[r].data()), to[r].size() * sizeof(Item)};
  }
  const std::vector<uint64_t> in_bytes = ranks.ExchangeCounts(bytes);
  uint64_t total = 0;
  for (const uint64_t count : in_bytes) total += count;
  std::vector<Item> in(total / sizeof(Item));
  ranks.ExchangeBytes(out, reinterpret_cast<char*>(in.data()), in_bytes);
  size_t at = 0;
  for (uint32_t r = 0; r < to.size(); ++r) {
    const size_t count = in_bytes[r] / sizeof(Item);
    take(r, absl::MakeConstSpan(in).subspan(at, count));
    at += count;
  }
}

// Exchanges until no rank has more. `fill(outbox)` adds until outbox.full() or there is no more,
// and says whether there may be; items from one rank arrive in the order in which they were added.
// So no rank needs memory for all that it sends or gets.
template <typename Item, typename Fill, typename Take>
void ExchangeInRounds(Ranks& ranks, const Fill& fill, const Take& take) {
  MessagesToRanks<Item> outbox(ranks.size());
  bool more = true;
  while (AnyRank(ranks, more)) {
    outbox.Clear();
    if (more) more = fill(outbox);
    ExchangeItems(ranks, outbox.to(), take);
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_RANKS_H_
