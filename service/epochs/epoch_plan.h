// From a sealed data set and a request to the batches of its epochs.
//
// Flow: EpochPlan::Make() once for all epochs that are asked for in the same words: selects graphs,
// chooses limits, plans. PreparedEpoch::Prepare() once an epoch: draws which graphs fill the plan's
// places. PreparedEpoch::Build() once a batch: reads the graphs and collates them.
#ifndef PACKHOUSE_SERVICE_EPOCHS_EPOCH_PLAN_H_
#define PACKHOUSE_SERVICE_EPOCHS_EPOCH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/admission/memory_budget.h"
#include "service/collation/batch.h"
#include "service/collation/batch_shape.h"
#include "service/datasets/dataset_store.h"
#include "service/epochs/epoch_batches.h"
#include "service/epochs/epoch_identity.h"
#include "service/epochs/epoch_request.h"
#include "service/epochs/group_items.h"
#include "service/epochs/item_sizes.h"
#include "service/epochs/making.h"
#include "service/epochs/size_classes.h"
#include "service/planning/plan.h"

namespace packhouse {

class PlanningRoom;

// A graph, or a group of graphs, that no batch can hold.
struct OversizeItem {
  // Of the graph, or of the group.
  uint64_t id = 0;
  // Component l is `graphs`.
  size_t component = 0;
  uint64_t value = 0;
  uint64_t bound = 0;

  friend bool operator==(const OversizeItem&, const OversizeItem&) = default;
};

// Batches of one shape.
struct ShapeSummary {
  uint64_t num_batches = 0;
  // `graphs` last.
  std::vector<ComponentEfficiency> components;
};

// Immutable; thread-safe. About 4 bytes a graph, 16 more if grouped, besides the reader; they are
// reserved as long as it lives.
class EpochPlan {
 public:
  static constexpr size_t kMaxListedOversize = 100;
  static constexpr size_t kMaxShapes = 8;

  // The request's key and seed count only for a sample, which is drawn for one epoch; else the plan
  // is for all of them.
  //
  // Errors: FAILED_PRECONDITION if the data set is not sealed, or not grouped as the request needs;
  // INVALID_ARGUMENT for options that exclude each other, limits that no batch can have, a subset
  // or weights that are not of this data set, naming the value; OUT_OF_RANGE naming a graph that
  // exceeds the limits, if that is an error; DATA_LOSS if a selected graph's sizes cannot be read.
  // RESOURCE_EXHAUSTED and CANCELLED as `making`: what is allocated is reserved before.
  // O(graphs) and the planner's budget (plan_optimizer.h, limit_tuner.h).
  static absl::StatusOr<std::shared_ptr<const EpochPlan>> Make(
      std::shared_ptr<const DatasetReader> reader, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making = {});

  // What it takes, and so does all that it has been made of, but for the reader.
  uint64_t bytes() const;

  const DatasetInfo& dataset() const { return reader_->info(); }
  const GraphSchema& schema() const { return *reader_->info().schema; }

  size_t num_rank_groups() const { return shapes_.size(); }
  // The largest first.
  absl::Span<const BatchShape> shapes(size_t rank_group) const { return shapes_[rank_group]; }
  // As shapes().
  absl::Span<const ShapeSummary> summaries(size_t rank_group) const {
    return summaries_[rank_group];
  }
  uint64_t num_batches(size_t rank_group) const;

  // In all batches.
  uint64_t num_graphs() const { return num_graphs_; }
  // Graphs left out, and the first of the items that they are.
  uint64_t num_oversize() const { return num_oversize_; }
  const std::vector<OversizeItem>& oversize() const { return oversize_; }
  // No plan has fewer batches; 0 if that is not known.
  uint64_t lower_bound() const { return lower_bound_; }
  // By which the plan can be told from others.
  const std::string& receipt() const { return receipt_; }

 private:
  friend class PreparedEpoch;

  explicit EpochPlan(std::shared_ptr<const DatasetReader> reader) : reader_(std::move(reader)) {}

