// Packs graphs as they come, with bounded look-ahead and delay.
//
// How it works. Up to `look_ahead` graphs wait in a pool, in order of arrival. One pack is open at
// a time; whatever it takes is replaced by the next graph of the stream, so that the choice stays
// wide. A pack is made in three steps:
// 1. It starts with the oldest graph and takes the oldest that fits, until there is room for fewer
//    than two mean graphs. That keeps what waits as mixed as what comes.
// 2. It is finished with the pair of graphs, or the single one, that fills it best.
// 3. If that wastes too much, graphs that it has taken are exchanged, one after another, each for
//    one or two others that together fill it better. What comes out waits on in its old place: it
//    is carried over to a later pack.
// The search ends as soon as a pack is full enough. So the stream decides: where the first few
// pairs will do, as with molecules, that is all; where sizes have little to do with each other,
// exchanges are what fills the packs.
//
// "Best" and "enough" are learnt from the stream. The load of a component is the share of its
// capacity that a mean graph takes; the heaviest one decides how many packs there must be. "Best"
// weighs the components by their load in the stream and in the pool, half and half: what the packs
// so far have left behind counts for more until it is gone. Room is wasted if it is in the
// heaviest component or in one nearly as heavy, and more than is left there in any case; while
// packs keep coming out with room in the heaviest one, lighter ones count for more.
//
// Promises. Every graph pushed is in exactly one pack; no pack exceeds the limits. Age: if c packs
// are complete when the Push returns that comes max_age pushes after a graph's own, then the graph
// is in one of the first c + 2 packs; that is, in a complete one, in the open one, or in the next
// (two graphs of that age need not fit together). No exchange takes a graph of that age out again,
// nor the first one of a pack. With a `max_delay`, PackOverdue() hands out what has waited too
// long. Without a max_delay the packs depend on the sequence of calls alone, neither on time nor
// on the machine.
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
#include "service/base/vector_level.h"
#include "service/packing/pool_scan.h"
#include "service/planning/limits.h"

namespace packhouse {

struct OnlinePackerOptions {
  static constexpr size_t kDefaultLookAhead = 64;
  static constexpr size_t kMaxLookAhead = 16384;

  // Graphs to choose from, 1 to kMaxLookAhead. More packs tighter, costs time for each pack and
  // delays each graph by about so many others. 1 is next-fit.
  size_t look_ahead = kDefaultLookAhead;
  // Graphs pushed after a graph until it is taken next whatever fits. At least look_ahead;
  // 0: 4 * look_ahead.
  uint64_t max_age = 0;
  // How long a graph may wait before PackOverdue() gives it out.
  absl::Duration max_delay = absl::InfiniteDuration();
  // Instructions to use; the packs are the same with all of them.
  VectorLevel vector_level = BestVectorLevel();
};

// One pack: the handles of its graphs, in the order in which they were taken.
using Pack = std::vector<uint64_t>;

// Thread-compatible; no clock of its own. About (72 + 8 * l) * look_ahead bytes.
class OnlinePacker {
 public:
  // INVALID_ARGUMENT naming the option or the component, its value and the bound.
  static absl::StatusOr<OnlinePacker> Create(const Limits& limits,
                                             const OnlinePackerOptions& options);

  // Takes in one graph of l counts. `handle` is the caller's, and comes back in a pack. At most one
  // pack is completed by it: then returns true, and TakePack() gives the pack, which must be done
  // before the next call. `now` must not decrease.
  //
  // OUT_OF_RANGE if the graph alone exceeds the limits; then it was not taken in.
  // O(l) while the oldest graphs fit. Otherwise, and to finish a pack, scans of the pool, each
  // O(look_ahead * l): usually fewer than 20 a pack, some hundred where sizes are hard to fit
  // together, at most 10,000.
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
  size_t num_pending() const { return num_waiting_ + open_.size(); }

  // When PackOverdue() will next have something to do; InfiniteFuture if nothing is pending or
  // there is no max_delay.
  absl::Time NextDeadline() const;

