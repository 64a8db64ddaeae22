#include "service/engine/streams/stream_shapes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/algorithms/planning/size_groups.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/algorithms/planning/tuning/tuning_reasons.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/status_macros.h"
#include "service/engine/streams/pack_rehearsal.h"
#include "service/engine/streams/shape_reasons.h"
#include "service/engine/streams/stream_profile.h"

namespace packhouse {
namespace {

// A shape with room for larger graphs than those so far is taken, unless it costs this share more
// than the best one.
constexpr double kCostOfRoom = 2e-3;
// Shapes that count as equal to the cheapest (TuneOptions::equal_cost). Less than for a whole
// histogram: that a stream's shapes are chosen by its first graphs alone costs something, too.
constexpr double kEqualCost = 2e-3;

std::vector<std::vector<uint64_t>> CapacitiesOf(absl::Span<const StreamShape> shapes) {
  std::vector<std::vector<uint64_t>> capacities;
  for (const StreamShape& shape : shapes) capacities.push_back(shape.shape.capacities);
  return capacities;
}

// Fills in what is expected of packs: shares and efficiencies. Returns the rows and the real rows
// of all, by component.
struct RowSums {
  std::vector<double> real;
  std::vector<double> rows;
};
RowSums SumRows(const RehearsedPacks& packs, StreamShapes& shapes, size_t num_components) {
  RowSums sums{std::vector<double>(num_components), std::vector<double>(num_components)};
  shapes.shares.assign(shapes.shapes.size(), 0);
  for (size_t pack = 0; pack < packs.size(); ++pack) {
    size_t i = shapes.shapes.size() - 1;
    while (i > 0 && !shapes.shapes[i].shape.Takes(packs.rows(pack))) --i;
    shapes.shares[i] += 1;
    for (size_t k = 0; k < num_components; ++k) {
      if (shapes.shapes[i].requested[k] == kUnlimited) continue;
      sums.real[k] += static_cast<double>(packs.rows(pack)[k]);
      sums.rows[k] += static_cast<double>(shapes.shapes[i].requested[k]);
    }
  }
  for (double& share : shapes.shares) {
    share /= static_cast<double>(std::max<size_t>(packs.size(), 1));
  }
  return sums;
}

class ShapeChooser {
 public:
  // `within_server`: the sizes are known to fit together only within the server's bound of a batch.
  ShapeChooser(const SizeHistogram& histogram, const DeviceProfile& profile,
               const GraphSchema& schema, const ShapeSearch& search, bool within_server = false)
      : histogram_(histogram),
        profile_(profile),
        schema_(schema),
        search_(search),
        within_server_(within_server) {}

  // Whether the server's bound of a batch's bytes has left out graphs that the profile takes.
  bool server_leaves_out() const { return server_leaves_out_; }

  absl::StatusOr<StreamShapes> Run() {
    PH_ASSIGN_OR_RETURN(const SizeHistogram graphs, AsEndlessStream(histogram_, profile_));
    PH_ASSIGN_OR_RETURN(TuneResult tuned, Tune(graphs, profile_));
    if (IsPadded() && (within_server_ || !Takes(tuned.shapes[0].capacities))) {
      PH_ASSIGN_OR_RETURN(const DeviceProfile within,
                          WithinBatchBytes(profile_, schema_, search_.batches));
      PH_ASSIGN_OR_RETURN(tuned, Tune(graphs, within));
      server_leaves_out_ = tuned.oversize && tuned.oversize->num_apart != 0;
      PH_RETURN_IF_ERROR(MakeRoom(graphs, within, tuned));
    } else {
      PH_RETURN_IF_ERROR(MakeRoom(graphs, profile_, tuned));
    }
    PH_ASSIGN_OR_RETURN(result_.oversize, OversizeOf(tuned));
    tuned_ = std::move(tuned.shapes[0]);
    largest_ = Usable(tuned_.capacities);
    LeaveGraphsOpen();
    PH_ASSIGN_OR_RETURN(const Limits usable, Limits::Create(largest_));
    PH_ASSIGN_OR_RETURN(const RehearsedPacks packs,
                        RehearsePacking(histogram_, ShapeRoutes({{usable}}), search_.packing,
                                        search_.is_cancelled));
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
    options.is_cancelled = search_.is_cancelled;
    options.memory = search_.memory;
    options.equal_cost = kEqualCost;
    return TuneLimits(graphs, profile, schema_.sizes(), options);
  }

