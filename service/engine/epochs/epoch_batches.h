// Which items are in which batch of one epoch, and in what order batches come.
//
// A plan fixes which sizes share a batch; DrawEpoch() draws the items of those sizes. Every epoch
// has another composition, but the same multiset of batch sizes, and thus the same shapes and
// number of steps.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_BATCHES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/plan.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/size_classes.h"

namespace packhouse {

// The version of the rules by which batches are drawn. It is part of an epoch's identity, so that
// another release never goes on with other batches.
inline constexpr absl::string_view kRulesVersion = "v1";
// The same of the rules by which graphs are packed in order (OnlinePacker).
inline constexpr absl::string_view kInOrderVersion = "v3";

// Batches are numbered from 0 in the order in which they come. If an epoch has batches for several
// rank groups (round_plan.h), those of one rank group are consecutive. Immutable; thread-safe. 4
// bytes for each item and 4 for each batch, reserved as long as it lives.
class EpochBatches {
 public:
  size_t num_items() const { return items_.size(); }
  size_t num_batches() const { return starts_.size() - 1; }
  // The memory that it takes.
  uint64_t bytes() const {
    return sizeof(uint32_t) * (items_.capacity() + starts_.capacity()) +
           sizeof(uint64_t) * first_batches_.capacity();
  }

  // The items of a batch, by their numbers in the data set. O(1).
  absl::Span<const uint32_t> batch(size_t number) const {
    return absl::MakeConstSpan(items_).subspan(starts_[number],
                                               starts_[number + 1] - starts_[number]);
  }

  // Number of the first batch of each rank group; the last entry is num_batches().
  const std::vector<uint64_t>& first_batches() const { return first_batches_; }

  // Gives batch `number` the items `batch(number)`, for each number in turn. They must be the same
  // items all together, and must lie elsewhere. O(n).
  void SetItems(absl::FunctionRef<absl::Span<const uint32_t>(size_t)> batch);

 private:
  friend absl::StatusOr<EpochBatches> DrawEpoch(const SizeClasses&,
                                                absl::Span<const std::vector<Pattern>>,
                                                const EpochSeed&,
                                                std::optional<absl::Span<const uint64_t>>,
                                                const Making&);
  friend absl::StatusOr<EpochBatches> PackInOrder(const ItemSizes&,
                                                  std::optional<absl::Span<const uint32_t>>,
                                                  const Limits&, size_t, const Making&);

  EpochBatches() : starts_{0}, first_batches_{0} {}

  MemoryHold memory_;
  std::vector<uint32_t> items_;
  std::vector<uint32_t> starts_;  // In items_, by batch, and their end.
  std::vector<uint64_t> first_batches_;
};

// Checks that each item of `classes` has one place in the patterns, and that no pattern is empty.
//
// INVALID_ARGUMENT naming the size with its places and items; CANCELLED as `making`. O(entries); 8
// bytes for each size, which the caller has reserved.
absl::Status CheckUsesUp(const SizeClasses& classes,
                         absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
                         const Making& making);

// Fills the places of the patterns of each rank group; an ordinary epoch has one rank group, and
// its patterns are those of its plan. Entries number tuples as `classes` does.
//
// Each item of `classes` is in exactly one batch. Every item is equally likely at each place of its
// size, in every rank group. All orders of a rank group's batches are equally likely. Within a
// batch, items are in the order of the pattern's entries. Depends on the arguments alone; another
// seed or epoch gives another composition.
//
// With `group_ids` (by item number), items of a size are not drawn, but ordered by a hash of their
// id and the seed; ties by id, then by item number. Then the composition does not depend on the
// places of the items in the data set.
//
// Errors: INVALID_ARGUMENT, naming the size, unless the patterns use up `classes`;
// RESOURCE_EXHAUSTED and CANCELLED as `making`. Cost: O(n), with group_ids O(n log n); besides the
// result, 4 bytes for each item, 4 for each batch and 24 for each size.
absl::StatusOr<EpochBatches> DrawEpoch(
    const SizeClasses& classes, absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
    const EpochSeed& seed, std::optional<absl::Span<const uint64_t>> group_ids = std::nullopt,
    const Making& making = {});

// Without shuffling: OnlinePacker packs all items, or those that `selection` lists, in this order
// with the given look-ahead, as it packs a stream. Every epoch is the same.
//
// Errors: INVALID_ARGUMENT as OnlinePacker; OUT_OF_RANGE naming an item that exceeds the limits;
// RESOURCE_EXHAUSTED and CANCELLED as `making`.
absl::StatusOr<EpochBatches> PackInOrder(const ItemSizes& sizes,
                                         std::optional<absl::Span<const uint32_t>> selection,
                                         const Limits& limits, size_t look_ahead,
                                         const Making& making = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_BATCHES_H_