 private:
  struct Waiting {
    uint64_t handle;
    uint64_t number;  // Counts the graphs pushed.
    absl::Time since;
  };
  // One or two graphs of the pool that fit together.
  struct Choice {
    int32_t score = 0;  // Of both.
    size_t first = PoolScan::kNone;
    size_t second = PoolScan::kNone;
  };

  OnlinePacker(const Limits& limits, const OnlinePackerOptions& options);

  size_t num_components() const { return capacity_.size() - 1; }
  // Of component k < l by slot; then the scores.
  int32_t* sizes(size_t k) { return columns_.data() + k * stride_; }
  const int32_t* sizes(size_t k) const { return columns_.data() + k * stride_; }
  int32_t* scores() { return sizes(num_components()); }
  const int32_t* scores() const { return sizes(num_components()); }
  PoolColumns pool() const { return {columns_.data(), scores(), stride_, num_components()}; }

  int32_t ScoreOf(size_t slot) const;
  bool IsAged(size_t slot) const { return num_pushed_ - waiting_[slot].number >= options_.max_age; }
  bool OldestIsAged() const { return num_waiting_ != 0 && IsAged(head_); }
  bool Fits(size_t slot) const;
  bool NearlyFull() const;
  // What a pack with so much room left wastes, as a score.
  double WasteOf(const std::vector<int32_t>& room) const;

  void Append(absl::Span<const uint32_t> tuple, uint64_t handle, absl::Time now);
  void Take(size_t slot);
  void Take(const Choice& choice);
  void TakeAllThatFit();
  // Undoes the Take() of retractable_[place].
  void PutBack(size_t place);
  void Close();
  // Closes the gaps that taken graphs have left.
  void Compact();

  // Puts the graphs `choice` into `room`, which has room for them.
  void Subtract(const Choice& choice, std::vector<int32_t>& room) const;
  // The choice of the highest score above `floor`; or the first one that leaves little enough room.
  // The first graph of a pair is in one of the `candidates` first slots.
  Choice FindBest(const std::vector<int32_t>& room, size_t candidates, int32_t floor);
  // Exchanges one graph of the open pack; false if that does not fill it better.
  bool Exchange();
  // Fills the open pack up from the pool; true if that completed it.
  bool Finish();
  // One step with the pool as it is: takes a graph or completes a pack (then true).
  bool Step();

  // Renews what was learnt of the stream, and all scores.
  void Learn();

  OnlinePackerOptions options_;
  const PoolScan* scan_;
  std::vector<int32_t> capacity_;  // l + 1 entries, `graphs` last.
  // Waste at which the search for something better ends, as a score.
  double enough_;

  // The pool, a slot a graph, in order of arrival. All that waits is in [head_, tail_), and so are
  // holes: slots of score 0 whose graphs were taken. head_ is no hole, unless the pool is empty.
  size_t stride_;
  size_t head_ = 0;
  size_t tail_ = 0;
  size_t num_waiting_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<int32_t> columns_;
  std::vector<uint64_t> pool_totals_;  // By component, `graphs` last.

  // The open pack.
  Pack open_;
  std::vector<size_t> retractable_;  // Slots of its last graphs, which are still holes.
  absl::Time open_since_ = absl::InfiniteFuture();  // Arrival of its longest waiting graph.
  std::vector<int32_t> room_;
  std::vector<int32_t> trial_;  // Room of a pack that is considered.
  std::vector<int32_t> rest_;   // The same, with a choice taken out, and scratch for scans.
  Pack complete_;

  // What the stream was like so far; by component, `graphs` last.
  uint64_t num_pushed_ = 0;
  uint64_t next_lesson_ = 1;  // Learn() when so many are pushed.
  std::vector<uint64_t> totals_;
  size_t heaviest_ = 0;
  double mean_waste_ = 0;            // Of late, as a share of the heaviest component's capacity.
  std::vector<int32_t> ample_room_;  // From this on a pack is not nearly full.
  std::vector<double> prices_;       // Score of one row.
  std::vector<double> waste_prices_;
  std::vector<double> spare_;  // Rows that stay free in a pack even if the heaviest is full.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PACKING_ONLINE_PACKER_H_