  // Of the graphs that came, since the tuner was given others.
  absl::StatusOr<std::optional<OversizeGraphs>> OversizeOf(const TuneResult& tuned) const {
    if (!tuned.oversize) return std::nullopt;
    WorkBudget budget(search_.steps, search_.is_cancelled);
    PH_ASSIGN_OR_RETURN(const LeftOutSizes left_out,
                        FindOversize(histogram_, profile_, KeptMost::kNumGraphs, budget));
    return DescribeOversize(left_out, histogram_, profile_);
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

  static uint64_t NumLeftOut(const TuneResult& tuned) {
    return tuned.oversize ? tuned.oversize->num_graphs : 0;
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
    // Room for larger graphs must not put out those that came.
    if (NumLeftOut(*larger) > NumLeftOut(tuned)) return absl::OkStatus();
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
      result_.shapes.push_back({std::move(shape), laid_out, CostOfShape(profile_, usable)});
      result_.memory_bytes.push_back(BytesOfShape(profile_, usable));
    }
    return absl::OkStatus();
  }

  void Expect(const RehearsedPacks& packs) {
    const size_t n = profile_.components.size();
    result_.efficiencies.assign(n, 1);
    auto [real, rows] = SumRows(packs, result_, n);
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
  const bool within_server_;
  TunedShape tuned_;
  bool server_leaves_out_ = false;
  UsableCapacities largest_;
  StreamShapes result_;
};

// Chooses shapes for each group of sizes, and puts them together.
class GroupChooser {
 public:
  GroupChooser(const SizeHistogram& histogram, const DeviceProfile& profile,
               const GraphSchema& schema, const ShapeSearch& search)
      : histogram_(histogram), profile_(profile), schema_(schema), search_(search) {}

  absl::StatusOr<StreamShapes> Run() {
    if (profile_.max_distinct_shapes == 1) return ChooseForOne();
    PH_ASSIGN_OR_RETURN(SizeGroups found, Find(profile_));
    if (found.groups.size() > 1) return ChooseForEach(found, /*within_server=*/false);
    ShapeChooser one(histogram_, profile_, schema_, search_);
    PH_ASSIGN_OR_RETURN(StreamShapes chosen, one.Run());
    if (!one.server_leaves_out()) return chosen;
    // A batch that the profile allows may be too large for the server.
    PH_ASSIGN_OR_RETURN(const DeviceProfile within,
                        WithinBatchBytes(profile_, schema_, search_.batches));
    PH_ASSIGN_OR_RETURN(found, Find(within));
    if (found.groups.size() <= 1) return chosen;
    return ChooseForEach(found, /*within_server=*/true);
  }

 private:
  absl::StatusOr<StreamShapes> ChooseForOne() {
    return ShapeChooser(histogram_, profile_, schema_, search_).Run();
  }

  absl::StatusOr<SizeGroups> Find(const DeviceProfile& profile) const {
    const uint64_t bytes = BytesToFindGroups(histogram_, profile);
    if (search_.memory != nullptr && !search_.memory->HoldMore(bytes)) {
      return absl::CancelledError("shapes: no memory for groups of sizes");
    }
    WorkBudget budget(search_.steps, search_.is_cancelled);
    return FindGroups(histogram_, profile, profile.max_distinct_shapes, budget);
  }

