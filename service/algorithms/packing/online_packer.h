// Packs graphs as they come, with bounded look-ahead and delay.
//
// How it works. Up to `look_ahead` graphs wait in a pool, in order of arrival. One pack is open at
// a time. The next graph of the stream replaces each graph that the pack takes, so that the choice
// stays wide. A pack is made in three steps:
// 1. It starts with the oldest graph, and takes the oldest that fits until there is room for fewer
//   than two mean graphs. This keeps the pool as mixed as the stream.
// 2. The pair of graphs or the single graph that fills it best finishes it.
// 3. If it still wastes too much, graphs of the pack are exchanged, one after another, each for one
//   or two others that together fill it better. An exchanged graph keeps its old place in the pool,
//   for a later pack.
// A lopsided graph (companions.h) does not wait for its turn: it starts a pack before, and that
// pack takes the graphs that go with it, out of the whole pool, instead of the oldest. So these are
// not spent on packs that any graphs would fill. Lopsided graphs start packs about twice as often
// as the pool has them, not all at once: a new stream would use up what goes with them, and its end
// would be left with what does not.
// When no more graphs come (PackPending()) and the look-ahead is large, each pack starts with the
// largest graph, so that small ones are left to fill up the last packs.
// The search ends as soon as a pack is full enough. So the work depends on the stream. For
// molecules the first few pairs suffice. If the components of a size have little to do with each
// other, exchanges fill the packs.
//
// "Best" and "enough" are learnt from the stream. The load of a component is the share of its
// capacity that a mean graph takes; the heaviest component decides how many packs are needed.
// "Best" weighs the components by their load in the stream and in the pool, half and half: graphs
// that earlier packs left behind count for more until they are gone. Room counts as wasted in the
// heaviest component and in components nearly as heavy, as far as it is more than any pack leaves
// there. While packs leave room in the heaviest component, lighter components count for more.
//
// Promises. Every graph pushed is in exactly one pack; no pack exceeds the limits. Age: if c packs
// are complete when the Push returns that comes max_age pushes after a graph's own, then the graph
// is in one of the first c + 2 packs; that is, in a complete pack, in the open pack, or in the next
// (two graphs of that age need not fit together). An exchange never removes a graph of that age, or
// the first graph of a pack. With a `max_delay`, PackOverdue() hands out graphs that have waited
// too long. Without it the packs depend on the sequence of calls alone, and not on time or on the
// machine.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PACKING_ONLINE_PACKER_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PACKING_ONLINE_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/packing/companions.h"
#include "service/algorithms/packing/pool_scan.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/vector_level.h"

namespace packhouse {

struct OnlinePackerOptions {
  static constexpr size_t kDefaultLookAhead = 64;
  static constexpr size_t kMaxLookAhead = 16384;

  // Graphs to choose from, 1 to kMaxLookAhead. A larger number packs tighter, costs time for each
  // pack, and delays each graph by about that many others. 1 is next-fit.
  size_t look_ahead = kDefaultLookAhead;
  // After this many later pushes a graph is taken next, before graphs that fit better. At least
  // look_ahead; 0: 4 * look_ahead.
  uint64_t max_age = 0;
  // How long a graph may wait before PackOverdue() hands it out.
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

  // Takes in one graph of l counts. `handle` belongs to the caller, and comes back in a pack. A
  // call completes at most one pack. It then returns true, and TakePack() gives the pack; call
  // TakePack() before the next call. `now` must not decrease.
  //
  // OUT_OF_RANGE if the graph alone exceeds the limits; it is then not taken in. O(l) while the
  // oldest graphs fit. Otherwise, and to finish a pack, scans of the pool, each O(look_ahead * l):
  // usually fewer than 20 for each pack, some hundred if sizes are hard to fit together, at most
  // 10,000.
  absl::StatusOr<bool> Push(absl::Span<const uint32_t> tuple, uint64_t handle, absl::Time now);

  // Packs pending graphs without waiting for more. Each call completes one pack; returns false once
  // no graph is pending. `is_end`: no more graphs are known to come.
  bool PackPending(bool is_end = true);

  // Like PackPending, but only while some graph has waited for max_delay at `now`.
  bool PackOverdue(absl::Time now);

  // The pack that the last successful call completed.
  Pack TakePack() { return std::move(complete_); }

  // The options of Create(), with max_age resolved.
  const OnlinePackerOptions& options() const { return options_; }

  // Graphs pushed and not yet in a completed pack.
  size_t num_pending() const { return num_waiting_ + open_.size(); }

