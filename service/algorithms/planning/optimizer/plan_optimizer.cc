#include "service/algorithms/planning/optimizer/plan_optimizer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/dual_feasible_bound.h"
#include "service/algorithms/planning/optimizer/column_generation.h"
#include "service/algorithms/planning/optimizer/component_program.h"
#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"
#include "service/algorithms/planning/optimizer/merged_items.h"
#include "service/algorithms/planning/optimizer/mixing.h"
#include "service/algorithms/planning/optimizer/plan_improvement.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/supply_bound.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/status_macros.h"
#include "service/base/vector_level.h"

namespace packhouse {
namespace {

// Tuples of a plan are ascending.
std::optional<uint32_t> FindTuple(const PackingPlan& plan, absl::Span<const uint32_t> tuple) {
  size_t low = 0;
  size_t high = plan.num_tuples();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (plan.tuple(middle) < tuple) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == plan.num_tuples() || plan.tuple(low) != tuple) return std::nullopt;
  return static_cast<uint32_t>(low);
}

// The entries in this problem's numbers, without sizes that have no graphs; false if they do not
// fit together here.
bool Translate(const PackingProblem& problem, const PackingPlan& now, const MergedItems& merged,
               const PackingPlan& earlier, const Pattern& pattern,
               std::vector<PatternEntry>& entries) {
  std::vector<uint64_t> room(problem.capacities().begin(), problem.capacities().end());
  for (const auto& [tuple, copies] : pattern.entries) {
    if (tuple >= earlier.num_tuples() || copies == 0) return false;
    const std::optional<uint32_t> found = FindTuple(now, earlier.tuple(tuple));
    if (!found) continue;
    const uint32_t item = merged.merged(*found);
    if (problem.count(item) == 0) continue;
    for (size_t k = 0; k < room.size(); ++k) {
      const uint64_t rows = uint64_t{problem.sizes(item)[k]} * copies;
      if (rows > room[k]) return false;
      room[k] -= rows;
    }
    entries.push_back({item, copies});
  }
  std::sort(entries.begin(), entries.end(),
            [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; });
  // A tuple may have been listed twice, and several tuples may be one item.
  size_t last = 0;
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].tuple == entries[last].tuple) {
      if (entries[i].copies > UINT32_MAX - entries[last].copies) return false;
      entries[last].copies += entries[i].copies;
    } else {
      entries[++last] = entries[i];
    }
  }
  if (!entries.empty()) entries.resize(last + 1);
  return true;
}

// Uses patterns of `earlier`, a plan of as many components, as far as the counts allow, and
// first-fit decreasing for the rest. `now` has the tuples of the present histogram, and `merged`
// makes them the items of `problem`, whose numbers the patterns have. Each pattern that is still
// possible joins `pool`, once. Any nonsense may be in `earlier`. Empty if `budget` has no room or
// the caller gave up.
std::vector<Pattern> PlanFromWarmStart(const PackingProblem& problem, const PackingPlan& now,
                                       const MergedItems& merged, const PackingPlan& earlier,
                                       VectorLevel level, WorkBudget& budget,
                                       std::vector<Pattern>& pool) {
  std::vector<uint64_t> left(problem.counts().begin(), problem.counts().end());
  std::vector<Pattern> kept;
  uint64_t bytes = 0;
  for (const Pattern& pattern : earlier.patterns) {
    Pattern used;
    used.repeats = pattern.repeats;
    if (!Translate(problem, now, merged, earlier, pattern, used.entries)) continue;
    if (used.entries.empty()) continue;
    pool.push_back({used.entries, 1});
    // As often as what is left allows.
    for (const auto& [item, copies] : used.entries) {
      used.repeats = std::min(used.repeats, left[item] / copies);
    }
    if (used.repeats == 0) continue;
    for (const auto& [item, copies] : used.entries) left[item] -= copies * used.repeats;
    bytes += BytesInList(used);
    if (!budget.HoldList(bytes)) return {};
    kept.push_back(std::move(used));
  }
  const PackingProblem rest(problem, std::move(left));
  std::vector<Pattern> plan = std::move(kept);
  if (rest.num_graphs() != 0) {
    const std::vector<Pattern> more = PlanByFirstFitDecreasing(rest, level, &budget);
    plan.insert(plan.end(), more.begin(), more.end());
  }
  return plan;
}