  absl::StatusOr<StreamShapes> ChooseForEach(const SizeGroups& found, bool within_server) {
    const size_t num_groups = found.groups.size();
    ShapeSearch search = search_;
    search.steps = std::max<uint64_t>(search_.steps / num_groups, 1);
    StreamShapes all;
    std::vector<StreamShapes> of_groups;
    std::vector<uint64_t> counts;
    std::vector<std::string> reasons;
    for (size_t i = 0; i < num_groups; ++i) {
      SizeHistogram group(histogram_.num_components());
      for (const SizeTuple& tuple : found.groups[i]) {
        PH_RETURN_IF_ERROR(group.Add(tuple, histogram_.CountOf(tuple)));
      }
      DeviceProfile profile = profile_;
      profile.max_distinct_shapes =
          i == 0 ? profile_.max_distinct_shapes - static_cast<uint32_t>(num_groups - 1) : 1;
      PH_ASSIGN_OR_RETURN(StreamShapes chosen,
                          ShapeChooser(group, profile, schema_, search, within_server).Run());
      counts.push_back(group.num_graphs());
      for (const std::string& reason : chosen.reasons) {
        reasons.push_back(absl::StrCat("Group ", i + 1, ": ", reason));
      }
      all.shapes.insert(all.shapes.end(), chosen.shapes.begin(), chosen.shapes.end());
      of_groups.push_back(std::move(chosen));
    }
    Sort(all);
    for (const StreamShapes& of_group : of_groups) {
      if (of_group.shapes[0].requested == all.shapes[0].requested) all.terms = of_group.terms;
    }
    PH_RETURN_IF_ERROR(Expect(all));
    all.reasons = {absl::StrCat("No one shape takes all graphs that fit alone, so there are ",
                                num_groups, " groups of them, of ", absl::StrJoin(counts, ", "),
                                " graphs, each with a shape of its own and packed apart.")};
    all.reasons.insert(all.reasons.end(), reasons.begin(), reasons.end());
    if (found.left_out.size() != 0) {
      all.oversize = DescribeOversize(ByProfile(found.left_out), histogram_, profile_);
      all.oversize->num_shapes = static_cast<uint32_t>(num_groups);
      for (std::string& reason : OversizeReasons(*all.oversize, profile_, schema_.sizes())) {
        all.reasons.push_back(std::move(reason));
      }
    }
    return all;
  }

  // What only the server's bound leaves out, the profile takes.
  LeftOutSizes ByProfile(LeftOutSizes left_out) const {
    const auto taken = std::stable_partition(
        left_out.alone.begin(), left_out.alone.end(),
        [this](const SizeTuple& tuple) { return ExcessOverProfile(tuple, profile_).has_value(); });
    left_out.apart.insert(left_out.apart.end(), taken, left_out.alone.end());
    left_out.alone.erase(taken, left_out.alone.end());
    return left_out;
  }

  // A batch gets the last shape that takes it, so the cheapest come last. A shape that takes
  // another costs no less, and has no smaller capacities.
  void Sort(StreamShapes& all) const {
    std::sort(all.shapes.begin(), all.shapes.end(), [](const StreamShape& a, const StreamShape& b) {
      return a.cost != b.cost ? a.cost > b.cost : a.requested > b.requested;
    });
    for (const StreamShape& shape : all.shapes) {
      std::vector<uint64_t> usable = shape.requested;
      for (size_t k = 0; k < usable.size(); ++k) {
        if (usable[k] != kUnlimited) usable[k] -= profile_.components[k].reserved_rows;
      }
      all.memory_bytes.push_back(BytesOfShape(profile_, usable));
    }
  }

  absl::Status Expect(StreamShapes& all) const {
    const size_t n = profile_.components.size();
    PH_ASSIGN_OR_RETURN(
        const RehearsedPacks packs,
        RehearsePacking(histogram_, RoutesOf(all.shapes), search_.packing, search_.is_cancelled));
    const auto [real, rows] = SumRows(packs, all, n);
    all.efficiencies.assign(n, 1);
    double cost = 0;
    double real_cost = 0;
    for (size_t k = 0; k < n; ++k) {
      if (rows[k] == 0) continue;
      all.efficiencies[k] = real[k] / rows[k];
      cost += profile_.components[k].relative_cost * rows[k];
      real_cost += profile_.components[k].relative_cost * real[k];
    }
    all.overhead = real_cost > 0 ? cost / real_cost - 1 : 0;
    return absl::OkStatus();
  }

  const SizeHistogram& histogram_;
  const DeviceProfile& profile_;
  const GraphSchema& schema_;
  const ShapeSearch& search_;
};

}  // namespace

absl::StatusOr<StreamShapes> ChooseStreamShapes(const SizeHistogram& histogram,
                                                const DeviceProfile& profile,
                                                const GraphSchema& schema,
                                                const ShapeSearch& search) {
  return GroupChooser(histogram, profile, schema, search).Run();
}

ShapeRoutes RoutesOf(absl::Span<const StreamShape> shapes) {
  std::vector<Route> routes;
  for (const size_t leader : LeadingShapes(CapacitiesOf(shapes))) {
    routes.push_back({shapes[leader].shape.usable, shapes[leader].cost});
  }
  return ShapeRoutes(std::move(routes));
}

}  // namespace packhouse
