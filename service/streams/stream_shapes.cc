#include "service/streams/stream_shapes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "service/base/status_macros.h"
#include "service/planning/tuning/limit_tuner.h"
#include "service/streams/pack_rehearsal.h"
#include "service/streams/shape_reasons.h"
#include "service/streams/stream_profile.h"

namespace packhouse {
namespace {

// A shape with room for larger graphs than those so far is taken, unless it costs this share more
// than the best one.
constexpr double kCostOfRoom = 2e-3;
// Shapes that count as equal to the cheapest (TuneOptions::equal_cost). Less than for a whole
// histogram: that a stream's shapes are chosen by its first graphs alone costs something, too.
constexpr double kEqualCost = 2e-3;

class ShapeChooser {
 public:
  ShapeChooser(const SizeHistogram& histogram, const DeviceProfile& profile,
               const GraphSchema& schema, const ShapeSearch& search)
      : histogram_(histogram), profile_(profile), schema_(schema), search_(search) {}

  absl::StatusOr<StreamShapes> Run() {
    PH_ASSIGN_OR_RETURN(const SizeHistogram graphs, AsEndlessStream(histogram_, profile_));
    PH_ASSIGN_OR_RETURN(TuneResult tuned, Tune(graphs, profile_));
    if (IsPadded() && !Takes(tuned.shapes[0].capacities)) {
      PH_ASSIGN_OR_RETURN(const DeviceProfile within,
                          WithinBatchBytes(profile_, schema_, search_.batches));
      PH_ASSIGN_OR_RETURN(tuned, Tune(graphs, within));
      PH_RETURN_IF_ERROR(MakeRoom(graphs, within, tuned));
    } else {
      PH_RETURN_IF_ERROR(MakeRoom(graphs, profile_, tuned));
    }
    result_.oversize = OversizeOf(tuned);
    tuned_ = std::move(tuned.shapes[0]);
    largest_ = Usable(tuned_.capacities);
    LeaveGraphsOpen();
    PH_ASSIGN_OR_RETURN(const Limits usable, Limits::Create(largest_));
    PH_ASSIGN_OR_RETURN(const RehearsedPacks packs,
                        RehearsePacking(histogram_, usable, search_.packing, search_.given_up));
    FitGraphs(packs);
    PH_RETURN_IF_ERROR(ListShapes(packs));
    Expect(packs);
    FindTerms();
    result_.reasons = ShapeReasons(result_, histogram_, profile_, schema_.sizes());
    return std::move(result_);
  }

 private:
  bool IsPadded() const { return search_.batches.padding != Padding::kNone; }

  absl::StatusOr<TuneResult> Tune(const SizeHistogram& graphs, DeviceProfile profile) const {
    profile.max_distinct_shapes = 1;
    TuneOptions options;
    options.steps = search_.steps;
    options.given_up = search_.given_up;
    options.memory = search_.memory;
    options.equal_cost = kEqualCost;
    return TuneLimits(graphs, profile, schema_.sizes(), options);
  }

  // Of the graphs that came, since the tuner was given others.
  std::optional<OversizeGraphs> OversizeOf(const TuneResult& tuned) const {
    if (!tuned.oversize) return std::nullopt;
    return DescribeOversize(FindOversize(histogram_, profile_, KeptMost::kNumGraphs), histogram_,
                            profile_);
  }

  UsableCapacities Usable(const std::vector<uint64_t>& laid_out) const {
    UsableCapacities usable = laid_out;
    for (size_t k = 0; k < usable.size(); ++k) {
      if (usable[k] != kUnlimited) usable[k] -= profile_.components[k].reserved_rows;
    }
    return usable;
  }

  // Whether the server makes batches of this shape.
  bool Takes(const std::vector<uint64_t>& laid_out) const {
    return BatchShape::Resolve(schema_, laid_out, search_.batches).ok();
  }

  // Replaces the tuned limits by larger ones with room for larger graphs, if these cost hardly
  // more.
  absl::Status MakeRoom(const SizeHistogram& graphs, const DeviceProfile& profile,
                        TuneResult& tuned) const {
    const std::optional<DeviceProfile> roomy =
        ProfileWithRoom(histogram_, profile, Usable(tuned.shapes[0].capacities));
    if (!roomy || !CheckDeviceProfile(*roomy, schema_.sizes()).ok()) return absl::OkStatus();
    absl::StatusOr<TuneResult> larger = Tune(graphs, *roomy);
    if (absl::IsCancelled(larger.status())) return larger.status();
    if (!larger.ok() || !Takes(larger->shapes[0].capacities)) return absl::OkStatus();
    if (larger->epoch_cost > (1 + kCostOfRoom) * tuned.epoch_cost) return absl::OkStatus();
    tuned = *std::move(larger);
    return absl::OkStatus();
  }

  bool IsAllowed(const UsableCapacities& usable) const {
    return FitsMemory(profile_, usable) && Takes(WithReserved(profile_, usable));
  }

