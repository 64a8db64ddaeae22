#include "service/engine/streams/drift_judgement.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "service/base/status_macros.h"
#include "service/engine/streams/pack_rehearsal.h"
#include "service/engine/streams/stream_profile.h"

namespace packhouse {
namespace {

// Capacities are multiples of a power of two, at most this, and at most this share of the limit.
constexpr uint64_t kMostAlignment = 128;
constexpr uint64_t kFewestSteps = 16;
constexpr size_t kMoreLookAhead = 4;

// The use that packs make of shapes.
struct ShapeUse {
  // Rows over real rows, weighted by their costs; 0 without packs.
  double cost = 0;
  std::vector<double> efficiencies;
};

ShapeUse UseOf(const RehearsedPacks& packs, const std::vector<StreamShape>& shapes,
               const DeviceProfile& profile) {
  const size_t n = profile.components.size();
  ShapeUse use;
  use.efficiencies.assign(n, 1);
  std::vector<double> real(n);
  std::vector<double> rows(n);
  for (size_t pack = 0; pack < packs.size(); ++pack) {
    size_t i = shapes.size() - 1;
    while (i > 0 && !shapes[i].shape.Takes(packs.rows(pack))) --i;
    for (size_t k = 0; k < n; ++k) {
      if (shapes[i].requested[k] == kUnlimited) continue;
      real[k] += static_cast<double>(packs.rows(pack)[k]);
      rows[k] += static_cast<double>(shapes[i].requested[k]);
    }
  }
  double cost = 0;
  double real_cost = 0;
  for (size_t k = 0; k < n; ++k) {
    if (rows[k] == 0) continue;
    use.efficiencies[k] = real[k] / rows[k];
    cost += profile.components[k].relative_cost * rows[k];
    real_cost += profile.components[k].relative_cost * real[k];
  }
  if (real_cost > 0) use.cost = cost / real_cost;
  return use;
}

class DriftJudge {
 public:
  DriftJudge(const GraphSchema& schema, const DriftSearch& search)
      : schema_(schema), search_(search) {}

  absl::StatusOr<DriftJudgement> Judge(const SizeHistogram& reference,
                                       const SizeHistogram& recent) const {
    DriftJudgement judgement;
    judgement.look_ahead = search_.shapes.packing.look_ahead;
    PH_ASSIGN_OR_RETURN(const Comparison before, Compare(reference));
    PH_ASSIGN_OR_RETURN(Comparison after, Compare(recent));
    judgement.reference_loss = Saved(before.present.cost, before.best.cost);
    judgement.loss = Saved(after.present.cost, after.best.cost);
    judgement.reference_efficiencies = before.present.efficiencies;
    judgement.present_efficiencies = after.present.efficiencies;
    judgement.offered_efficiencies = after.best.efficiencies;
    PH_RETURN_IF_ERROR(TryLookAhead(reference, recent, before, after, judgement));
    if (after.differs) judgement.offered = std::move(after.shapes);
    return judgement;
  }

 private:
  // The present shapes and the best ones on the same graphs.
  struct Comparison {
    ShapeUse present;
    // The present ones, if no others cost less.
    ShapeUse best;
    bool differs = false;
    std::optional<StreamShapes> shapes;

    const std::vector<StreamShape>& BestOf(const std::vector<StreamShape>& given) const {
      return differs ? shapes->shapes : given;
    }
  };

  static double Saved(double present, double other) {
    return present > 0 && other > 0 ? std::max(0.0, 1 - other / present) : 0;
  }

  absl::StatusOr<ShapeUse> Rehearse(const SizeHistogram& graphs,
                                    const std::vector<StreamShape>& shapes,
                                    const OnlinePackerOptions& packing) const {
    PH_ASSIGN_OR_RETURN(
        const RehearsedPacks packs,
        RehearsePacking(graphs, RoutesOf(shapes), packing, search_.shapes.is_cancelled));
    return UseOf(packs, shapes, *search_.profile);
  }

