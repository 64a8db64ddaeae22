// Which items of a data set take part in an epoch: those that fit, subsets, weighted samples.
//
// A selection is a list of item numbers; an epoch's plan is made on its histogram (SizeClasses).
// Subsets and what fits are the same in all epochs of a job, so that one plan serves them all; a
// sample is drawn, and planned, for each epoch anew.
#ifndef PACKHOUSE_SERVICE_EPOCHS_SELECTION_H_
#define PACKHOUSE_SERVICE_EPOCHS_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/epochs/epoch_seed.h"
#include "service/epochs/item_sizes.h"
#include "service/epochs/making.h"
#include "service/planning/limits.h"

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

// Each item, or each that `selection` lists, fits or is rejected; lists keep its order, and no more
// than `most_listed` rejections are listed. If there are several limits (one for each rank group),
// an item fits if one of them takes it, and a rejection names the first component that the last of
// them refuses. O(n * l). 4 bytes an item, which the caller has reserved.
//
// Errors: INVALID_ARGUMENT for no limits or limits of another number of components, naming both,
// or a selected item that is not there; CANCELLED.
absl::StatusOr<FittingItems> ItemsThatFit(const ItemSizes& sizes,
                                          std::optional<absl::Span<const uint32_t>> selection,
                                          absl::Span<const Limits> limits,
                                          size_t most_listed = SIZE_MAX, const Making& making = {});

// The items of a subset in ascending order, so that the same set gives the same epochs however it
// is listed. INVALID_ARGUMENT naming an item that is listed twice or is not below num_items.
absl::StatusOr<std::vector<uint32_t>> SubsetOf(size_t num_items, std::vector<uint32_t> items);

// Weights as integers: the largest becomes at least 2^31, and all others follow in proportion,
// rounded down, but a weight above 0 never becomes 0. By multiplication with a power of two, so
// that all machines agree.
//
// Errors: INVALID_ARGUMENT naming a weight that is negative or not finite, or if none is above 0.
absl::StatusOr<std::vector<uint32_t>> IntegerWeights(absl::Span<const double> weights);

// Draws items one after another, each with a probability in proportion to its weight; an item may
// come again. Exact: an alias table (Walker 1977, Vose 1991) of integers. Immutable; thread-safe.
// 12 bytes an item, and 4 more while it is made, which the caller has reserved.
class WeightedSampler {
 public:
  // INVALID_ARGUMENT if no weight is above 0, or for more than ItemSizes::kMaxItems. O(n).
  // CANCELLED.
  static absl::StatusOr<WeightedSampler> Create(absl::Span<const uint32_t> weights,
                                                const Making& making = {});

  // `count` items in the order in which they are drawn; depends on the arguments alone. O(count); 4
  // bytes an item, which the caller has reserved. INVALID_ARGUMENT for a count above
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

  // A column of height total_ for each item: what is below its threshold is the item's own, what
  // is above is its alias's.
  uint64_t total_ = 0;
  std::vector<uint64_t> thresholds_;
  std::vector<uint32_t> aliases_;
};

// The same without replacement: each item that is drawn is taken out, and the next is drawn from
// the rest in proportion to the weights. Exact, in integers; the first of a larger count are those
// of a smaller one. O(n) expected where weights do not differ by orders of magnitude, O(64 * n) at
// worst; kSamplingBytes an item while it runs, and 4 for each that is drawn, which the caller has
// reserved.
//
// Errors: INVALID_ARGUMENT if fewer than `count` weights are above 0, naming both, or for more than
// ItemSizes::kMaxItems; CANCELLED.
inline constexpr uint64_t kSamplingBytes = 29;
absl::StatusOr<std::vector<uint32_t>> SampleWithoutReplacement(absl::Span<const uint32_t> weights,
                                                               uint64_t count,
                                                               const EpochSeed& seed,
                                                               const Making& making = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_SELECTION_H_