  absl::Status CheckRequest(const EpochRequest& request) const;
  // The positions of a subset in the data set, ascending.
  absl::StatusOr<std::vector<uint32_t>> Positions(const SubsetRequest& subset,
                                                  const Making& making) const;
  absl::Status CheckReadable(const std::optional<std::vector<uint32_t>>& selection) const;
  // Draws the sample from `items`, or from all graphs.
  absl::StatusOr<std::vector<uint32_t>> Sample(const EpochRequest& request, const DrawRequest& draw,
                                               absl::Span<const uint32_t> fitting,
                                               const std::vector<uint32_t>& weights,
                                               const Making& making) const;
  absl::Status ChooseShapes(const EpochRequest& request, const EpochBounds& bounds,
                            const std::optional<std::vector<uint32_t>>& selection,
                            const Making& making);
  // `held` holds what `items` take.
  absl::Status Select(const EpochRequest& request,
                      const std::optional<std::vector<uint32_t>>& selection, const Making& making,
                      std::vector<uint32_t>& items, MemoryHold& held);
  absl::Status PlanShuffled(const EpochRequest& request, const Making& making);
  // Reserves the patterns that were planned.
  absl::Status KeepPatterns(PlanningRoom& room);
  absl::Status Summarize(const EpochBounds& bounds, bool whole_graphs, const Making& making);
  // Of one batch with these rows, `repeats` times.
  absl::Status Count(size_t rank_group, absl::Span<const uint64_t> rows, uint64_t repeats,
                     const EpochBounds& bounds, bool whole_graphs);
  size_t ShapeOf(size_t rank_group, absl::Span<const uint64_t> rows) const;
  ItemSizes GraphSizes() const;
  // Sizes of what the batches are made of: graphs or groups.
  ItemSizes Items() const { return groups_ ? groups_->sizes() : GraphSizes(); }
  // Adds an item's rows, `graphs` last.
  void AddRows(absl::Span<const uint32_t> tuple, uint64_t copies, absl::Span<uint64_t> rows) const;

  // Of the patterns; the other parts have their own.
  MemoryHold memory_;
  const std::shared_ptr<const DatasetReader> reader_;
  std::vector<std::vector<BatchShape>> shapes_;
  std::vector<std::vector<ShapeSummary>> summaries_;
  std::optional<GroupItems> groups_;
  // Shuffled: what fills the places of which patterns.
  std::optional<SizeClasses> classes_;
  std::vector<std::vector<Pattern>> patterns_by_rank_group_;
  // In order: the same batches every epoch.
  std::shared_ptr<const EpochBatches> in_order_;
  uint64_t num_graphs_ = 0;
  uint64_t num_oversize_ = 0;
  std::vector<OversizeItem> oversize_;
  uint64_t lower_bound_ = 0;
  std::string receipt_;
};

// A batch as it leaves.
struct BuiltBatch {
  Batch batch;
  // Which of the rank group's shapes it has.
  size_t shape = 0;
};

// One epoch of a plan. Immutable; thread-safe. 4 bytes a graph and 4 a batch, besides the plan,
// reserved as long as it lives.
class PreparedEpoch {
 public:
  // `request` as the plan was made for. Same request, same batches. RESOURCE_EXHAUSTED and
  // CANCELLED as `making`. O(graphs).
  static absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(
      std::shared_ptr<const EpochPlan> plan, const EpochRequest& request, const EpochBounds& bounds,
      const Making& making = {});

  // What it takes, and its plan with it.
  uint64_t bytes() const;

  const EpochPlan& plan() const { return *plan_; }
  const EpochIdentity& identity() const { return identity_; }

  // Of batch `number` < identity().num_batches().
  uint64_t NumGraphs(uint64_t number) const;

  // The same bytes each time. DATA_LOSS naming the record that fails its checksum. O(bytes of the
  // batch).
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const;
  // A batch of padding only; without padding, an empty one.
  absl::StatusOr<BuiltBatch> BuildPadding(size_t rank_group) const;

 private:
  PreparedEpoch(std::shared_ptr<const EpochPlan> plan, std::shared_ptr<const EpochBatches> batches,
                EpochIdentity identity, const EpochBounds& bounds, bool whole_graphs)
      : plan_(std::move(plan)),
        batches_(std::move(batches)),
        identity_(std::move(identity)),
        bounds_(bounds),
        whole_graphs_(whole_graphs) {}

  size_t RankGroupOf(uint64_t number) const;
  absl::StatusOr<Batch> CollateGraphs(const BatchShape& shape,
                                      absl::Span<const uint32_t> graphs) const;

  const std::shared_ptr<const EpochPlan> plan_;
  const std::shared_ptr<const EpochBatches> batches_;
  const EpochIdentity identity_;
  const EpochBounds bounds_;
  const bool whole_graphs_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_EPOCH_PLAN_H_