  absl::StatusOr<Comparison> Compare(const SizeHistogram& graphs) const {
    Comparison comparison;
    PH_ASSIGN_OR_RETURN(comparison.present,
                        Rehearse(graphs, search_.present, search_.shapes.packing));
    comparison.best = comparison.present;
    absl::StatusOr<StreamShapes> chosen =
        ChooseStreamShapes(graphs, *search_.profile, schema_, search_.shapes);
    // No limits take any of the graphs.
    if (absl::IsFailedPrecondition(chosen.status())) return comparison;
    PH_RETURN_IF_ERROR(chosen.status());
    PH_ASSIGN_OR_RETURN(ShapeUse best, Rehearse(graphs, chosen->shapes, search_.shapes.packing));
    if (Saved(comparison.present.cost, best.cost) == 0) return comparison;
    comparison.best = std::move(best);
    comparison.shapes = *std::move(chosen);
    comparison.differs = true;
    return comparison;
  }

  // Offers a larger look-ahead if it gains enough now, and did not before.
  absl::Status TryLookAhead(const SizeHistogram& reference, const SizeHistogram& recent,
                            const Comparison& before, const Comparison& after,
                            DriftJudgement& judgement) const {
    OnlinePackerOptions packing = search_.shapes.packing;
    packing.look_ahead =
        std::min(kMoreLookAhead * packing.look_ahead, OnlinePackerOptions::kMaxLookAhead);
    if (packing.look_ahead == judgement.look_ahead) return absl::OkStatus();
    if (packing.max_age != 0) packing.max_age *= kMoreLookAhead;
    PH_ASSIGN_OR_RETURN(const ShapeUse now,
                        Rehearse(recent, after.BestOf(search_.present), packing));
    const double gain = Saved(after.best.cost, now.cost);
    if (gain < search_.min_loss) return absl::OkStatus();
    PH_ASSIGN_OR_RETURN(const ShapeUse then, Rehearse(reference, search_.present, packing));
    if (Saved(before.present.cost, then.cost) > gain / 2) return absl::OkStatus();
    judgement.look_ahead = packing.look_ahead;
    judgement.offered_efficiencies = now.efficiencies;
    judgement.loss = Saved(after.present.cost, now.cost);
    return absl::OkStatus();
  }

  const GraphSchema& schema_;
  const DriftSearch& search_;
};

}  // namespace

absl::StatusOr<DeviceProfile> ProfileWithin(const std::vector<uint64_t>& capacities,
                                            const GraphSchema& schema,
                                            const BatchShapeOptions& batches) {
  DeviceProfile profile;
  for (size_t k = 0; k < capacities.size(); ++k) {
    ComponentProfile& component = profile.components.emplace_back();
    component.relative_cost = k + 1 == capacities.size() ? 0 : 1;
    if (capacities[k] == kUnlimited) {
      component.relative_cost = 0;
      continue;
    }
    component.max_rows = capacities[k];
    component.multiple_of = std::min(capacities[k] & (~capacities[k] + 1), kMostAlignment);
    while (component.multiple_of > 1 && component.multiple_of > capacities[k] / kFewestSteps) {
      component.multiple_of /= 2;
    }
  }
  return ProfileForStream(std::move(profile), schema, batches);
}

absl::StatusOr<DriftJudgement> JudgeDrift(const SizeHistogram& reference,
                                          const SizeHistogram& recent, const GraphSchema& schema,
                                          const DriftSearch& search) {
  if (!search.profile) {
    DriftJudgement judgement;
    const std::vector<double> full(schema.num_components() + 1, 1);
    judgement.reference_efficiencies = full;
    judgement.present_efficiencies = full;
    judgement.offered_efficiencies = full;
    judgement.look_ahead = search.shapes.packing.look_ahead;
    return judgement;
  }
  return DriftJudge(schema, search).Judge(reference, recent);
}

}  // namespace packhouse
