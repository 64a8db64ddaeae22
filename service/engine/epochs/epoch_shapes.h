// Third step of a plan: the shapes that batches may have.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_SHAPES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_SHAPES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// The real rows of a batch of the shape whose packed sizes have these sums (`graphs` last).
std::vector<uint64_t> RealRowsOf(const BatchShape& shape, absl::Span<const uint64_t> packed);
// The bytes of the tensors of a batch with this many real rows; 2^64 - 1 if they are no fewer.
uint64_t BatchBytesOf(const BatchShape& shape, absl::Span<const uint64_t> rows);

// One shape or more for each rank group. None takes all that an earlier one takes, so where one
// takes everything, it is the first; there may be several of which none takes all that another
// takes (algorithms/planning/size_groups.h). Immutable once all rank groups are added, and then
// thread-safe.
class EpochShapes {
 public:
  // Adds a rank group with shapes of these capacities. `schema` must outlive this.
  //
  // INVALID_ARGUMENT as BatchShape::Resolve, or if a shape takes all that an earlier one takes and
  // more, and no shape before takes it; names the shapes and the component.
  absl::Status AddRankGroup(const GraphSchema& schema,
                            const std::vector<std::vector<uint64_t>>& shapes,
                            const BatchShapeOptions& options);

  size_t num_rank_groups() const { return by_rank_group_.size(); }
  // Of all rank groups.
  size_t num_shapes() const;
  absl::Span<const BatchShape> rank_group(size_t number) const { return by_rank_group_[number]; }

  // The number of the last shape that takes this many rows per component (`graphs` last); 0 if none
  // does.
  size_t ShapeFor(size_t rank_group, absl::Span<const uint64_t> rows) const;

  // Why shapes differ from RankGroupRequest::present, or why they stay: a sentence for people;
  // empty unless an adaptive request had such shapes.
  const std::string& why() const { return why_; }
  void SetWhy(std::string why) { why_ = std::move(why); }

  // The limits of packs of packed sizes, by rank group and shape.
  std::vector<std::vector<Limits>> Packed() const;
  // Of all rank groups, the shapes that no earlier shape of theirs takes: what fits a shape fits
  // one of these. In the order of rank groups and shapes.
  std::vector<const BatchShape*> Leading() const;
  // By rank group and shape: AddRankGroup() of these gives the same shapes again.
  std::vector<std::vector<std::vector<uint64_t>>> Capacities() const;

 private:
  std::vector<std::vector<BatchShape>> by_rank_group_;
  std::string why_;
};

// A histogram and its memory.
struct HeldSizes {
  MemoryHold memory;
  SizeHistogram sizes;
};

// The shapes that each rank group names, or those that the tuner finds for its device, as it was
// measured, and `sizes`. If the device is measured and there are shapes of the epoch before, these
// stay, unless the job is `adaptive`, and others cost 2 % less or these no longer fit its memory.
// `sizes`, of all graphs or of the selected ones, is called at most once, and only if something is
// tuned. If there are several rank groups, each has one shape.
//
// Errors as AddRankGroup(), TuneLimits() and `sizes`; RESOURCE_EXHAUSTED and CANCELLED as `making`.
// For a device the tuner's budget (limit_tuner.h).
absl::StatusOr<EpochShapes> ChooseShapes(absl::Span<const RankGroupRequest> rank_groups,
                                         bool adaptive, const GraphSchema& schema,
                                         const BatchShapeOptions& options,
                                         absl::FunctionRef<absl::StatusOr<HeldSizes>()> sizes,
                                         const Making& making);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_SHAPES_H_
