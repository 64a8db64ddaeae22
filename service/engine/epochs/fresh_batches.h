// Batches whose company is new in each epoch.
//
// A plan fixes which sizes share a batch. Where most sizes are distinct, that fixes which items do,
// too: the same graphs meet in every epoch, and only the order of the batches is new. Here the
// items of two batches at a time are dealt anew (pair_dealing.h), over and over, until items meet
// as seldom as in a shuffle. There is not one batch more, and each keeps its shape. mixing.h says
// which epochs are drawn so.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_FRESH_BATCHES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_FRESH_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/plan.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/pattern_planning.h"
#include "service/engine/epochs/size_classes.h"

namespace packhouse {

// How often two items that share a batch of one epoch share one of another epoch, too.
struct Company {
  // Of the pairs of items of a batch, the share that is together again; 0 without pairs.
  double chance = 0;
  // What a shuffle into batches of as many items would come to.
  double of_shuffle = 0;

  // 1: as fresh as a shuffle. 0 without pairs.
  double Ratio() const { return of_shuffle > 0 ? chance / of_shuffle : 0; }
};

// Of `one` beside `other`, an epoch of the same items. O(items); 4 bytes for each item number up to
// the largest and for each batch. Not symmetric, unless both have batches of the same numbers of
// items. RESOURCE_EXHAUSTED and CANCELLED as `making`.
absl::StatusOr<Company> MeasureCompany(const EpochBatches& one, const EpochBatches& other,
                                       const Making& making);
// The same without a bound of memory, until the end.
Company CompanyOf(const EpochBatches& one, const EpochBatches& other);

struct FreshBatchesOptions {
  // Exchanges go on until the company of two epochs is about so many times that of a shuffle. At
  // least 1.
  double most_company = 1.1;
  // An item is dealt at most so often in the mean, counting attempts that come to nothing; 0:
  // never.
  uint32_t most_deals = 40;
  // Whether a batch of a rank group's shape may have these sums of packed sizes (`graphs` last),
  // which keep its limits; empty: it may. For a bound that is no limit: of bytes. All batches of
  // the patterns keep it.
  std::function<bool(size_t rank_group, size_t shape, absl::Span<const uint64_t> packed)> takes =
      nullptr;
};

// As DrawEpoch(), and then exchanges. `limits` are those of the plan, by rank group and shape, the
// largest shape first; batch numbers keep their shapes. A batch has a shape if it keeps its limits,
// and those of no later shape of its rank group.
//
// A plan whose draws are as fresh as a shuffle is left as DrawEpoch() draws it. Items of equal size
// are equally likely in each place, and thus equally likely to meet. Depends on the arguments
// alone. In hard cases, batches that are full in several components at once, more company may be
// left than `most_company`.
//
// Errors as DrawEpoch(). Besides the result, 16 bytes for each item and 24 for each batch. About
// 0.03 to 0.3 microseconds for each item and round of exchanges; five to ten rounds.
absl::StatusOr<EpochBatches> DrawFreshEpoch(
    const SizeClasses& classes, absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
    const ItemSizes& sizes, const ShapeLimits& limits, const EpochSeed& seed,
    std::optional<absl::Span<const uint64_t>> group_ids = std::nullopt, const Making& making = {},
    const FreshBatchesOptions& options = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_FRESH_BATCHES_H_
