#include "service/algorithms/planning/tuning/limit_tuner.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/optimizer/budgeted_plan.h"
#include "service/algorithms/planning/optimizer/planner_bytes.h"
#include "service/algorithms/planning/size_groups.h"
#include "service/algorithms/planning/tuning/candidate_grid.h"
#include "service/algorithms/planning/tuning/candidate_queue.h"
#include "service/algorithms/planning/tuning/shape_sets.h"
#include "service/algorithms/planning/tuning/tuning_reasons.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Balanced candidates from which those of the frontier are picked.
constexpr uint64_t kFrontierSample = uint64_t{1} << 14;
// Steps for a plan, at first: what the mixing planner needs to come close to the bound. It draws
// the graphs of about as many different packs as there are sizes.
constexpr uint64_t kFirstSteps = 500'000;
constexpr uint64_t kFirstStepsPerTuple = 4'000;
constexpr uint64_t kFirstStepsPerDraw = 30;
// A budget should suffice for this many plans.
constexpr uint64_t kLeastPlans = 16;
// The steps should suffice for this many plans of sets of shapes.
constexpr uint64_t kLeastShapePlans = 64;
// After this many plans, each plan gets more steps; and the factor.
constexpr uint64_t kPlansPerRound = 64;
constexpr uint64_t kStepsGrowth = 4;
// How many candidates are planned again, and how many times.
constexpr size_t kRetried = 2;
constexpr uint64_t kRetries = 6;
// With more packs than this, saving one pack is not worth the search.
constexpr uint64_t kMostPacksToTighten = 4096;
constexpr int kTightenings = 5;
// For a cell that the search has not planned.
constexpr uint64_t kMostStepsPerCell = 200'000;
constexpr uint64_t kCellsBetweenAsking = 4096;
// Plans for a shape with fewer packs than the cheapest.
constexpr size_t kMostLarger = 24;
// Plans between two reports of progress.
constexpr uint64_t kPlansPerReport = 16;

// Number of capacities that a component may have.
uint64_t NumAllowed(const ComponentProfile& component) {
  return (LargestCapacity(component) - SmallestCapacity(component)) / component.multiple_of + 1;
}

bool HasCost(const ComponentProfile& component) {
  return component.max_rows != 0 && component.relative_cost > 0;
}

class LimitTuner {
 public:
  LimitTuner(const SizeHistogram& histogram, const DeviceProfile& profile, const SizeSchema& schema,
             const TuneOptions& options)
      : profile_(profile),
        schema_(schema),
        options_(options),
        graphs_(histogram),
        is_cancelled_([this] {
          // Remembered, since some callers ask only once, and not every caller can end at once.
          was_cancelled_ = was_cancelled_ || (options_.is_cancelled && options_.is_cancelled()) ||
                           (options_.memory != nullptr && options_.memory->refused());
          return was_cancelled_;
        }),
        budget_(options.steps, is_cancelled_, options.memory) {}
  LimitTuner(const LimitTuner&) = delete;
  LimitTuner& operator=(const LimitTuner&) = delete;

  absl::StatusOr<TuneResult> Run() {
    PH_RETURN_IF_ERROR(CheckArguments());
    if (profile_.max_distinct_shapes > 1) {
      if (!budget_.HoldMore(BytesToFindGroups(graphs_, profile_))) return Cancelled();
      const absl::StatusOr<SizeGroups> found =
          FindGroups(graphs_, profile_, profile_.max_distinct_shapes, budget_);
      if (!found.ok()) return Cancelled();
      if (found->groups.size() > 1) return TuneGroups(*found);
    }
    PH_RETURN_IF_ERROR(LeaveOutOversize());
    demand_ = DemandOf(graphs_);
    grid_.emplace(demand_, profile_, Weights(), WeightOfBatch());
    // Only some of the profile's choices matter.
    facts_.excluded = facts_.candidates - std::min(facts_.candidates, grid_->num_candidates());
    Report();
    PH_RETURN_IF_ERROR(Search());
    PH_RETURN_IF_ERROR(PreferFewPacks());
    if (options_.include_grid) PH_RETURN_IF_ERROR(ListCells());
    PH_RETURN_IF_ERROR(PlanFrontier());
    Conclude();
    Recommend();
    if (profile_.max_distinct_shapes > 1) PH_RETURN_IF_ERROR(TrySeveralShapes());
    if (was_cancelled_) return Cancelled();
    result_.reasons = TuningReasons(result_, profile_, schema_, graphs_, options_, facts_);
    Report();
    LayOut(result_.single_shape);
    LayOut(result_.cheapest_shape);
    for (TunedShape& shape : result_.shapes) LayOut(shape);
    for (TunedShape& shape : result_.frontier) LayOut(shape);
    for (TuneCell& cell : result_.cells) cell.capacities = WithReserved(profile_, cell.capacities);
    return std::move(result_);
  }

 private:
  struct Planned {
    Candidate candidate;
    uint64_t packs;
  };

  static absl::Status Cancelled() { return absl::CancelledError("tune: given up by the caller"); }