// Whole runs of the mixing planner, before its best plan is improved in parts.
constexpr uint64_t kMixingRuns = 4;
// Items to choose from in the later ones, which only hard problems need.
constexpr int kLaterChoices = 64;
// Patient runs choose almost all items of a pack, and leave little to the exact search: dense
// graphs get the sparse ones that fill what they leave. The first later run is patient, the next is
// not; what comes after is as the best of them all.
constexpr int kPatientChoices = 32;
constexpr double kPatientFinishAt = 0.2;
// About the steps of one attempt to finish a pack, and the least attempts for a pack.
constexpr uint64_t kAttemptSteps = 100;
constexpr uint64_t kLeastAttempts = 4;

uint64_t NumPacks(absl::Span<const Pattern> patterns) {
  uint64_t packs = 0;
  for (const Pattern& pattern : patterns) packs += pattern.repeats;
  return packs;
}

class Optimizer {
 public:
  Optimizer(const SizeHistogram& histogram, const Limits& limits, const OptimizerOptions& options)
      : options_(options),
        budget_(options.steps, options.is_cancelled, options.memory),
        unbounded_(budget_.WithoutBound()),
        whole_(histogram, limits),
        merged_(whole_),
        problem_(WithoutWeightless(merged_.problem())) {
    bound_ = ComputeVolumeBound(histogram, limits);
  }

  CertifiedPlan Run() {
    if (problem_.num_graphs() != 0) Search();
    CertifiedPlan certified;
    certified.plan = whole_.empty_plan();
    // From here on the items are those of the histogram. If there is no room, cancelled() says so.
    certified.plan.patterns = merged_.Expand(best_, unbounded_).value_or(std::vector<Pattern>());
    AddWeightless(certified.plan.patterns);
    certified.packs = certified.plan.num_packs();
    certified.bound = bound_;
    certified.method = method_;
    certified.steps = options_.steps - budget_.remaining();
    return certified;
  }

  bool cancelled() const {
    return budget_.cancelled() || unbounded_.cancelled() ||
           (options_.memory != nullptr && options_.memory->refused());
  }

 private:
  // Items that have size 0 in every component of the problem fit into any pack; in the end all of
  // them join one.
  static bool IsWeightless(const PackingProblem& problem, size_t i) {
    const auto sizes = problem.sizes(i);
    return std::all_of(sizes.begin(), sizes.end(), [](uint32_t size) { return size == 0; });
  }
  static PackingProblem WithoutWeightless(const PackingProblem& problem) {
    std::vector<uint64_t> counts(problem.counts().begin(), problem.counts().end());
    for (size_t i = 0; i < counts.size(); ++i) {
      if (IsWeightless(problem, i)) counts[i] = 0;
    }
    return PackingProblem(problem, std::move(counts));
  }
  void AddWeightless(std::vector<Pattern>& patterns) const {
    Pattern pack;
    for (uint32_t i = 0; i < whole_.num_items(); ++i) {
      if (!IsWeightless(whole_, i)) continue;
      uint64_t left = whole_.count(i);
      // If there are far more than one pack can list, they get packs of their own.
      if (left > kMostCopies) {
        Pattern full;
        AddCopies(i, kMostCopies, full);
        full.repeats = (left - 1) / kMostCopies;
        left -= full.repeats * kMostCopies;
        patterns.push_back(std::move(full));
      }
      AddCopies(i, left, pack);
    }
    if (pack.entries.empty()) return;
    pack.repeats = 1;
    if (!patterns.empty()) {
      const std::vector<PatternEntry>& beside = patterns.back().entries;
      pack.entries.insert(pack.entries.begin(), beside.begin(), beside.end());
      if (--patterns.back().repeats == 0) patterns.pop_back();
    }
    std::sort(pack.entries.begin(), pack.entries.end(),
              [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; });
    patterns.push_back(std::move(pack));
  }

  bool Done() const { return best_packs_ == bound_.packs || budget_.remaining() == 0; }

