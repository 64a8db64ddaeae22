// From a sealed data set and a request to the plan of its epochs.
//
// EpochPlan::Make() goes step by step, each in a file of its own: request_check.h (can it be),
// graph_selection.h (which graphs), epoch_shapes.h (batches of which shapes), epoch_items.h (which
// of the graphs fit them, in which groups, or drawn), pattern_planning.h (which sizes go together)
// or, in order, epoch_batches.h, and shape_summary.h (how full batches are). A plan serves all
// epochs that are asked for in the same words; prepared_epoch.h makes one of them.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_PLAN_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_items.h"
#include "service/engine/epochs/epoch_pieces.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/fresh_batches.h"
#include "service/engine/epochs/graph_selection.h"
#include "service/engine/epochs/group_items.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/pattern_planning.h"
#include "service/engine/epochs/planner_result.h"
#include "service/engine/epochs/score_order.h"
#include "service/engine/epochs/shape_summary.h"
#include "service/engine/epochs/shared_cache.h"
#include "service/engine/epochs/size_classes.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// One epoch of a plan, whichever jobs load it. Immutable; thread-safe.
struct DrawnEpoch {
  // As numbers of EpochPlan::items().
  std::shared_ptr<const EpochBatches> batches;
  // Of its batches: as EpochPlan::summaries(), unless items were exchanged between batches.
  EpochFigures figures;
  // nullopt unless batches come in steps of like cost.
  std::optional<StepFigures> steps;
  // The rows of the graphs of each data set of a mixture, by data set and component, `graphs` last.
  // Empty for others.
  std::vector<std::vector<uint64_t>> rows_by_dataset;
};

// Immutable; thread-safe. About 4 bytes a graph, 16 more if grouped, besides the reader; they are
// reserved as long as it lives.
class EpochPlan {
 public:
  // The request's key and seed count only if it draws a sample: such a plan is for one epoch. Other
  // plans serve every key and seed.
  //
  // Errors: FAILED_PRECONDITION if the data set is not sealed, or not grouped as the request needs;
  // INVALID_ARGUMENT for options that exclude each other, limits that no batch can have, a subset
  // or weights that are not of this data set, naming the value; OUT_OF_RANGE naming a graph that
  // exceeds the limits, if that is an error; DATA_LOSS if a selected graph's sizes cannot be read.
  // RESOURCE_EXHAUSTED and CANCELLED as `making`: what is allocated is reserved before.
  // O(graphs) and the planner's budget (plan_optimizer.h, limit_tuner.h).
  //
  // `given`, unless null, is what a planner found for the same data set and request, possibly a
  // planner of another release. The plan is then made of it without planning, in O(graphs +
  // patterns). The caller has reserved its memory. DATA_LOSS if it is not a plan for these graphs
  // within its shapes.
  //
  // `ends`: where the graphs of each data set of a mixture end; empty for others.
  static absl::StatusOr<std::shared_ptr<const EpochPlan>> Make(
      std::shared_ptr<const DatasetReader> reader, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making = {},
      std::shared_ptr<const PlannerResult> given = nullptr, std::vector<uint64_t> ends = {});

  // The bytes of the plan and of everything that it was made from, without the reader.
  uint64_t bytes() const;

  const DatasetReader& reader() const { return *reader_; }
  const DatasetInfo& dataset() const { return reader_->info(); }
  // Of the batches' graphs.
  const GraphSchema& schema() const {
    return piece_schema_ != nullptr ? piece_schema_->with_pieces() : *reader_->info().schema;
  }

  size_t num_rank_groups() const { return shapes_.num_rank_groups(); }
  // As EpochShapes: none takes all that an earlier one takes.
  absl::Span<const BatchShape> shapes(size_t rank_group) const {
    return shapes_.rank_group(rank_group);
  }
  // As EpochShapes::why().
  const std::string& why_shapes() const { return shapes_.why(); }
  // As shapes().
  absl::Span<const ShapeSummary> summaries(size_t rank_group) const {
    return figures_.shapes[rank_group];
  }
  const EpochFigures& figures() const { return figures_; }
  uint64_t num_batches(size_t rank_group) const;
  // As EpochShapes.
  size_t ShapeFor(size_t rank_group, absl::Span<const uint64_t> rows) const {
    return shapes_.ShapeFor(rank_group, rows);
  }

  // Graphs in all batches.
  uint64_t num_graphs() const { return figures_.num_graphs; }
  // Graphs that are left out, and the first of their items.
  uint64_t num_oversize() const { return oversize_.num_graphs; }
  const std::vector<OversizeItem>& oversize() const { return oversize_.items; }
  // num_oversize() by data set of a mixture; empty for others.
  absl::Span<const uint64_t> oversize_by_dataset() const { return oversize_.by_dataset; }
  // Graphs that are cut into pieces, and these, which num_graphs() counts.
  uint64_t num_cut_graphs() const { return pieces_ != nullptr ? pieces_->num_cut_graphs() : 0; }
  uint64_t num_pieces() const { return pieces_ != nullptr ? pieces_->num_pieces() : 0; }
  // No plan has fewer batches; 0 if that is not known.
  uint64_t lower_bound() const { return planned_->lower_bound; }
  // Identifies the plan.
  const std::string& receipt() const { return planned_->receipt; }
  // For making the same plan again (Make()). Never null.
  const std::shared_ptr<const PlannerResult>& planned() const { return planned_; }

