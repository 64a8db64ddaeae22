// From a sealed data set and a request to the plan of its epochs.
//
// EpochPlan::Make() goes step by step, each in a file of its own: request_check.h (can it be),
// graph_selection.h (which graphs), epoch_shapes.h (batches of which shapes), epoch_items.h (which
// of the graphs fit them, in which groups, or drawn), pattern_planning.h (which sizes go together)
// or, in order, epoch_batches.h, and shape_summary.h (how full batches are). A plan serves all
// epochs that are asked for in the same words; prepared_epoch.h makes one of them.
#ifndef PACKHOUSE_SERVICE_EPOCHS_EPOCH_PLAN_H_
#define PACKHOUSE_SERVICE_EPOCHS_EPOCH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/admission/memory_budget.h"
#include "service/collation/batch_shape.h"
#include "service/datasets/dataset_store.h"
#include "service/epochs/epoch_batches.h"
#include "service/epochs/epoch_items.h"
#include "service/epochs/epoch_request.h"
#include "service/epochs/epoch_seed.h"
#include "service/epochs/epoch_shapes.h"
#include "service/epochs/group_items.h"
#include "service/epochs/item_sizes.h"
#include "service/epochs/making.h"
#include "service/epochs/planner_result.h"
#include "service/epochs/shape_summary.h"
#include "service/epochs/size_classes.h"

namespace packhouse {

// Immutable; thread-safe. About 4 bytes a graph, 16 more if grouped, besides the reader; they are
// reserved as long as it lives.
class EpochPlan {
 public:
  // The request's key and seed count only for a sample, which is drawn for one epoch; else the plan
  // is for all of them.
  //
  // Errors: FAILED_PRECONDITION if the data set is not sealed, or not grouped as the request needs;
  // INVALID_ARGUMENT for options that exclude each other, limits that no batch can have, a subset
  // or weights that are not of this data set, naming the value; OUT_OF_RANGE naming a graph that
  // exceeds the limits, if that is an error; DATA_LOSS if a selected graph's sizes cannot be read.
  // RESOURCE_EXHAUSTED and CANCELLED as `making`: what is allocated is reserved before.
  // O(graphs) and the planner's budget (plan_optimizer.h, limit_tuner.h).
  //
  // `given`, unless null, is what a planner found for the same data set and request, maybe that of
  // another release: the plan is made of it, without planning, in O(graphs + patterns). Its memory
  // is reserved by who gives it. DATA_LOSS if it is not a plan for these graphs within its shapes.
  static absl::StatusOr<std::shared_ptr<const EpochPlan>> Make(
      std::shared_ptr<const DatasetReader> reader, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making = {},
      std::shared_ptr<const PlannerResult> given = nullptr);

  // What it takes, and so does all that it has been made of, but for the reader.
  uint64_t bytes() const;

  const DatasetReader& reader() const { return *reader_; }
  const DatasetInfo& dataset() const { return reader_->info(); }
  const GraphSchema& schema() const { return *reader_->info().schema; }

  size_t num_rank_groups() const { return shapes_.num_rank_groups(); }
  // The largest first.
  absl::Span<const BatchShape> shapes(size_t rank_group) const {
    return shapes_.rank_group(rank_group);
  }
  // As shapes().
  absl::Span<const ShapeSummary> summaries(size_t rank_group) const {
    return figures_.shapes[rank_group];
  }
  uint64_t num_batches(size_t rank_group) const;
  // As EpochShapes.
  size_t ShapeFor(size_t rank_group, absl::Span<const uint64_t> rows) const {
    return shapes_.ShapeFor(rank_group, rows);
  }

  // In all batches.
  uint64_t num_graphs() const { return figures_.num_graphs; }
  // Graphs left out, and the first of the items that they are.
  uint64_t num_oversize() const { return oversize_.num_graphs; }
  const std::vector<OversizeItem>& oversize() const { return oversize_.items; }
  // No plan has fewer batches; 0 if that is not known.
  uint64_t lower_bound() const { return planned_->lower_bound; }
  // By which the plan can be told from others.
  const std::string& receipt() const { return planned_->receipt; }
  // To make the same plan again (Make()). Never null.
  const std::shared_ptr<const PlannerResult>& planned() const { return planned_; }

  // What batches are made of: graphs, or groups of them.
  ItemSizes items() const { return groups_ ? groups_->sizes() : SizesOfGraphs(*reader_); }
  // If batches are made of groups.
  const std::optional<GroupItems>& groups() const { return groups_; }
  // The batches of one epoch, by the numbers of items(). Errors and cost as DrawEpoch(); in order
  // they are there already, and the same for all epochs.
  absl::StatusOr<std::shared_ptr<const EpochBatches>> BatchesOf(const EpochSeed& seed,
                                                                const Making& making) const;

 private:
  EpochPlan(std::shared_ptr<const DatasetReader> reader, EpochShapes shapes)
      : reader_(std::move(reader)), shapes_(std::move(shapes)) {}

  absl::Status PackItems(absl::Span<const uint32_t> graphs, size_t look_ahead,
                         const Making& making);
  absl::Status PlanItems(EpochItems taken, const EpochRequest& request,
                         std::optional<uint64_t> steps, const Making& making);
  // What planners found, without patterns.
  PlannerResult Resolved() const;
  // Of batches with tensors, `max_batch_bytes`.
  absl::Status Summarize(std::optional<uint64_t> max_batch_bytes, const Making& making);

  const std::shared_ptr<const DatasetReader> reader_;
  const EpochShapes shapes_;
  // Null until there is one.
  std::shared_ptr<const PlannerResult> planned_;
  uint64_t planned_bytes_ = 0;
  // Of what was planned here; the other parts have their own.
  MemoryHold memory_;
  std::optional<GroupItems> groups_;
  // Shuffled: what fills the places of which patterns.
  std::optional<SizeClasses> classes_;
  // In order: the same batches every epoch.
  std::shared_ptr<const EpochBatches> in_order_;
  Oversize oversize_;
  EpochFigures figures_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_EPOCH_PLAN_H_