  void Offer(std::vector<Pattern> patterns, PlanMethod method) {
    const uint64_t packs = NumPacks(patterns);
    if (packs >= best_packs_) return;
    best_ = std::move(patterns);
    best_packs_ = packs;
    method_ = method;
  }

  void Search() {
    const PackingPlan* const warm_start = options_.warm_start;
    const bool is_warm =
        warm_start != nullptr && warm_start->num_components == whole_.empty_plan().num_components;
    if (is_warm) {
      std::vector<Pattern> plan =
          PlanFromWarmStart(problem_, whole_.empty_plan(), merged_, *warm_start,
                            options_.vector_level, unbounded_, pool_);
      if (!plan.empty()) Offer(std::move(plan), PlanMethod::kWarmStart);
    }
    if (best_packs_ == bound_.packs || cancelled()) return;
    std::vector<Pattern> by_first_fit =
        PlanByFirstFitDecreasing(problem_, options_.vector_level, &unbounded_);
    if (cancelled()) return;
    pool_.insert(pool_.end(), by_first_fit.begin(), by_first_fit.end());
    Offer(std::move(by_first_fit), PlanMethod::kFirstFitDecreasing);
    if (Done() || problem_.num_components() == 0) return;
    if (is_warm) {
      RaiseBound();
      // If column generation can run, it makes better use of the patterns.
      if (!Done() && !SuitsColumnGeneration(problem_, budget_.remaining())) {
        Improve(kWarmTries, 2 * MixingSteps());
      }
      if (Done()) return;
    }
    Mix(0);
    if (Done()) return;
    if (!is_warm) RaiseBound();
    if (Done()) return;
    // Column generation comes first if it is quick, and last if it may need all steps that are
    // left.
    const bool is_quick = SuitsColumnGeneration(problem_, budget_.remaining() / kQuickShare);
    if (is_quick) GenerateColumns();
    for (uint64_t run = 1; run < kMixingRuns && !Done(); ++run) Mix(run);
    const bool is_slow = !is_quick && SuitsColumnGeneration(problem_, budget_.remaining());
    if (!Done()) Improve(kImprovementTries, budget_.remaining() / (is_slow ? kEarlyShare : 1));
    if (!Done() && is_slow) GenerateColumns();
  }

  void RaiseBound() {
    const LowerBound lifted = ComputeLiftedVolumeBound(problem_, options_.vector_level, budget_);
    if (lifted.packs > bound_.packs) bound_ = lifted;
    if (Done()) return;
    const LowerBound by_supply = ComputeSupplyBound(problem_, budget_);
    if (by_supply.packs > bound_.packs) bound_ = by_supply;
    if (Done()) return;
    const LowerBound by_function = ComputeDualFeasibleBound(problem_, budget_);
    if (by_function.packs > bound_.packs) bound_ = by_function;
    if (Done()) return;
    const uint64_t by_program =
        ComponentProgramBound(problem_, bound_.packs, options_.vector_level, budget_);
    if (by_program > bound_.packs) bound_ = {by_program, LowerBoundKind::kLinearProgram, 0};
  }

  // Patterns that a plan is likely to have.
  uint64_t LikelyPatterns() const {
    return std::min<uint64_t>(bound_.packs, 2 * problem_.num_items()) + 1;
  }
  // About the steps of one run of the mixing planner.
  uint64_t MixingSteps() const {
    return LikelyPatterns() * MixingOptions().attempts * kAttemptSteps;
  }

  void Mix(uint64_t run) {
    MixingOptions mixing;
    mixing.seed = options_.seed * kMixingRuns + run;
    mixing.target = bound_.packs;
    mixing.too_many = best_packs_;
    // As many as the budget allows for all packs.
    mixing.attempts = static_cast<uint32_t>(std::clamp<uint64_t>(
        budget_.remaining() / LikelyPatterns() / kAttemptSteps, kLeastAttempts, mixing.attempts));
    if (run != 0) mixing.choices = kLaterChoices;
    const bool is_patient = run == 1 || (run > 2 && is_patient_);
    if (is_patient) {
      mixing.choices = kPatientChoices;
      mixing.finish_at = kPatientFinishAt;
    }
    mixing.vector_level = options_.vector_level;
    std::optional<std::vector<Pattern>> patterns = PlanByMixing(problem_, mixing, budget_);
    if (patterns) is_patient_ = is_patient;
    if (patterns) Offer(*std::move(patterns), PlanMethod::kMixing);
  }

