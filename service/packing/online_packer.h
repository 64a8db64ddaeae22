// Packs graphs as they come, with bounded look-ahead and delay.
//
// How it works. Up to `look_ahead` graphs wait in a pool. One pack is open at a time; it starts
// with the oldest graph of the pool and takes the oldest that fits until little room is left; then
// the pair of pool graphs that fills it best closes it. Whatever is taken is replaced by the next
// graph of the stream, so that the choice stays wide. "Best" weighs each component by how hard the
// stream so far presses on its capacity.
//
// Promises: every graph pushed is in exactly one pack; no pack exceeds the limits; a graph is at
// the latest in the pack that is open when `max_age` graphs have been pushed after it, or in the
// next; with a `max_delay`, PackOverdue() hands out what has waited too long. Without a max_delay
// the packs depend on the sequence of calls alone, not on time.
#ifndef PACKHOUSE_SERVICE_PACKING_ONLINE_PACKER_H_
#define PACKHOUSE_SERVICE_PACKING_ONLINE_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/planning/limits.h"

namespace packhouse {

struct OnlinePackerOptions {
  static constexpr size_t kDefaultLookAhead = 64;
  static constexpr size_t kMaxLookAhead = 16384;

  // Graphs to choose from, 1 to kMaxLookAhead. More packs tighter, costs O(look_ahead) a graph
  // and delays each graph by about so many others.
  size_t look_ahead = kDefaultLookAhead;
  // Graphs pushed after a graph until it is taken next whatever fits. At least look_ahead;
  // 0: 4 * look_ahead.
  uint64_t max_age = 0;
  // How long a graph may wait before PackOverdue() gives it out.
  absl::Duration max_delay = absl::InfiniteDuration();
};

// One pack: the handles of its graphs, in the order in which they were taken.
using Pack = std::vector<uint64_t>;

// Thread-compatible; no clock of its own.
class OnlinePacker {
 public:
  // Largest capacity that it can work with; a component without a limit counts as this.
  static constexpr uint64_t kMaxCapacity = (uint64_t{1} << 31) - 1;

  // INVALID_ARGUMENT naming the option or the component, its value and the bound.
  static absl::StatusOr<OnlinePacker> Create(const Limits& limits,
                                             const OnlinePackerOptions& options);

  // Takes in one graph of l counts. `handle` is the caller's, and comes back in a pack. At most one
  // pack is completed by it: then returns true, and TakePack() gives the pack, which must be done
  // before the next call. `now` must not decrease.
  //
  // OUT_OF_RANGE if the graph alone exceeds the limits; then it was not taken in.
  // O(look_ahead * l), and O(64 * look_ahead * l) once a pack.
  absl::StatusOr<bool> Push(absl::Span<const uint32_t> tuple, uint64_t handle, absl::Time now);

  // Packs pending graphs without waiting for more: each call completes one pack, false once
  // nothing is pending.
  bool PackPending();

  // Like PackPending, but only while some graph has waited for max_delay at `now`.
  bool PackOverdue(absl::Time now);

  // The pack that the last successful call completed.
  Pack TakePack() { return std::move(complete_); }

  // As created, with max_age resolved.
  const OnlinePackerOptions& options() const { return options_; }

  // Graphs pushed and not yet in a completed pack.
  size_t num_pending() const { return pool_.size() + open_.size(); }

  // When PackOverdue() will next have something to do; InfiniteFuture if nothing is pending or
  // there is no max_delay.
  absl::Time NextDeadline() const;

 private:
  struct Waiting {
    uint64_t handle;
    uint64_t number;  // Counts the graphs pushed.
    absl::Time since;
  };

  OnlinePacker(const Limits& limits, const OnlinePackerOptions& options);

  bool OldestIsAged() const;
  bool Fits(size_t slot) const;
  void Take(size_t slot);
  void Close();
  bool NearlyFull() const;
  // Fills the open pack up from the pool; true if that completed it.
  bool Finish();
  bool TakeBestPair();
  bool TakeBestSingle();
  void TakeAllThatFit();
  // One step with the pool as it is: takes a graph or completes a pack (then true).
  bool Step();
  void UpdateWeights();

  OnlinePackerOptions options_;
  std::vector<int32_t> capacity_;  // l + 1 entries, `graphs` last.

  // The pool, a slot a graph, in order of arrival. Sizes by component for the scans.
  std::vector<Waiting> pool_;
  std::vector<std::vector<int32_t>> sizes_;  // [component][slot], `graphs` is not stored.
  std::vector<int32_t> scores_;              // [slot]
  std::vector<int32_t> scratch_;             // [slot]

  // The open pack.
  Pack open_;
  absl::Time open_since_ = absl::InfiniteFuture();  // Arrival of its longest waiting graph.
  std::vector<int32_t> room_;
  Pack complete_;

  // What the stream was like so far: decides weights and what "nearly full" means.
  uint64_t num_pushed_ = 0;
  std::vector<uint64_t> totals_;
  std::vector<uint64_t> weights_;  // Score of a whole capacity of component k; sums to kFullScore.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PACKING_ONLINE_PACKER_H_