  absl::Status CheckArguments() {
    PH_RETURN_IF_ERROR(CheckDeviceProfile(profile_, schema_));
    if (graphs_.num_components() != schema_.num_components()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tune: a histogram of ", graphs_.num_components(), " components, expected ",
                       schema_.num_components()));
    }
    if (options_.objective == TuneObjective::kHarmonicMean && profile_.max_distinct_shapes != 1) {
      return absl::InvalidArgumentError(absl::StrCat("tune: max_distinct_shapes ",
                                                     profile_.max_distinct_shapes,
                                                     " with the harmonic mean, which is for 1"));
    }
    facts_.candidates = 1;
    for (const ComponentProfile& component : profile_.components) {
      if (!HasCost(component)) continue;
      if (__builtin_mul_overflow(facts_.candidates, NumAllowed(component), &facts_.candidates)) {
        facts_.candidates = UINT64_MAX;
        break;
      }
    }
    if (options_.include_grid && facts_.candidates > kMaxGridCells) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "tune: a grid of ", facts_.candidates, " cells; at most ", kMaxGridCells, " are listed"));
    }
    return absl::OkStatus();
  }

  absl::Status LeaveOutOversize() {
    if (!budget_.HoldMore(BytesToFindOversize(graphs_, profile_))) return Cancelled();
    const absl::StatusOr<LeftOutSizes> found =
        FindOversize(graphs_, profile_,
                     options_.objective == TuneObjective::kHarmonicMean ? KeptMost::kCostedRows
                                                                        : KeptMost::kNumGraphs,
                     budget_);
    if (!found.ok()) return Cancelled();
    const LeftOutSizes& left_out = *found;
    if (left_out.size() == graphs_.num_distinct()) {
      if (left_out.size() == 0) {
        return absl::FailedPreconditionError("tune: the histogram is empty");
      }
      return absl::FailedPreconditionError(absl::StrCat(
          "tune: ",
          OversizeReason(DescribeOversize(left_out, graphs_, profile_), profile_, schema_)));
    }
    return Remove(left_out);
  }

  absl::Status Remove(const LeftOutSizes& left_out) {
    if (left_out.size() != 0) result_.oversize = DescribeOversize(left_out, graphs_, profile_);
    for (const std::vector<SizeTuple>* const tuples : {&left_out.alone, &left_out.apart}) {
      for (const SizeTuple& tuple : *tuples) {
        PH_RETURN_IF_ERROR(graphs_.Remove(tuple, graphs_.CountOf(tuple)));
      }
    }
    return absl::OkStatus();
  }

  // The weight of a row of each component in the objective.
  std::vector<double> Weights() const {
    std::vector<double> weights;
    for (size_t k = 0; k < profile_.components.size(); ++k) {
      const ComponentProfile& component = profile_.components[k];
      double weight = 0;
      if (HasCost(component)) {
        weight = component.relative_cost;
        if (options_.objective == TuneObjective::kHarmonicMean) {
          weight = demand_.totals[k] == 0 ? 0 : 1 / static_cast<double>(demand_.totals[k]);
        }
      }
      weights.push_back(weight);
    }
    return weights;
  }

  // The mean of efficiencies knows no constant.
  CandidateGrid::BatchWeight WeightOfBatch() const {
    if (options_.objective == TuneObjective::kHarmonicMean) return {};
    return {profile_.fixed_cost, profile_.least_cost};
  }

  // The harmonic mean of the efficiencies of the components that have a cost and rows, if `rows`
  // are laid out.
  double HarmonicMean(const SizeHistogram& graphs, absl::Span<const double> rows) const {
    double inverses = 0;
    double components = 0;
    for (size_t k = 0; k < rows.size(); ++k) {
      const uint64_t real = k < graphs.num_components() ? graphs.total(k) : graphs.num_graphs();
      if (!HasCost(profile_.components[k]) || real == 0) continue;
      inverses += rows[k] / static_cast<double>(real);
      components += 1;
    }
    return components == 0 ? 1 : components / inverses;
  }
  std::vector<double> RowsOf(absl::Span<const uint64_t> capacities, uint64_t packs) const {
    std::vector<double> rows;
    for (const uint64_t capacity : WithReserved(profile_, capacities)) {
      rows.push_back(static_cast<double>(packs) * static_cast<double>(capacity));
    }
    return rows;
  }

  absl::StatusOr<CertifiedPlan> Plan(const Candidate& candidate, uint64_t steps,
                                     uint64_t retry = 0) {
    PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create(candidate.capacities));
    OptimizerOptions plan_options = PlanOptions();
    plan_options.steps = steps;
    plan_options.seed += retry;
    return PlanWithinBudget(graphs_, limits, plan_options, budget_);
  }
  OptimizerOptions PlanOptions() const {
    OptimizerOptions plan_options;
    plan_options.steps = steps_per_plan_;
    plan_options.seed = options_.seed;
    plan_options.is_cancelled = is_cancelled_;
    plan_options.memory = options_.memory;
    plan_options.vector_level = options_.vector_level;
    return plan_options;
  }
  // Whether there are steps for another plan, and for what comes after the search.
  bool CanPlan(uint64_t steps, uint64_t reserve) const {
    const uint64_t left = budget_.remaining() - std::min(reserve, budget_.remaining());
    const uint64_t least = LeastPlanSteps(graphs_);
    return left >= least && left - least >= steps;
  }

  TunedShape ShapeOf(const Candidate& candidate, const CertifiedPlan& plan) const {
    TunedShape shape;
    shape.capacities = candidate.capacities;
    shape.packs = plan.packs;
    shape.lower_bound = plan.bound.packs;
    shape.harmonic_mean = HarmonicMean(graphs_, RowsOf(candidate.capacities, plan.packs));
    // These capacities have already been planned, so they are valid limits.
    shape.components =
        MeasurePlan(plan.plan, graphs_, *Limits::Create(candidate.capacities)).components;
    FitToPacks(shape);
    FillCosts(shape);
    return shape;
  }
  // Lowers the capacities that only have to hold the packs.
  void FitToPacks(TunedShape& shape) const {
    for (size_t k = 0; k < shape.capacities.size(); ++k) {
      const ComponentProfile& component = profile_.components[k];
      if (!component.fits_packs || HasCost(component)) continue;
      shape.capacities[k] = std::min(
          shape.capacities[k], std::max(CapacityFor(component, shape.components[k].fullest_pack),
                                        SmallestCapacity(component)));
    }
  }
  // Adds reserved rows to capacities of real rows.
  void LayOut(TunedShape& shape) const {
    shape.capacities = WithReserved(profile_, shape.capacities);
    LayOutEfficiencies(shape.capacities, shape.components);
  }
  void FillCosts(TunedShape& shape) const {
    shape.epoch_cost = static_cast<double>(shape.packs) * CostOfShape(profile_, shape.capacities);
    shape.batch_bytes = BytesOfShape(profile_, shape.capacities);
  }

  // The value that the objective minimises.
  double ValueOf(const TunedShape& shape) const {
    return grid_->ValueOfCapacities(shape.capacities, shape.packs);
  }
  // Compares by the objective, then by the shape's cost, then by its capacities.
  bool IsBetter(const TunedShape& a, const TunedShape& b) const {
    const double value_a = ValueOf(a);
    const double value_b = ValueOf(b);
    if (value_a != value_b) return value_a < value_b;
    const double cost_a = CostOfShape(profile_, a.capacities);
    const double cost_b = CostOfShape(profile_, b.capacities);
    if (cost_a != cost_b) return cost_a < cost_b;
    return a.capacities < b.capacities;
  }

  // Keeps the shape if it is better than all before it.
  void Offer(const Candidate& candidate, const CertifiedPlan& plan) {
    const double value = grid_->ValueOfCapacities(candidate.capacities, plan.packs);
    if (best_ && value > ValueOf(*best_)) return;
    TunedShape shape = ShapeOf(candidate, plan);
    if (best_ && !IsBetter(shape, *best_)) return;
    best_ = std::move(shape);
    facts_.bound_name = LowerBoundName(plan.bound, schema_);
    Report();
  }

  void Report() {
    plans_since_report_ = 0;
    if (!options_.progress) return;
    TuneProgress progress;
    progress.candidates = facts_.candidates;
    progress.planned = facts_.planned;
    progress.excluded = facts_.excluded;
    std::optional<TunedShape> incumbent = best_;
    if (incumbent) {
      LayOut(*incumbent);
      progress.incumbent = &*incumbent;
    }
    options_.progress(progress);
  }

  // Steps that one part of the search leaves to the later parts.
  uint64_t ReserveForShapes() const {
    return profile_.max_distinct_shapes > 1 ? options_.steps / 2 : 0;
  }
  uint64_t ReserveForFrontier() const { return ReserveForShapes() + options_.steps / 8; }
  uint64_t ReserveForCells() const {
    return ReserveForFrontier() + (options_.include_grid ? options_.steps / 8 : 0);
  }

  absl::Status Search() {
    steps_per_plan_ = options_.steps_per_plan;
    if (steps_per_plan_ != 0) return SearchRound(UINT64_MAX, ReserveForCells()).status();
    const uint64_t reserve = ReserveForCells() + options_.steps / 8;
    constexpr uint64_t kMostSteps = OptimizerOptions::kDefaultSteps;
    steps_per_plan_ =
        std::min({kMostSteps, std::max<uint64_t>(options_.steps / kLeastPlans, 1), FirstSteps()});
    for (;;) {
      const bool is_last = steps_per_plan_ == kMostSteps;
      PH_ASSIGN_OR_RETURN(const bool ended,
                          SearchRound(is_last ? UINT64_MAX : kPlansPerRound, reserve));
      if (ended && !next_bound_) return Retry(ReserveForCells());
      PH_RETURN_IF_ERROR(Tighten(grid_->fewest_packs() + 1, ReserveForCells()));
      PH_RETURN_IF_ERROR(Tighten(best_->packs, ReserveForCells()));
      if (ended) return absl::OkStatus();
      steps_per_plan_ = std::min(kMostSteps, kStepsGrowth * steps_per_plan_);
    }
  }

  uint64_t FirstSteps() const {
    const uint64_t most = OptimizerOptions::kDefaultSteps;
    const uint64_t sizes = graphs_.num_distinct();
    const uint64_t packs = grid_->fewest_packs();
    const uint64_t graphs_a_pack = std::min(graphs_.num_graphs() / packs + 1, most);
    const uint64_t draws = std::min(std::min(packs, sizes) * graphs_a_pack, most);
    return std::min(kFirstSteps + kFirstStepsPerTuple * sizes + kFirstStepsPerDraw * draws, most);
  }

  // False if another round should follow, with more steps for each plan.
  absl::StatusOr<bool> SearchRound(uint64_t most_plans, uint64_t reserve) {
    const uint64_t most_roots = options_.steps / 8 / CandidateQueue::kStepsPerRoot;
    CandidateQueue queue(*grid_, std::max<uint64_t>(most_roots, 1024), budget_);
    round_.clear();
    for (uint64_t plans = 0;; ++plans) {
      const std::optional<Candidate> candidate = queue.Next();
      if (was_cancelled_ || budget_.cancelled()) return Cancelled();
      if (!candidate) break;
      if (best_) {
        if (candidate->bound >= ValueOf(*best_)) break;
        if (!CanPlan(steps_per_plan_, reserve)) {
          next_bound_ = candidate->bound;
          break;
        }
        if (plans == most_plans) return false;
      }
      PH_ASSIGN_OR_RETURN(const CertifiedPlan plan, Plan(*candidate, steps_per_plan_));
      facts_.planned += NotePacks(*candidate, plan.packs) ? 1 : 0;
      Offer(*candidate, plan);
      if (!budget_.HoldMore(BytesOfPlanned())) return Cancelled();
      round_.push_back({*candidate, plan.packs});
      if (++plans_since_report_ == kPlansPerReport) Report();
    }
    chain_complete_ = queue.complete();
    return true;
  }

  // Plans of few steps depend on the seed: the candidates that came closest get another chance.
  absl::Status Retry(uint64_t reserve) {
    std::erase_if(round_, [this](const Planned& planned) {
      return planned.candidate.bound >= ValueOf(*best_);
    });
    std::stable_sort(round_.begin(), round_.end(), [this](const Planned& a, const Planned& b) {
      return grid_->ValueOfCapacities(a.candidate.capacities, a.packs) <
             grid_->ValueOfCapacities(b.candidate.capacities, b.packs);
    });
    if (round_.size() > kRetried) round_.resize(kRetried);
    for (uint64_t retry = 1; retry <= kRetries; ++retry) {
      for (const auto& [candidate, packs] : round_) {
        if (candidate.bound >= ValueOf(*best_)) continue;
        if (!CanPlan(steps_per_plan_, reserve)) return absl::OkStatus();
        PH_ASSIGN_OR_RETURN(const CertifiedPlan plan, Plan(candidate, steps_per_plan_, retry));
        NotePacks(candidate, plan.packs);
        Offer(candidate, plan);
      }
    }
    return absl::OkStatus();
  }

  // If there are few packs, one more pack costs more than slightly larger capacities. Looks for the
  // least capacities that need no more than `packs`.
  absl::Status Tighten(uint64_t packs, uint64_t reserve) {
    if (packs > kMostPacksToTighten || packs <= grid_->fewest_packs()) return absl::OkStatus();
    std::optional<GridPositions> low = grid_->Balanced(packs);
    std::optional<GridPositions> high = grid_->Balanced(packs - 1);
    for (int i = 0; i < kTightenings && low && high && CanPlan(steps_per_plan_, reserve); ++i) {
      GridPositions middle(low->size());
      for (size_t j = 0; j < middle.size(); ++j) {
        middle[j] = (*low)[j] + ((*high)[j] - (*low)[j] + 1) / 2;
      }
      if (middle == *high) break;
      const Candidate candidate = grid_->At(middle);
      PH_ASSIGN_OR_RETURN(const CertifiedPlan plan, Plan(candidate, steps_per_plan_));
      facts_.planned += NotePacks(candidate, plan.packs) ? 1 : 0;
      Offer(candidate, plan);
      (plan.packs <= packs ? high : low) = std::move(middle);
    }
    return absl::OkStatus();
  }

  // The bytes of a planned candidate: its capacities in the list of the round, which may have twice
  // the room that it needs, and in the map by class.
  uint64_t BytesOfPlanned() const {
    constexpr uint64_t kNode = 128;
    return 3 * sizeof(Planned) + kNode + 2 * sizeof(uint64_t) * profile_.components.size();
  }

  // Whether the candidate had not been planned before.
  bool NotePacks(const Candidate& candidate, uint64_t packs) {
    const auto [place, is_new] = packs_.emplace(PackingClass(candidate.capacities), packs);
    place->second = std::min(place->second, packs);
    return is_new;
  }

  // What counts as equal to the best. A device that is measured tells what a step costs.
  double EqualCost() const {
    const bool is_open =
        options_.objective == TuneObjective::kEpochCost && profile_.measured_as.empty();
    return is_open ? options_.equal_cost : 0;
  }
  double MostValue() const { return ValueOf(*best_) * (1 + EqualCost()); }

  // The balanced candidates that are larger than the best one and may be equal to it, the largest
  // first.
  std::vector<Candidate> LargerCandidates() {
    std::vector<Candidate> larger;
    const double most = MostValue();
    const double cost = CostOfShape(profile_, best_->capacities);
    grid_->VisitBalanced(kFrontierSample, [&](uint64_t, const GridPositions& positions) {
      if (!budget_.Spend(4 * CandidateQueue::kStepsPerRoot)) return false;
      Candidate candidate = grid_->At(positions);
      if (CostOfShape(profile_, candidate.capacities) <= cost) return false;
      if (candidate.least_packs < best_->packs && candidate.bound <= most) {
        if (!budget_.HoldMore(BytesOfPlanned())) return false;
        larger.push_back(std::move(candidate));
      }
      return true;
    });
    return larger;
  }

  // Looks for the fewest packs among the shapes that count as equal to the best one. Plans that
  // miss their bound by one pack miss the cost if there are few packs: smaller shapes are then
  // tried, at first one by one, then in longer and longer strides.
  absl::Status PreferFewPacks() {
    if (MostValue() <= ValueOf(*best_)) return absl::OkStatus();
    const uint64_t reserve = ReserveForShapes() + options_.steps / 16;
    const std::vector<Candidate> larger = LargerCandidates();
    if (budget_.cancelled()) return Cancelled();
    // The last that was too costly, as the number of the one after it.
    size_t low = 0;
    size_t high = larger.size();
    size_t at = 0;
    for (size_t plans = 0; plans < kMostLarger && low < high; ++plans) {
      if (!CanPlan(steps_per_plan_, reserve)) break;
      if (!budget_.HoldMore(BytesOfPlanned())) return Cancelled();
      PH_ASSIGN_OR_RETURN(const CertifiedPlan plan, Plan(larger[at], steps_per_plan_));
      facts_.planned += NotePacks(larger[at], plan.packs) ? 1 : 0;
      Offer(larger[at], plan);
      if (grid_->ValueOfCapacities(larger[at].capacities, plan.packs) <= MostValue()) {
        large_ = ShapeOf(larger[at], plan);
        large_bound_name_ = LowerBoundName(plan.bound, schema_);
        high = at;
      } else {
        low = at + 1;
      }
      at = large_ ? low + (high - low) / 2 : std::min(low + plans / 4 * low, high - 1);
    }
    return was_cancelled_ ? Cancelled() : absl::OkStatus();
  }

  // For each of a few shape costs, the candidate with the best bound.
  std::vector<Candidate> FrontierCandidates() {
    const auto cost_of = [this](const GridPositions& positions) {
      return CostOfShape(profile_, grid_->At(positions).capacities);
    };
    const double least = cost_of(GridPositions(grid_->num_axes(), 0));
    const double most = CostOfShape(profile_, best_->capacities);
    // Costs with the same leading bits share a bucket: evenly spaced within each factor of two.
    int dropped_bits = 40;
    const auto bucket_of = [&](double cost) {
      return std::bit_cast<uint64_t>(cost) >> dropped_bits;
    };
    while (dropped_bits < 62 && bucket_of(most) - bucket_of(least) >= kMaxFrontier) ++dropped_bits;
    std::map<uint64_t, Candidate> best;
    grid_->VisitBalanced(kFrontierSample, [&](uint64_t, const GridPositions& positions) {
      if (!budget_.Spend(4 * CandidateQueue::kStepsPerRoot)) return false;
      Candidate candidate = grid_->At(positions);
      const double cost = CostOfShape(profile_, candidate.capacities);
      if (cost >= most) return true;
      const auto [place, is_new] = best.try_emplace(bucket_of(cost), candidate);
      if (!is_new && candidate.bound < place->second.bound) place->second = std::move(candidate);
      return true;
    });
    std::vector<Candidate> candidates;
    candidates.reserve(best.size());
    for (auto& [bucket, candidate] : best) candidates.push_back(std::move(candidate));
    return candidates;
  }

  absl::Status PlanFrontier() {
    const uint64_t reserve = ReserveForShapes();
    const uint64_t steps = options_.steps_per_plan != 0 ? steps_per_plan_ : steps_per_plan_ / 2;
    std::vector<TunedShape> points;
    double best_value = 0;
    for (const Candidate& candidate : FrontierCandidates()) {
      if (!points.empty() && candidate.bound >= best_value) continue;
      if (!CanPlan(steps, reserve)) break;
      PH_ASSIGN_OR_RETURN(const CertifiedPlan plan, Plan(candidate, steps));
      const double value = grid_->ValueOfCapacities(candidate.capacities, plan.packs);
      // A candidate can be the best of all only if the search was not exact.
      Offer(candidate, plan);
      if (!points.empty() && value >= best_value) continue;
      best_value = value;
      points.push_back(ShapeOf(candidate, plan));
    }
    if (was_cancelled_) return Cancelled();
    points.push_back(*best_);
    for (TunedShape& point : points) {
      if (!result_.frontier.empty() && !IsBetter(point, result_.frontier.back())) continue;
      result_.frontier.push_back(std::move(point));
    }
    return absl::OkStatus();
  }

  // Capacities of one class hold the same sets of graphs.
  std::vector<uint64_t> PackingClass(absl::Span<const uint64_t> capacities) const {
    std::vector<uint64_t> units;
    for (size_t k = 0; k < capacities.size(); ++k) {
      if (capacities[k] == kUnlimited) continue;
      const uint64_t divisor = std::max<uint64_t>(demand_.divisors[k], 1);
      units.push_back(std::min(capacities[k], demand_.totals[k]) / divisor);
    }
    return units;
  }

  // Every candidate of the profile, whether it matters or not.
  absl::Status ListCells() {
    const uint64_t reserve = ReserveForFrontier();
    std::vector<uint64_t> capacities(profile_.components.size(), kUnlimited);
    std::vector<size_t> costed;
    for (size_t k = 0; k < capacities.size(); ++k) {
      if (!HasCost(profile_.components[k])) continue;
      costed.push_back(k);
      capacities[k] = SmallestCapacity(profile_.components[k]);
    }
    const uint64_t steps = budget_.remaining() - std::min(reserve, budget_.remaining());
    const uint64_t least = LeastPlanSteps(graphs_);
    const uint64_t share = steps / facts_.candidates;
    const uint64_t steps_per_cell = std::min(kMostStepsPerCell, share - std::min(share, least));
    // If not every cell can be planned, the planned cells are spread evenly.
    const uint64_t stride = share >= least ? 1 : least / (share + 1) + 1;
    for (uint64_t number = 0;; ++number) {
      if (number % kCellsBetweenAsking == 0 && is_cancelled_()) return Cancelled();
      if (const std::optional<Candidate> candidate = grid_->Fill(capacities)) {
        PH_RETURN_IF_ERROR(AddCell(*candidate, number % stride == 0, steps_per_cell, reserve));
      }
      // The next capacities, as an odometer.
      size_t j = costed.size();
      while (j != 0) {
        const ComponentProfile& component = profile_.components[costed[j - 1]];
        uint64_t& capacity = capacities[costed[j - 1]];
        if (capacity != LargestCapacity(component)) {
          capacity += component.multiple_of;
          break;
        }
        capacity = SmallestCapacity(component);
        --j;
      }
      if (j == 0) return absl::OkStatus();
    }
  }

  absl::Status AddCell(const Candidate& candidate, bool may_plan, uint64_t steps,
                       uint64_t reserve) {
    constexpr uint64_t kBlock = 16;  // What the allocator needs for a block of its own.
    if (!budget_.HoldMore(BytesOfPlanned() + 3 * sizeof(TuneCell) + kBlock +
                          sizeof(uint64_t) * candidate.capacities.size())) {
      return Cancelled();
    }
    const std::vector<uint64_t> packing_class = PackingClass(candidate.capacities);
    auto found = packs_.find(packing_class);
    if (found == packs_.end() && may_plan && CanPlan(steps, reserve)) {
      PH_ASSIGN_OR_RETURN(const CertifiedPlan plan, Plan(candidate, steps));
      Offer(candidate, plan);
      found = packs_.emplace(packing_class, plan.packs).first;
    }
    TuneCell cell;
    cell.planned = found != packs_.end();
    const uint64_t packs = cell.planned ? found->second : candidate.least_packs;
    cell.harmonic_mean = HarmonicMean(graphs_, RowsOf(candidate.capacities, packs));
    cell.epoch_cost = static_cast<double>(packs) * CostOfShape(profile_, candidate.capacities);
    cell.capacities = candidate.capacities;
    result_.cells.push_back(std::move(cell));
    return absl::OkStatus();
  }

  // Concludes what all plans together prove.
  void Conclude() {
    if (next_bound_) {
      facts_.possible_gain = std::max(0.0, 1 - *next_bound_ / ValueOf(*best_));
    }
    facts_.all_looked_at = chain_complete_ && facts_.possible_gain.value_or(0) == 0;
    result_.exact = facts_.all_looked_at && profile_.max_distinct_shapes == 1;
    if (!facts_.all_looked_at) return;
    facts_.excluded =
        facts_.candidates == UINT64_MAX ? UINT64_MAX : facts_.candidates - facts_.planned;
  }

  void Recommend() {
    result_.cheapest_shape = *best_;
    result_.single_shape = *best_;
    if (large_ && large_->packs < best_->packs && ValueOf(*large_) <= MostValue()) {
      result_.single_shape = *large_;
      facts_.bound_name = large_bound_name_;
    }
    result_.shapes = {result_.single_shape};
    result_.group_graphs = {graphs_.num_graphs()};
    result_.epoch_cost = result_.single_shape.epoch_cost;
    result_.harmonic_mean = result_.single_shape.harmonic_mean;
    for (size_t k = 0; k < profile_.components.size(); ++k) {
      if (!HasCost(profile_.components[k])) continue;
      result_.least_cost +=
          profile_.components[k].relative_cost * static_cast<double>(demand_.totals[k]);
    }
    // Rounding must not make it larger.
    result_.least_cost = std::min(result_.least_cost, best_->epoch_cost);
  }

  // Several shapes, too, are worth it only if they cost less than what counts as equal.
  double MostCostOfSeveral() const {
    return std::min(result_.single_shape.epoch_cost,
                    result_.cheapest_shape.epoch_cost / (1 + EqualCost()));
  }

  absl::Status TrySeveralShapes() {
    OptimizerOptions plan_options = PlanOptions();
    plan_options.steps = std::min(plan_options.steps, budget_.remaining() / kLeastShapePlans);
    PH_ASSIGN_OR_RETURN(
        const std::vector<ShapePacks> shapes,
        ChooseShapes(graphs_, profile_, MostCostOfSeveral(), plan_options, budget_));
    if (shapes.empty()) return absl::OkStatus();
    return TakeShapes(shapes);
  }

  // Fills in the recommended shapes and their figures.
  absl::Status TakeShapes(absl::Span<const ShapePacks> shapes) {
    result_.shapes.clear();
    result_.epoch_cost = 0;
    std::vector<double> rows(profile_.components.size(), 0);
    for (const ShapePacks& packs : shapes) {
      PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create(packs.capacities));
      const PlanQuality quality = MeasurePlan(packs.plan, packs.graphs, limits);
      TunedShape shape;
      shape.capacities = packs.capacities;
      shape.packs = quality.packs;
      shape.lower_bound = quality.lower_bound;
      shape.components = quality.components;
      FitToPacks(shape);
      FillCosts(shape);
      const std::vector<double> shape_rows = RowsOf(shape.capacities, shape.packs);
      shape.harmonic_mean = HarmonicMean(packs.graphs, shape_rows);
      for (size_t k = 0; k < rows.size(); ++k) rows[k] += shape_rows[k];
      result_.epoch_cost += shape.epoch_cost;
      result_.shapes.push_back(std::move(shape));
    }
    result_.harmonic_mean = HarmonicMean(graphs_, rows);
    result_.least_cost = std::min(result_.least_cost, result_.epoch_cost);
    // A larger shape takes every pack that a smaller one takes.
    for (size_t i = result_.shapes.size() - 1; i != 0; --i) {
      for (size_t j = 0; j < i; ++j) {
        if (!ShapeTakes(shapes[j].capacities, shapes[i].capacities)) continue;
        TunedShape& larger = result_.shapes[j];
        for (size_t k = 0; k < larger.capacities.size(); ++k) {
          if (!IsFitted(k)) continue;
          larger.capacities[k] = std::max(larger.capacities[k], result_.shapes[i].capacities[k]);
        }
        FillCosts(larger);
      }
    }
    return absl::OkStatus();
  }

  // Whether a capacity is lowered in the end to what packs need.
  bool IsFitted(size_t k) const {
    return profile_.components[k].fits_packs && !HasCost(profile_.components[k]);
  }

  // Each group has at least one shape of its own; the first, which has the most graphs, has those
  // that are left. Groups are tuned one by one, as if there were no others; then all graphs are
  // planned with all shapes.
  absl::StatusOr<TuneResult> TuneGroups(const SizeGroups& found) {
    const SizeHistogram all = graphs_;
    PH_RETURN_IF_ERROR(Remove(found.left_out));
    const size_t num_groups = found.groups.size();
    if (result_.oversize) result_.oversize->num_shapes = static_cast<uint32_t>(num_groups);
    if (!budget_.HoldMore(3 * SizeHistogram::BytesFor(all.num_distinct(), all.num_components()))) {
      return Cancelled();
    }
    // The first group has two shares, the plan for all has one.
    const uint64_t share = options_.steps / (num_groups + 2);
    std::vector<std::vector<uint64_t>> shapes;
    for (size_t i = 0; i < num_groups; ++i) {
      SizeHistogram group(all.num_components());
      for (const SizeTuple& tuple : found.groups[i]) {
        PH_RETURN_IF_ERROR(group.Add(tuple, all.CountOf(tuple)));
      }
      DeviceProfile profile = profile_;
      TuneOptions options = options_;
      options.is_cancelled = is_cancelled_;
      options.steps = share;
      profile.max_distinct_shapes = 1;
      if (i == 0) {
        profile.max_distinct_shapes =
            profile_.max_distinct_shapes - static_cast<uint32_t>(num_groups - 1);
        options.steps = 2 * share;
      } else {
        options.include_grid = false;
        options.progress = nullptr;
      }
      PH_ASSIGN_OR_RETURN(TuneResult tuned, LimitTuner(group, profile, schema_, options).Run());
      for (size_t j = 0; j < tuned.shapes.size(); ++j) {
        std::vector<uint64_t> shape = Unfitted(tuned.shapes[j].capacities);
        // The shapes of a group are each within the one before.
        for (size_t k = 0; j != 0 && k < shape.size(); ++k) {
          shape[k] = std::min(shape[k], shapes.back()[k]);
        }
        shapes.push_back(std::move(shape));
      }
      if (i == 0) {
        tuned.oversize = std::exchange(result_.oversize, std::nullopt);
        result_ = std::move(tuned);
      }
    }
    PH_RETURN_IF_ERROR(PlanGroups(std::move(shapes), share));
    if (was_cancelled_) return Cancelled();
    // Whether other groups would cost less was not searched.
    result_.exact = false;
    result_.group_graphs.clear();
    for (const std::vector<SizeTuple>& group : found.groups) {
      result_.group_graphs.push_back(0);
      for (const SizeTuple& tuple : group) result_.group_graphs.back() += all.CountOf(tuple);
    }
    std::vector<std::string> reasons = GroupReasons(result_, schema_);
    result_.reasons.insert(result_.reasons.begin(), reasons.begin(), reasons.end());
    if (result_.oversize) {
      reasons = OversizeReasons(*result_.oversize, profile_, schema_);
      result_.reasons.insert(result_.reasons.end(), reasons.begin(), reasons.end());
    }
    return std::move(result_);
  }

  // The capacities of a shape as it is laid out, for real rows. Fitted ones are as large as the
  // memory allows, component by component, so that packs can be filled up with graphs of other
  // groups.
  std::vector<uint64_t> Unfitted(std::vector<uint64_t> capacities) const {
    for (size_t k = 0; k < capacities.size(); ++k) {
      if (capacities[k] != kUnlimited) capacities[k] -= profile_.components[k].reserved_rows;
    }
    for (size_t k = 0; k < capacities.size(); ++k) {
      if (!IsFitted(k) || capacities[k] == kUnlimited) continue;
      const ComponentProfile& component = profile_.components[k];
      std::vector<uint64_t> larger = capacities;
      uint64_t low = 0;
      uint64_t high = (LargestCapacity(component) - capacities[k]) / component.multiple_of;
      while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        larger[k] = capacities[k] + middle * component.multiple_of;
        if (FitsMemory(profile_, larger)) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      capacities[k] += low * component.multiple_of;
    }
    return capacities;
  }

  // Plans all graphs for the shapes of all groups.
  absl::Status PlanGroups(std::vector<std::vector<uint64_t>> shapes, uint64_t steps) {
    // A pack gets the last shape that takes it, so the cheapest shapes come last. A shape that
    // takes another costs no less, and has no smaller capacities.
    std::sort(shapes.begin(), shapes.end(),
              [&](const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
                const double cost_a = CostOfShape(profile_, a);
                const double cost_b = CostOfShape(profile_, b);
                return cost_a != cost_b ? cost_a > cost_b : a > b;
              });
    shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
    OptimizerOptions plan_options = PlanOptions();
    plan_options.steps = std::min(OptimizerOptions::kDefaultSteps, steps / shapes.size());
    WorkBudget budget = budget_.Part(steps);
    PH_ASSIGN_OR_RETURN(std::vector<ShapePacks> packs,
                        PlanForShapes(graphs_, shapes, plan_options, budget));
    std::erase_if(packs, [](const ShapePacks& shape) { return shape.plan.patterns.empty(); });
    result_.least_cost = 0;
    demand_ = DemandOf(graphs_);
    for (size_t k = 0; k < profile_.components.size(); ++k) {
      if (!HasCost(profile_.components[k])) continue;
      result_.least_cost +=
          profile_.components[k].relative_cost * static_cast<double>(demand_.totals[k]);
    }
    PH_RETURN_IF_ERROR(TakeShapes(packs));
    for (TunedShape& shape : result_.shapes) LayOut(shape);
    return absl::OkStatus();
  }

  const DeviceProfile& profile_;
  const SizeSchema& schema_;
  const TuneOptions& options_;
  // Without left-out graphs.
  SizeHistogram graphs_;
  GraphDemand demand_;
  std::optional<CandidateGrid> grid_;
  bool was_cancelled_ = false;
  const std::function<bool()> is_cancelled_;
  WorkBudget budget_;
  TuningFacts facts_;
  uint64_t plans_since_report_ = 0;
  std::optional<TunedShape> best_;
  // One with fewer packs that counts as equal to it, and the name of its bound.
  std::optional<TunedShape> large_;
  std::string large_bound_name_;
  // Steps for each plan.
  uint64_t steps_per_plan_ = 0;
  // The last round: its planned candidates, the bound of the next candidate if the budget ended
  // there, and whether there was a bound for every candidate.
  std::vector<Planned> round_;
  std::optional<double> next_bound_;
  bool chain_complete_ = false;
  // Packs of the planned candidates, by PackingClass.
  std::map<std::vector<uint64_t>, uint64_t> packs_;
  TuneResult result_;
};

}  // namespace

uint64_t TunerBytes(uint64_t num_distinct, size_t num_components) {
  // Histograms that exist at a time: the graphs without those that are left out, and those of up to
  // two sets of shapes, each with a plan of its own.
  constexpr uint64_t kHistograms = 4;
  // For each size: its place in the order by hardness, and totals and largest sizes from there on.
  const uint64_t picking = 24 + 2 * sizeof(uint64_t) * (num_components + 1);
  constexpr uint64_t kLeast = uint64_t{16} << 20;
  return kLeast + kHistograms * SizeHistogram::BytesFor(num_distinct, num_components) +
         picking * num_distinct + 2 * PlannerBytes(num_distinct, num_components);
}

absl::StatusOr<TuneResult> TuneLimits(const SizeHistogram& histogram, const DeviceProfile& profile,
                                      const SizeSchema& schema, const TuneOptions& options) {
  return LimitTuner(histogram, profile, schema, options).Run();
}

}  // namespace packhouse
