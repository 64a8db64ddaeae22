// One epoch of a plan, and its batches.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PREPARED_EPOCH_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PREPARED_EPOCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/fresh_batches.h"
#include "service/engine/epochs/gathered_rows.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/shape_summary.h"

namespace packhouse {

// EpochIdentity::options of an epoch with this request and a plan with this receipt.
std::string EpochOptions(const EpochRequest& request, absl::string_view receipt);

// Of an epoch of a plan, which was made for `request`. Errors as CheckBatchCounts().
template <typename Plan>
absl::StatusOr<EpochIdentity> IdentityOf(const EpochRequest& request, const Plan& plan) {
  EpochIdentity identity = {
      request.key, plan.dataset().name, plan.dataset().version, request.seed, {}, {}, 0};
  const bool is_for_ranks = plan.num_rank_groups() > 1 || request.cost_balanced;
  for (size_t i = 0; i < plan.num_rank_groups(); ++i) {
    identity.rank_groups.push_back({plan.shapes(i)[0].capacities,
                                    is_for_ranks ? request.rank_groups[i].num_ranks : 0,
                                    plan.num_batches(i)});
  }
  identity.options = EpochOptions(request, plan.receipt());
  PH_RETURN_IF_ERROR(CheckBatchCounts(identity));
  return identity;
}

// Prepare() is called once for each epoch, and draws the graphs that fill the plan's places.
// Build() is called for each batch; it reads the graphs and collates them. Immutable; thread-safe.
// Besides the plan, 4 bytes for each graph and 4 for each batch, reserved as long as it lives;
// epochs of several jobs share them.
class PreparedEpoch final : public LoadableEpoch {
 public:
  // The plan must have been made for `request`. Same request, same batches. RESOURCE_EXHAUSTED and
  // CANCELLED as `making`. As EpochPlan::BatchesOf().
  //
  // `gathered`, unless null, is for the plan's reader. Batches are then made from its copy, which
  // the first of them has made; until it is there, they are made without it.
  static absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(
      std::shared_ptr<const EpochPlan> plan, const EpochRequest& request, const EpochBounds& bounds,
      const Making& making = {}, std::shared_ptr<GatheredRows> gathered = nullptr);

  // Its bytes, with those of its plan.
  uint64_t bytes() const;

  const EpochPlan& plan() const { return *plan_; }
  const EpochIdentity& identity() const override { return identity_; }
  const PreparedEpoch* prepared() const override { return this; }
  uint64_t num_graphs() const override { return plan_->num_graphs(); }
  std::shared_ptr<const PlannerResult> planned() const override { return plan_->planned(); }
  std::string why_shapes() const override { return plan_->why_shapes(); }
  const GraphSchema& schema() const override { return plan_->schema(); }
  absl::Span<const BatchShape> shapes(size_t rank_group) const override {
    return plan_->shapes(rank_group);
  }

  // As EpochPlan::summaries(), of the batches of this epoch.
  absl::Span<const ShapeSummary> summaries(size_t rank_group) const {
    return drawn_->figures.shapes[rank_group];
  }
  // EpochPlan::CompanyAt() of this epoch.
  absl::StatusOr<std::optional<Company>> MeasureCompany(const Making& making) const override {
    return plan_->CompanyAt(seed(), *drawn_->batches, making);
  }
  std::optional<Company> known_company() const override { return plan_->KnownCompanyAt(seed()); }
  std::optional<StepFigures> steps() const override { return drawn_->steps; }
  // As DrawnEpoch.
  const std::vector<std::vector<uint64_t>>& rows_by_dataset() const {
    return drawn_->rows_by_dataset;
  }

  // For batch `number` < identity().num_batches().
  uint64_t NumGraphs(uint64_t number) const override;
  // The same graphs, in their order, by their places in the data set; not if graphs are cut.
  // O(graphs of the batch).
  absl::StatusOr<GraphsOfBatch> GraphsOf(uint64_t number) const override;

  // Builds a batch, with the same bytes each time. DATA_LOSS naming the record that fails its
  // checksum. O(bytes of the batch).
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const override;
  // A batch of padding only; without padding, an empty one.
  absl::StatusOr<BuiltBatch> BuildPadding(size_t rank_group) const override;

 private:
  PreparedEpoch(std::shared_ptr<const EpochPlan> plan, std::shared_ptr<const DrawnEpoch> drawn,
                EpochIdentity identity, const EpochBounds& bounds, bool whole_graphs,
                std::shared_ptr<GatheredRows> gathered)
      : plan_(std::move(plan)),
        drawn_(std::move(drawn)),
        identity_(std::move(identity)),
        bounds_(bounds),
        whole_graphs_(whole_graphs),
        gathered_(std::move(gathered)) {}

  EpochSeed seed() const { return {identity_.seed, identity_.key.epoch}; }
  size_t RankGroupOf(uint64_t number) const;
  // Which of the rank group's shapes a batch of these items has.
  size_t ShapeFor(size_t rank_group, absl::Span<const uint32_t> items) const;
  absl::StatusOr<Batch> CollateGraphs(const BatchShape& shape,
                                      absl::Span<const uint32_t> graphs) const;
  absl::StatusOr<Batch> CollateStored(const BatchShape& shape,
                                      absl::Span<const uint32_t> graphs) const;

  const std::shared_ptr<const EpochPlan> plan_;
  const std::shared_ptr<const DrawnEpoch> drawn_;
  const EpochIdentity identity_;
  const EpochBounds bounds_;
  const bool whole_graphs_;
  const std::shared_ptr<GatheredRows> gathered_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PREPARED_EPOCH_H_
