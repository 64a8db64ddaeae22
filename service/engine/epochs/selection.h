// Which items of a data set take part in an epoch: those that fit, subsets, weighted samples.
//
// A selection is a list of item numbers; an epoch's plan is made on its histogram (SizeClasses).
// Subsets and the items that fit are the same in all epochs of a job, so one plan serves all
// epochs. A sample is drawn and planned anew for each epoch.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SELECTION_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/seeded_random.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// An item that no batch can hold.
struct ItemRejection {
  uint32_t item;
  size_t component;
  uint64_t value;
  uint64_t bound;

  friend bool operator==(const ItemRejection&, const ItemRejection&) = default;
};

struct FittingItems {
  std::vector<uint32_t> items;
  uint64_t num_rejected = 0;
  // The first of them.
  std::vector<ItemRejection> rejected;
};

// Each item, or each item in `selection`, fits or is rejected. Lists keep the order, and at most
// `most_listed` rejections are listed. If there are several limits (one for each rank group), an
// item fits if it fits one of them. A rejection names the first component in which the item exceeds
// the last limits. O(n * l). 4 bytes for each item, which the caller has reserved.
//
// Errors: INVALID_ARGUMENT for no limits or limits of another number of components, naming both, or
// a selected item that does not exist; CANCELLED.
absl::StatusOr<FittingItems> ItemsThatFit(const ItemSizes& sizes,
                                          std::optional<absl::Span<const uint32_t>> selection,
                                          absl::Span<const Limits> limits,
                                          size_t most_listed = SIZE_MAX, const Making& making = {});

// The items of a subset in ascending order, so that the same set gives the same epochs in whatever
// order it is listed. INVALID_ARGUMENT naming an item that is listed twice or is not below
// num_items.
absl::StatusOr<std::vector<uint32_t>> SubsetOf(size_t num_items, std::vector<uint32_t> items);

// Turns weights into integers. The largest becomes at least 2^31, and the others follow in
// proportion, rounded down, except that a weight above 0 never becomes 0. The factor is a power of
// two, so that all machines agree.
//
// Errors: INVALID_ARGUMENT naming a weight that is negative or not finite, or if none is above 0.
absl::StatusOr<std::vector<uint32_t>> IntegerWeights(absl::Span<const double> weights);

// Draws items one after another, each with a probability in proportion to its weight; an item may
// be drawn again. Exact: an alias table (Walker 1977, Vose 1991) of integers. Immutable;
// thread-safe. 12 bytes for each item, and 4 more while it is made, which the caller has reserved.
class WeightedSampler {
 public:
  // INVALID_ARGUMENT if no weight is above 0, or for more than ItemSizes::kMaxItems. O(n).
  // CANCELLED.
  static absl::StatusOr<WeightedSampler> Create(absl::Span<const uint32_t> weights,
                                                const Making& making = {});

  // `count` items in the order of drawing; depends on the arguments alone. O(count); 4 bytes for
  // each item, which the caller has reserved. INVALID_ARGUMENT for a count above
  // ItemSizes::kMaxItems; CANCELLED.
  absl::StatusOr<std::vector<uint32_t>> Draw(uint64_t count, const EpochSeed& seed,
                                             const Making& making = {}) const;

  // One item. O(1).
  uint32_t DrawOne(SeededRandom& random) const {
    const auto column = static_cast<uint32_t>(random.Below(aliases_.size()));
    return random.Below(total_) < thresholds_[column] ? column : aliases_[column];
  }
  // The sum of the weights.
  uint64_t total() const { return total_; }

 private:
  WeightedSampler() = default;

  // Each item has a column of height total_: the part below its threshold is its own, the part
  // above is its alias's.
  uint64_t total_ = 0;
  std::vector<uint64_t> thresholds_;
  std::vector<uint32_t> aliases_;
};

// The same without replacement: each drawn item is taken out, and the next is drawn from the rest
// in proportion to the weights. Exact, in integers. A larger count begins with the items of a
// smaller one. O(n) expected if weights do not differ by orders of magnitude, at worst O(64 * n).
// kSamplingBytes for each item while it runs, and 4 for each drawn item, which the caller has
// reserved.
//
// Errors: INVALID_ARGUMENT if fewer than `count` weights are above 0, naming both, or for more than
// ItemSizes::kMaxItems; CANCELLED.
inline constexpr uint64_t kSamplingBytes = 29;
absl::StatusOr<std::vector<uint32_t>> SampleWithoutReplacement(absl::Span<const uint32_t> weights,
                                                               uint64_t count,
                                                               const EpochSeed& seed,
                                                               const Making& making = {});

// `count` of the items that have these weights, in one of both ways; nullopt: as many as there are
// with replacement, and without all that have a weight above 0. Errors and cost as they have.
absl::StatusOr<std::vector<uint32_t>> DrawPlaces(absl::Span<const uint32_t> weights,
                                                 std::optional<uint64_t> count,
                                                 bool with_replacement, const EpochSeed& seed,
                                                 const Making& making);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SELECTION_H_