  void GenerateColumns() {
    ColumnGenerationOptions generation;
    generation.lower_bound = bound_.packs;
    generation.seed = options_.seed;
    generation.vector_level = options_.vector_level;
    // The rest is for improvement.
    const uint64_t share = budget_.remaining() - budget_.remaining() / 4;
    WorkBudget part(share, options_.is_cancelled, options_.memory);
    std::vector<Pattern> pool = pool_;
    pool.insert(pool.end(), best_.begin(), best_.end());
    ColumnGenerationResult result = PlanByColumnGeneration(problem_, pool, generation, part);
    budget_.Spend(share - part.remaining());
    if (result.lower_bound > bound_.packs) {
      bound_ = {result.lower_bound, LowerBoundKind::kLinearProgram, 0};
    }
    if (!result.patterns.empty()) Offer(std::move(result.patterns), PlanMethod::kColumnGeneration);
  }

  void Improve(uint32_t max_fruitless_tries, uint64_t steps) {
    ImprovementOptions improvement;
    improvement.target = bound_.packs;
    improvement.seed = options_.seed;
    improvement.max_fruitless_tries = max_fruitless_tries;
    if (is_patient_) {
      improvement.choices = kPatientChoices;
      improvement.finish_at = kPatientFinishAt;
    }
    improvement.vector_level = options_.vector_level;
    std::vector<Pattern> patterns = best_;
    const uint64_t share = std::min(steps, budget_.remaining());
    WorkBudget part(share, options_.is_cancelled, options_.memory);
    ImprovePlan(problem_, improvement, patterns, part);
    budget_.Spend(share - part.remaining());
    Offer(std::move(patterns),
          method_ == PlanMethod::kWarmStart ? PlanMethod::kWarmStart : PlanMethod::kImprovement);
  }

  static constexpr uint32_t kWarmTries = 60;
  static constexpr uint32_t kImprovementTries = 400;
  // Shares of the budget: what column generation may need to come first, and what improvement gets
  // before it.
  static constexpr uint64_t kQuickShare = 2;
  static constexpr uint64_t kEarlyShare = 5;

  const OptimizerOptions& options_;
  WorkBudget budget_;
  WorkBudget unbounded_;  // For first-fit decreasing, which is always done.
  const PackingProblem whole_;
  const MergedItems merged_;
  const PackingProblem problem_;  // The merged one, without weightless items.

  LowerBound bound_;
  std::vector<Pattern> best_;
  uint64_t best_packs_ = UINT64_MAX;
  PlanMethod method_ = PlanMethod::kFirstFitDecreasing;
  bool is_patient_ = false;  // The best plan of the mixing planner is of a patient run.
  // For column generation: patterns of first-fit decreasing and of the warm start.
  std::vector<Pattern> pool_;
};

}  // namespace

absl::string_view PlanMethodName(PlanMethod method) {
  switch (method) {
    case PlanMethod::kFirstFitDecreasing:
      return "first-fit decreasing";
    case PlanMethod::kMixing:
      return "mixing";
    case PlanMethod::kColumnGeneration:
      return "column generation";
    case PlanMethod::kImprovement:
      return "improvement";
    case PlanMethod::kWarmStart:
      return "warm start";
  }
  return "unknown";
}

uint64_t OptimizerOptions::StepsFor(const SizeHistogram& histogram, const Limits& limits) {
  return StepsFor(MergedItems(PackingProblem(histogram, limits)).problem().num_items());
}

absl::StatusOr<CertifiedPlan> OptimizePlan(const SizeHistogram& histogram, const Limits& limits,
                                           const OptimizerOptions& options) {
  Optimizer optimizer(histogram, limits, options);
  CertifiedPlan certified = optimizer.Run();
  if (optimizer.cancelled()) return absl::CancelledError("plan: given up by the caller");
  PH_RETURN_IF_ERROR(VerifyPlan(certified.plan, histogram, limits));
  return certified;
}

}  // namespace packhouse