  // The next time at which PackOverdue() has something to do; InfiniteFuture if nothing is pending
  // or there is no max_delay.
  absl::Time NextDeadline() const;

 private:
  struct Waiting {
    uint64_t handle;
    uint64_t number : 62;      // Counts the graphs pushed.
    uint64_t is_large : 1;     // Companions::Add() said so.
    uint64_t is_lopsided : 1;  // Large, and Companions::IsLopsided() as of the last lesson.
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
  // Sizes in component k < l by slot; for k = l the scores.
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
  // The waste of a pack with this much room left, as a score.
  double WasteOf(const std::vector<int32_t>& room) const;

  void Append(absl::Span<const uint32_t> tuple, uint64_t handle, absl::Time now);
  void Take(size_t slot);
  void Take(const Choice& choice);
  void TakeAllThatFit();
  // Starts a pack: with the oldest graph if it is aged or `by_age`, else with the oldest lopsided
  // graph, if there is one. At the end, with a large look-ahead, with the largest graph.
  void TakeSeed(bool by_age);
  // Called for each new pack: whether it is time for a lopsided graph, and there is one.
  bool LopsidedIsDue();
  // Of the pool, in the stream's heaviest component; the oldest of equal ones.
  size_t LargestWaiting() const;
  // Undoes the Take() of retractable_[place].
  void PutBack(size_t place);
  void Close();
  // Closes the gaps that taken graphs have left.
  void Compact();

  // Subtracts the graphs of `choice` from `room`, which must have room for them.
  void Subtract(const Choice& choice, std::vector<int32_t>& room) const;
  // The choice with the highest score above `floor`, or the first choice that leaves little enough
  // room. The first graph of a pair is in one of the first `candidates` slots.
  Choice FindBest(const std::vector<int32_t>& room, size_t candidates, int32_t floor);
  // Exchanges one graph of the open pack; false if no exchange fills it better.
  bool Exchange();
  // Fills the open pack from the pool; true if this completed it.
  bool Finish();
  // One step with the present pool: takes a graph, or completes a pack and returns true.
  bool Step(bool by_age = false);
  bool CompletePending(bool by_age);

  // Renews what the packer has learnt from the stream, and all scores.
  void Learn();

  OnlinePackerOptions options_;
  const PoolScan* scan_;
  std::vector<int32_t> capacity_;  // l + 1 entries, `graphs` last.
  // The waste at which the search ends, as a score.
  double enough_;

  // The pool, a slot for each graph, in order of arrival. All waiting graphs are in [head_, tail_).
  // So are holes: slots with score 0, whose graphs were taken. head_ is a hole only if the pool is
  // empty.
  size_t stride_;
  size_t head_ = 0;
  size_t tail_ = 0;
  size_t num_waiting_ = 0;
  size_t num_lopsided_ = 0;  // Of them.
  std::vector<Waiting> waiting_;
  std::vector<int32_t> columns_;
  std::vector<uint64_t> pool_totals_;  // By component, `graphs` last.

  // The open pack.
  Pack open_;
  std::vector<size_t> retractable_;  // Slots of its last graphs, which are still holes.
  absl::Time open_since_ = absl::InfiniteFuture();  // Arrival of its longest waiting graph.
  bool is_ending_ = false;                          // Within PackPending().
  bool is_directed_ = false;                        // It started with a lopsided graph.
  double lopsided_due_ = 0;                         // From 1 on the next pack starts with one.
  double usual_lopsided_ = -1;                      // Of late, in the pool; -1 before any pack.
  std::vector<int32_t> room_;
  std::vector<int32_t> trial_;  // Room of a pack that is considered.
  std::vector<int32_t> rest_;   // The same, with a choice taken out, and scratch for scans.
  Pack complete_;

  // What was learnt from the stream; by component, `graphs` last.
  uint64_t num_pushed_ = 0;
  uint64_t next_lesson_ = 1;  // Learn() when this many are pushed.
  std::vector<uint64_t> totals_;
  size_t heaviest_ = 0;
  double mean_waste_ = 0;            // Of late, as a share of the heaviest component's capacity.
  std::vector<int32_t> ample_room_;  // From this on a pack is not nearly full.
  std::vector<double> prices_;       // Score of one row.
  std::vector<double> waste_prices_;
  std::vector<double> spare_;  // Rows that stay free in a pack even if the heaviest is full.
  Companions companions_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PACKING_ONLINE_PACKER_H_