  // The items of the batches: graphs, or groups of graphs. Their sizes are packed sizes
  // (min_rows.h).
  ItemSizes items() const;
  // Set if batches are made of groups.
  const std::optional<GroupItems>& groups() const { return groups_; }
  // Set if graphs that exceed the limits are cut; otherwise null.
  const EpochPieces* pieces() const { return pieces_.get(); }
  // One epoch. Errors and cost as DrawFreshEpoch(), or as DrawEpoch() for an epoch that is not
  // mixed, and as CostOrder::Order() and ScoreOrder::Order() where it is ordered so. Who asks for
  // an epoch that somebody still has is given it at once; who asks while another makes it waits,
  // and has that one hurry. In order, batches are the same for all epochs.
  absl::StatusOr<std::shared_ptr<const DrawnEpoch>> Drawn(const EpochSeed& seed,
                                                          const Making& making) const;
  // Its batches.
  absl::StatusOr<std::shared_ptr<const EpochBatches>> BatchesOf(const EpochSeed& seed,
                                                                const Making& making) const;
  // Of these batches of an epoch beside the epoch before, or epoch 1 beside epoch 0. Draws that
  // one unless somebody still has it. Measured once, and by one caller at a time, as long as it is
  // among the last. nullopt for a plan that draws its graphs, which is for one epoch; and without
  // memory for it, since it is a figure for people. CANCELLED as `making`.
  absl::StatusOr<std::optional<Company>> CompanyAt(const EpochSeed& seed,
                                                   const EpochBatches& batches,
                                                   const Making& making) const;
  // The same if it has been measured.
  std::optional<Company> KnownCompanyAt(const EpochSeed& seed) const;

 private:
  EpochPlan(std::shared_ptr<const DatasetReader> reader,
            std::shared_ptr<const PieceSchema> piece_schema, EpochShapes shapes)
      : reader_(std::move(reader)),
        piece_schema_(std::move(piece_schema)),
        shapes_(std::move(shapes)) {}

  // Makes the packed sizes if there are minimums.
  absl::Status PackSizes(const MinRows& min_rows, const Making& making);
  absl::Status PackItems(absl::Span<const uint32_t> graphs, size_t look_ahead,
                         const Making& making);
  // Reads the scores of the items.
  absl::Status ScoreItems(const ByScoreRequest& request, absl::Span<const uint32_t> items,
                          const Making& making);
  absl::Status PlanItems(EpochItems taken, const EpochRequest& request,
                         std::optional<uint64_t> steps, const Making& making);
  // The planners' result, without patterns.
  PlannerResult Resolved() const;
  absl::Status Summarize(const Making& making);
  // Of the planned items, by rank group and shape.
  ShapeLimits LimitsOfItems() const;
  // Adds up what an item's graphs have, as CostOrder::AddItem. `graphs` are the sizes of all graphs
  // and pieces.
  void AddItem(const ItemSizes& graphs, uint32_t item, absl::Span<uint64_t> rows,
               absl::Span<uint64_t> squares) const;
  // The sizes of all graphs and pieces, without minimums.
  ItemSizes Graphs() const;
  // What `make` gives, or what another caller has made of the same or is making.
  template <typename Value>
  absl::StatusOr<std::shared_ptr<const Value>> MadeOnce(
      SharedCache<Value>& cache, const std::string& key, const Making& making,
      absl::FunctionRef<absl::StatusOr<std::shared_ptr<const Value>>()> make) const;
  absl::StatusOr<DrawnEpoch> Draw(const EpochSeed& seed, const Making& making) const;
  absl::StatusOr<EpochBatches> DrawBatches(const EpochSeed& seed, const Making& making) const;
  // Of a mixture: the data set that has the item.
  size_t DatasetOf(uint32_t item) const;
  // `taken`: the items of `selection` that fit, ascending.
  absl::Status CountOversizeByDataset(const GraphSelection& selection,
                                      absl::Span<const uint32_t> taken, const Making& making);
  std::vector<std::vector<uint64_t>> RowsByDataset(const EpochBatches& batches) const;

  // That are kept. Small.
  static constexpr uint64_t kMostCompanies = 16;

  const std::shared_ptr<const DatasetReader> reader_;
  // Null unless graphs are cut.
  const std::shared_ptr<const PieceSchema> piece_schema_;
  const EpochShapes shapes_;
  // Null until the plan is made.
  std::shared_ptr<const PlannerResult> planned_;
  uint64_t planned_bytes_ = 0;
  // Holds the memory of the patterns that were planned here; other parts have their own holds.
  MemoryHold memory_;
  std::optional<GroupItems> groups_;
  std::shared_ptr<const EpochPieces> pieces_;
  // With minimums: the packed sizes of all graphs, row-major; their memory.
  std::vector<uint32_t> packed_sizes_;
  MemoryHold packed_memory_;
  // Shuffled: the items that fill the places of the patterns.
  std::optional<SizeClasses> classes_;
  // In order: the batches, the same in every epoch.
  std::shared_ptr<const EpochBatches> in_order_;
  Oversize oversize_;
  std::vector<uint64_t> ends_;
  EpochFigures figures_;
  // Of batches with tensors.
  std::optional<uint64_t> max_batch_bytes_;
  // Unset: epochs are as they are drawn.
  std::optional<FreshBatchesOptions> mixing_;
  // Both unset: all orders of the batches are equally likely.
  std::optional<CostOrder> cost_order_;
  std::optional<ScoreOrder> score_order_;
  // Graphs are drawn by weights: the plan is for one epoch.
  bool is_of_one_epoch_ = false;

  // Epochs that somebody has, by their seeds.
  mutable SharedCache<DrawnEpoch> drawn_{0, [](const DrawnEpoch&) { return 1; }};
  mutable SharedCache<Company> companies_{kMostCompanies, [](const Company&) { return 1; }};
  mutable absl::Mutex mutex_;
  // Of epochs that are being made in the background, by their seeds.
  mutable std::map<std::string, const std::function<void()>*> hurries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_PLAN_H_
