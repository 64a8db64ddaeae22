// How the batches of an epoch are dealt to its workers.
//
// There are two ways. Ranked: each rank has its own batches; rank r of n gets steps r, r + n, and
// so on. All ranks have the same number of steps, so that no all-reduce waits for a rank that has
// finished. Dynamic: first come, first served, for workers of unequal speed. If ranks declare
// different rank groups (round_plan.h), each rank gets batches of its rank group.
//
// When an epoch goes on from a cursor, the batches that are left are dealt anew, to any number of
// ranks.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_DEALING_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_DEALING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/batch_set.h"

namespace packhouse {

// What happens if the last batches are too few for one more step of all ranks.
enum class LastSteps : uint8_t {
  // Ranks without a batch get batches of padding only, numbered from num_batches on.
  kPadded = 0,
  // The last batches are given to nobody: Dealing::dropped(). They are still left if the epoch is
  // dealt anew.
  kDropped = 1,
};

struct Sharing {
  static constexpr size_t kMaxRanks = 65536;

  // The number of each rank's rank group; empty: dynamic.
  std::vector<uint32_t> rank_group_of_rank;
  // For ranks only.
  LastSteps last_steps = LastSteps::kPadded;

  static Sharing Dynamic() { return {}; }
  // `num_ranks` of rank group 0.
  static Sharing Ranked(size_t num_ranks, LastSteps last_steps = LastSteps::kPadded) {
    return {std::vector<uint32_t>(num_ranks, 0), last_steps};
  }
  bool ranked() const { return !rank_group_of_rank.empty(); }

  friend bool operator==(const Sharing&, const Sharing&) = default;
};

// The place of a batch. Ranked: queue is the rank, position its step. Dynamic: queue is the rank
// group, position the place in its order.
struct Place {
  uint32_t queue = 0;
  uint64_t position = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

// Immutable, except for Grow(); thread-safe. 4 bytes for each batch that is left.
class Dealing {
 public:
  // Deals the batches that are not in `done`. `first_batches` as EpochBatches::first_batches().
  //
  // INVALID_ARGUMENT for batches that are not ascending or reach 2^32, for more than
  // Sharing::kMaxRanks, or for a rank of a missing rank group; FAILED_PRECONDITION if batches of a
  // rank group are left and no rank has that group. O(batches).
  static absl::StatusOr<Dealing> Create(absl::Span<const uint64_t> first_batches,
                                        const BatchSet& done, Sharing sharing);

  // The same for batches that become known one after the other: of each rank group at most as many
  // as `first_batches` leaves room for; none is known. Ranks get whole steps as far as batches are
  // known. FAILED_PRECONDITION also if no rank has a rank group.
  static absl::StatusOr<Dealing> CreateGrowing(absl::Span<const uint64_t> first_batches,
                                               const BatchSet& done, Sharing sharing);
  // Only if it is growing: the first `num_batches`, by rank group, are known, at least as many as
  // before; `is_all`: there are no others. The places of batches that were dealt stay as they are.
  // O(new batches).
  void Grow(absl::Span<const uint64_t> num_batches, bool is_all);
  // Whether all batches are known.
  bool is_complete() const { return !is_growing_; }
  // Whether there is the batch, as far as is known.
  bool Knows(uint64_t batch) const;
  // Of a batch that is not padding. O(log rank groups).
  size_t RankGroupOf(uint64_t batch) const;
  // As EpochBatches::first_batches().
  absl::Span<const uint64_t> first_batches() const { return first_batches_; }

  // The length of a queue in what Create() would deal, if no batches of rank groups without ranks
  // are left. `num_batches`: of each rank group there are the first so many; empty: all.
  // INVALID_ARGUMENT as Create(), or for a queue that is not there. O(runs and ranks).
  static absl::StatusOr<uint64_t> QueueLength(absl::Span<const uint64_t> first_batches,
                                              const BatchSet& done, const Sharing& sharing,
                                              size_t queue,
                                              absl::Span<const uint64_t> num_batches = {});

  // At most the bytes of what Create() makes.
  static uint64_t MostBytes(uint64_t num_batches, size_t num_rank_groups, const Sharing& sharing);

  // Holds `memory` as long as this dealing, or a copy of it, lives.
  void Keep(MemoryHold memory) { memory_ = std::make_shared<const MemoryHold>(std::move(memory)); }

  const Sharing& sharing() const { return sharing_; }
  // Batches of the epoch, without padding; if it was made by CreateGrowing(), at most so many.
  uint64_t num_batches() const { return num_batches_; }
  // Ranks, or rank groups.
  size_t num_queues() const { return queue_lengths_.size(); }
  // Ranked: all queues have the same length.
  uint64_t queue_length(size_t queue) const { return queue_lengths_[queue]; }
  // Places of all queues together: batches that are dealt, and padding.
  uint64_t num_places() const;

  // `place` must be within its queue. O(1).
  uint64_t BatchAt(const Place& place) const;
  // nullopt for a batch that is not dealt: it does not exist, was done before, or is dropped. O(log
  // batches).
  std::optional<Place> PlaceOf(uint64_t batch) const;
  bool IsPadding(uint64_t batch) const { return batch >= num_batches_; }

  // Batches that are left, but given to nobody. Ascending.
  const std::vector<uint64_t>& dropped() const { return dropped_; }

  // The batches, without padding, of the first `steps` steps of all ranks; of all steps if there
  // are fewer. Ranked only. O(batches).
  BatchSet BatchesOfSteps(uint64_t steps) const;

 private:
  struct RankGroup {
    std::vector<uint32_t> left;   // Batches.
    std::vector<uint32_t> ranks;  // Ranks that have this rank group.
    uint64_t num_known = 0;
    uint64_t num_dealt = 0;  // Of `left`.
    uint64_t num_padding = 0;
    uint64_t first_padding = 0;
  };

  Dealing() = default;

  void DealToRanks();

  Sharing sharing_;
  uint64_t num_batches_ = 0;
  bool is_growing_ = false;
  BatchSet done_;  // Of a growing one.
  std::vector<RankGroup> rank_groups_;
  std::vector<uint64_t> first_batches_;
  std::vector<uint64_t> queue_lengths_;
  std::vector<uint32_t> rank_in_group_;  // By rank: how many of its rank group are before it.
  std::vector<uint64_t> dropped_;
  std::shared_ptr<const MemoryHold> memory_;  // Null: nothing is counted.
};

// A rank's share of a step's graphs, for weighting its loss: graphs_of_rank / graphs_of_step.
struct StepShare {
  uint64_t graphs_of_rank = 0;
  uint64_t graphs_of_step = 0;

  friend bool operator==(const StepShare&, const StepShare&) = default;
};

// The shares of all ranks in one step. `graphs_in_batch` gives the number of graphs of a batch that
// is not padding. Ranked only.
template <typename GraphsInBatch>
std::vector<StepShare> SharesOfStep(const Dealing& dealing, uint64_t step,
                                    const GraphsInBatch& graphs_in_batch) {
  std::vector<StepShare> shares(dealing.num_queues());
  uint64_t sum = 0;
  for (uint32_t rank = 0; rank < shares.size(); ++rank) {
    const uint64_t batch = dealing.BatchAt({rank, step});
    if (!dealing.IsPadding(batch)) shares[rank].graphs_of_rank = graphs_in_batch(batch);
    sum += shares[rank].graphs_of_rank;
  }
  for (StepShare& share : shares) share.graphs_of_step = sum;
  return shares;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_DEALING_H_