  // If nobody asked for a capacity of `graphs`: the largest that there is room for, until the
  // rehearsal shows how many are needed.
  void LeaveGraphsOpen() {
    const ComponentProfile& graphs = profile_.components.back();
    if (!graphs.fits_packs || graphs.relative_cost > 0) return;
    uint64_t low = largest_.back();
    uint64_t high = LargestCapacity(graphs);
    while (low < high) {
      UsableCapacities middle = largest_;
      middle.back() = low + (high - low + 1) / 2;
      if (IsAllowed(middle)) {
        low = middle.back();
      } else {
        high = middle.back() - 1;
      }
    }
    largest_.back() = low;
  }
  void FitGraphs(const RehearsedPacks& packs) {
    const ComponentProfile& graphs = profile_.components.back();
    if (!graphs.fits_packs || graphs.relative_cost > 0 || packs.size() == 0) return;
    const uint64_t most = packs.MostRows(histogram_.num_components());
    UsableCapacities fitted = largest_;
    fitted.back() = std::max(CapacityFor(graphs, most + most / 8 + 1), SmallestCapacity(graphs));
    if (fitted.back() < largest_.back() && IsAllowed(fitted)) largest_ = std::move(fitted);
  }

  absl::Status ListShapes(const RehearsedPacks& packs) {
    std::vector<UsableCapacities> shapes = {largest_};
    if (IsPadded()) {
      for (UsableCapacities& shape :
           SmallerShapes(packs, largest_, profile_, profile_.max_distinct_shapes - 1)) {
        shapes.push_back(std::move(shape));
      }
      for (UsableCapacities& shape : PartialShapes(largest_, shapes, profile_,
                                                   profile_.max_distinct_shapes - shapes.size())) {
        shapes.push_back(std::move(shape));
      }
    }
    std::stable_sort(shapes.begin() + 1, shapes.end(),
                     [this](const UsableCapacities& a, const UsableCapacities& b) {
                       return CostOfShape(profile_, a) > CostOfShape(profile_, b);
                     });
    for (const UsableCapacities& usable : shapes) {
      const std::vector<uint64_t> laid_out = WithReserved(profile_, usable);
      PH_ASSIGN_OR_RETURN(BatchShape shape,
                          BatchShape::Resolve(schema_, laid_out, search_.batches));
      result_.shapes.push_back({std::move(shape), laid_out});
      result_.memory_bytes.push_back(BytesOfShape(profile_, usable));
    }
    return absl::OkStatus();
  }

  void Expect(const RehearsedPacks& packs) {
    const size_t n = profile_.components.size();
    result_.shares.assign(result_.shapes.size(), 0);
    result_.efficiencies.assign(n, 1);
    std::vector<double> real(n);
    std::vector<double> rows(n);
    for (size_t pack = 0; pack < packs.size(); ++pack) {
      size_t i = result_.shapes.size() - 1;
      while (i > 0 && !result_.shapes[i].shape.Takes(packs.rows(pack))) --i;
      result_.shares[i] += 1;
      for (size_t k = 0; k < n; ++k) {
        if (result_.shapes[i].requested[k] == kUnlimited) continue;
        real[k] += static_cast<double>(packs.rows(pack)[k]);
        rows[k] += static_cast<double>(result_.shapes[i].requested[k]);
      }
    }
    for (double& share : result_.shares)
      share /= static_cast<double>(std::max<size_t>(packs.size(), 1));
    if (packs.size() == 0) {
      // A batch takes more graphs than are drawn: it is as full as planned.
      result_.shares[0] = 1;
      for (size_t k = 0; k < n; ++k) {
        if (largest_[k] == kUnlimited) continue;
        real[k] = tuned_.components[k].efficiency;
        rows[k] = 1;
      }
    }
    double cost = 0;
    double real_cost = 0;
    for (size_t k = 0; k < n; ++k) {
      if (rows[k] == 0) continue;
      result_.efficiencies[k] = real[k] / rows[k];
      const double scale = packs.size() == 0 ? static_cast<double>(largest_[k]) : 1;
      cost += scale * profile_.components[k].relative_cost * rows[k];
      real_cost += scale * profile_.components[k].relative_cost * real[k];
    }
    result_.overhead = real_cost > 0 ? cost / real_cost - 1 : 0;
  }

  void FindTerms() {
    for (size_t k = 0; k < largest_.size(); ++k) result_.terms.push_back(TermOf(k));
  }
  CapacityTerm TermOf(size_t k) const {
    if (largest_[k] == kUnlimited) return CapacityTerm::kNone;
    const ComponentProfile& component = profile_.components[k];
    const bool is_graphs = k == histogram_.num_components();
    UsableCapacities larger = largest_;
    larger[k] += component.multiple_of;
    if (larger[k] > LargestCapacity(component)) {
      const bool by_server =
          is_graphs && component.max_rows == search_.batches.max_graphs_per_batch;
      return by_server ? CapacityTerm::kServer : CapacityTerm::kMaxRows;
    }
    if (!FitsMemory(profile_, larger)) return CapacityTerm::kMemory;
    if (!Takes(WithReserved(profile_, larger))) return CapacityTerm::kServer;
    return CapacityTerm::kSizes;
  }

  const SizeHistogram& histogram_;
  const DeviceProfile& profile_;
  const GraphSchema& schema_;
  const ShapeSearch& search_;
  TunedShape tuned_;
  UsableCapacities largest_;
  StreamShapes result_;
};

}  // namespace

absl::StatusOr<StreamShapes> ChooseStreamShapes(const SizeHistogram& histogram,
                                                const DeviceProfile& profile,
                                                const GraphSchema& schema,
                                                const ShapeSearch& search) {
  return ShapeChooser(histogram, profile, schema, search).Run();
}

}  // namespace packhouse
