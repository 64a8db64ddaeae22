#include "service/server/services/stream_drift.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/planning_room.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/services/stream_tuning.h"

namespace packhouse {
namespace {

// A component's mean is told in words if it has changed by this share.
constexpr double kToldChange = 0.01;

absl::StatusOr<DriftJudgement> Judge(const SizeHistogram& reference, const SizeHistogram& recent,
                                     const GraphSchema& schema, DriftSearch search,
                                     MemoryBudget* working,
                                     const std::function<bool()>& is_cancelled) {
  const Making making(working, is_cancelled);
  if (is_cancelled()) return absl::CancelledError("the client cancelled or is gone");
  PlanningRoom room(making, std::max(reference.num_distinct(), recent.num_distinct()),
                    reference.num_components());
  // The sizes before and after, and one of them as an endless stream.
  for (int i = 0; i < 3; ++i) PH_RETURN_IF_ERROR(room.HoldHistogram());
  PH_RETURN_IF_ERROR(room.HoldTuning());
  search.shapes.is_cancelled = is_cancelled;
  search.shapes.memory = room.memory();
  absl::StatusOr<DriftJudgement> judgement = JudgeDrift(reference, recent, schema, search);
  if (!judgement.ok()) return room.Reason(judgement.status());
  return judgement;
}

}  // namespace

absl::StatusOr<std::optional<StreamDrift::Options>> StreamDrift::OptionsFromWire(
    const v1::PackOpen& open) {
  if (!open.has_drift()) return std::nullopt;
  if (open.min_rows_size() != 0) return absl::InvalidArgumentError("drift: not with min_rows");
  Options options;
  if (open.drift().num_graphs() != 0) options.num_graphs = open.drift().num_graphs();
  if (options.num_graphs < DriftWatch::kFewestGraphs ||
      options.num_graphs > DriftWatch::kMostGraphs) {
    return absl::InvalidArgumentError(absl::StrCat("drift: num_graphs ", options.num_graphs,
                                                   ", from ", DriftWatch::kFewestGraphs, " to ",
                                                   DriftWatch::kMostGraphs));
  }
  if (open.drift().min_loss() != 0) options.min_loss = open.drift().min_loss();
  // Written so that it refuses NaN.
  if (!(options.min_loss > 0 && options.min_loss < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("drift: min_loss ", options.min_loss, ", above 0 and below 1"));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<StreamDrift>> StreamDrift::Create(
    const Options& options, std::shared_ptr<const GraphSchema> schema,
    std::optional<DeviceProfile> allowed, MemoryBudget* working,
    std::shared_ptr<StreamPlanning> planning, PackObserver* observer) {
  MemoryHold memory;
  if (working != nullptr) {
    const uint64_t bytes = DriftWatch::BytesFor(schema->num_components(), options.num_graphs);
    PH_ASSIGN_OR_RETURN(memory, working->Hold("the watch of a stream's sizes", bytes));
  }
  return std::unique_ptr<StreamDrift>(
      new StreamDrift(options, std::move(schema), std::move(allowed), working, std::move(planning),
                      observer, std::move(memory)));
}

absl::Status StreamDrift::SetReference(DriftReference reference) {
  // Without graphs that came later nothing is skipped.
  watch_.SetReference(std::move(reference), num_before_ + num_skipped_);
  if (!later_) return absl::OkStatus();
  const SizeTable later = *std::exchange(later_, std::nullopt);
  return watch_.Observe(later, num_skipped_);
}

absl::Status StreamDrift::Observe(const SizeTable& sizes) { return watch_.Observe(sizes); }

void StreamDrift::ObserveWhileChoosing(const SizeTable& sizes, uint64_t num_counted) {
  size_t i = 0;
  uint64_t counted = 0;
  for (; i < sizes.num_graphs(); ++i) {
    if (allowed_ && ExcessOverProfile(sizes.tuple(i), *allowed_)) continue;
    if (counted == num_counted) break;
    ++counted;
  }
  if (i == sizes.num_graphs()) {
    num_before_ += i;
    return;
  }
  // There are enough: no chunk follows before the shapes are chosen.
  later_ = sizes;
  num_skipped_ = i;
}

void StreamDrift::Begin() {
  change_ = watch_.TakeChange();
  change_means_ = MeanRows(change_.graphs);
  auto outcome = std::make_shared<Outcome>();
  StreamPlanning::Job job = [outcome, reference = watch_.reference(),
                             recent = std::exchange(change_.graphs, SizeHistogram(0)),
                             schema = schema_, search = search_,
                             working = working_](const std::function<bool()>& is_cancelled) {
    absl::StatusOr<DriftJudgement> judgement = EndOnAllocationFailure(
        [&] { return Judge(reference, recent, *schema, search, working, is_cancelled); });
    absl::MutexLock lock(&outcome->mutex);
    outcome->judgement.emplace(std::move(judgement));
  };
  if (planning_ != nullptr) {
    planning_->Submit(std::move(job));
  } else {
    job([] { return false; });
  }
  search_outcome_ = std::move(outcome);
}

std::optional<v1::PackDrifted> StreamDrift::Next() {
  // Until there is something to tell, or to wait for.
  while (search_outcome_ != nullptr || watch_.has_change()) {
    if (search_outcome_ == nullptr) Begin();
    std::optional<absl::StatusOr<DriftJudgement>> judgement;
    {
      absl::MutexLock lock(&search_outcome_->mutex);
      judgement = std::exchange(search_outcome_->judgement, std::nullopt);
    }
    if (!judgement) return std::nullopt;
    search_outcome_.reset();
    // The stream goes on: there was no memory for the search, or nobody waits for it.
    if (!judgement->ok()) {
      observer_->OnSizeChange(PackObserver::kNotJudged, false);
      continue;
    }
    const DriftJudgement& found = **judgement;
    const bool loses = found.LossByChange() >= options_.min_loss;
    observer_->OnSizeChange(found.loss, loses);
    if (!loses && !has_told_) continue;
    has_told_ = true;
    return ToWire(found);
  }
  return std::nullopt;
}

v1::PackDrifted StreamDrift::ToWire(const DriftJudgement& judgement) const {
  v1::PackDrifted wire;
  wire.set_first_graph(change_.first_graph);
  wire.set_found_graph(change_.found_graph);
  wire.set_end_graph(change_.end_graph);
  wire.set_loss(judgement.loss);
  wire.set_look_ahead(static_cast<uint32_t>(judgement.look_ahead));
  const SizeSchema& sizes = schema_->sizes();
  const std::vector<double>& means = watch_.reference_means();
  for (size_t k = 0; k <= sizes.num_components(); ++k) {
    v1::DriftedComponent& component = *wire.add_components();
    component.set_component(std::string(sizes.name(k)));
    // `graphs`: one for each.
    const bool is_graphs = k == sizes.num_components();
    component.set_reference_mean(is_graphs ? 1 : means[k]);
    component.set_mean(is_graphs ? 1 : change_means_[k]);
    component.set_reference_efficiency(judgement.reference_efficiencies[k]);
    component.set_present_efficiency(judgement.present_efficiencies[k]);
    component.set_offered_efficiency(judgement.offered_efficiencies[k]);
    const double change = component.mean() - component.reference_mean();
    if (std::abs(change) >= kToldChange * component.reference_mean()) {
      wire.add_reasons(
          absl::StrFormat("Graphs have %.4g %s in the mean; when limits were chosen "
                          "they had %.4g.",
                          component.mean(), component.component(), component.reference_mean()));
    }
  }
  wire.add_reasons(absl::StrFormat(
      "The present limits cost %.3g %% of what batches cost; when they were chosen it was %.3g %%.",
      100 * judgement.loss, 100 * judgement.reference_loss));
  if (judgement.look_ahead != search_.shapes.packing.look_ahead) {
    wire.add_reasons(absl::StrCat("A look-ahead of ", judgement.look_ahead,
                                  " packs tighter now; before the change it hardly did."));
  }
  if (judgement.offered) {
    const FoundShapes offered{*judgement.offered, options_.num_graphs, std::nullopt};
    TunedToWire(offered, sizes, *wire.mutable_offered());
    for (int i = 0; search_.shapes.batches.whole_graphs && i < wire.offered().shapes_size(); ++i) {
      const BatchLayout& layout = judgement.offered->shapes[static_cast<size_t>(i)].shape.layout;
      wire.mutable_offered()->mutable_shapes(i)->set_batch_bytes(
          layout.FixedBatchBytes().value_or(0));
    }
  }
  return wire;
}

}  // namespace packhouse
