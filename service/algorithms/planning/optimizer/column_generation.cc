#include "service/algorithms/planning/optimizer/column_generation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/numeric/int128.h"
#include "service/algorithms/planning/optimizer/mixing.h"
#include "service/algorithms/planning/optimizer/pattern_program.h"
#include "service/algorithms/planning/pattern_pricing.h"
#include "service/base/seeded_random.h"

namespace packhouse {
namespace {

constexpr size_t kMostItems = 2048;
constexpr uint64_t kMostRooms = uint64_t{1} << 20;
// Usual steps: some pivots for each item, of n^2 / 16 each, and some dozen pricings.
constexpr uint64_t kStepsOfPivots = 4;  // n^3 / this
constexpr uint64_t kUsualPricings = 32;
// Patterns that join the pool after one pricing.
constexpr size_t kMostNewPatterns = 48;
// After this many pricings, the program is used as it is; and after as many more in one dive.
constexpr int kMaxRounds = 200;
// One pack in whole numbers, if no pattern is worth more than two.
constexpr double kFullScale = double{uint32_t{1} << 29};
constexpr double kTolerance = 1e-7;
// Rounding: the most packs that are given back, tries for each number of them, ways to finish one
// pack.
constexpr uint64_t kMostGivenBack = 4;
constexpr int kTries = 6;
constexpr uint32_t kRestAttempts = 96;
// Later dives may choose patterns this much further from a whole pack than the nearest.
constexpr double kNoise = 0.3;

class ColumnGeneration {
 public:
  ColumnGeneration(const PackingProblem& problem, const ColumnGenerationOptions& options,
                   WorkBudget& budget)
      : problem_(problem),
        options_(options),
        budget_(budget),
        random_(options.seed),
        pricing_(problem, options.vector_level),
        program_(Demand(problem), MostCopies(problem), options.vector_level) {
    result_.lower_bound = options.lower_bound;
  }

  ColumnGenerationResult Run(absl::Span<const Pattern> pool) {
    for (const Pattern& pattern : pool) program_.AddPattern(pattern.entries);
    if (!Solve() || options_.only_bound) return std::move(result_);
    while (budget_.remaining() != 0 && !Optimal()) {
      if (!Dive(program_)) break;
      ++dives_;
    }
    return std::move(result_);
  }

 private:
  bool Optimal() const { return !result_.patterns.empty() && result_.packs == result_.lower_bound; }

  static std::vector<double> Demand(const PackingProblem& problem) {
    return {problem.counts().begin(), problem.counts().end()};
  }
  static std::vector<uint32_t> MostCopies(const PackingProblem& problem) {
    std::vector<uint32_t> copies;
    for (size_t i = 0; i < problem.num_items(); ++i) copies.push_back(problem.MostCopies(i));
    return copies;
  }

  // The duals in whole numbers, scaled so that no pattern is worth more than kMaxWorth.
  std::vector<int32_t> ScaledDuals(const PatternProgram& program, double& scale) const {
    const absl::Span<const double> duals = program.duals();
    // Each item of a pattern takes its largest share of some capacity. The sum of these shares is
    // at most the number of capacities.
    double most = 0;
    for (size_t i = 0; i < problem_.num_items(); ++i) {
      if (problem_.count(i) != 0) most = std::max(most, duals[i] / problem_.LargestShare(i));
    }
    most *= static_cast<double>(problem_.num_components());
    // No pattern is worth more than component k's room filled with the item that is worth most for
    // each row of k.
    for (size_t k = 0; k < problem_.num_components(); ++k) {
      double best = 0;
      for (size_t i = 0; i < problem_.num_items(); ++i) {
        if (duals[i] <= 0 || problem_.count(i) == 0) continue;
        const uint32_t size = problem_.sizes(i)[k];
        best = size == 0 ? 1e300 : std::max(best, duals[i] / size);
      }
      most = std::min(most, best * static_cast<double>(problem_.capacity(k)));
    }
    scale = std::min(kFullScale, (PatternPricing::kMaxWorth - 1) / most);
    std::vector<int32_t> values;
    for (size_t i = 0; i < duals.size(); ++i) {
      const double dual = problem_.count(i) == 0 ? 0.0 : duals[i];
      values.push_back(static_cast<int32_t>(std::max(dual, 0.0) * scale));
    }
    return values;
  }

  // Does one pricing. True if patterns that are worth more than a pack joined the pool.
  bool Price(PatternProgram& program) {
    double scale = 0;
    const std::vector<int32_t> values = ScaledDuals(program, scale);
    if (scale < 1) return false;
    pricing_.Solve(values);
    budget_.Spend(pricing_.LastSteps());
    // No pattern is worth more than the best one. So the worth of all items needs at least this
    // many packs.
    if (pricing_.Best() > 0) {
      absl::uint128 worth = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        worth += absl::uint128{problem_.count(i)} * static_cast<uint32_t>(values[i]);
      }
      const auto best = static_cast<uint32_t>(pricing_.Best());
      result_.lower_bound =
          std::max(result_.lower_bound, static_cast<uint64_t>((worth + best - 1) / best));
    }
    std::vector<uint32_t> candidates;
    const double least = scale * (1 + kTolerance);
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (problem_.count(i) != 0 && pricing_.BestWith(i) > least) candidates.push_back(i);
    }
    std::sort(candidates.begin(), candidates.end(), [&](uint32_t a, uint32_t b) {
      const int32_t worth_a = pricing_.BestWith(a);
      const int32_t worth_b = pricing_.BestWith(b);
      return worth_a != worth_b ? worth_a > worth_b : a < b;
    });
    std::vector<Pattern> added;
    for (const uint32_t item : candidates) {
      if (added.size() == kMostNewPatterns) break;
      Pattern pattern = pricing_.PatternWith(item);
      budget_.Spend(values.size());
      if (std::find(added.begin(), added.end(), pattern) != added.end()) continue;
      program.AddPattern(pattern.entries);
      added.push_back(std::move(pattern));
    }
    return !added.empty();
  }

  // Solves the program over all patterns, or until its value, rounded up, cannot change any more.
  // Leaves a share of the budget for rounding; false if the budget is used up nevertheless.
  bool Solve() {
    const uint64_t reserve = budget_.remaining() / 4;
    for (int round = 0; round < kMaxRounds; ++round) {
      if (!program_.SolvePrimal(budget_)) return false;
      if (static_cast<double>(result_.lower_bound) + kTolerance >= program_.Value()) return true;
      if (!Price(program_)) return true;
      if (budget_.remaining() == 0) return false;
      // Whole packs need their share of the budget. A program that is not at its optimum gives good
      // packs, too.
      if (budget_.remaining() < reserve) return program_.SolvePrimal(budget_);
    }
    return true;
  }

  // Makes at most `wanted` packs with the pattern, without copies of used-up items. Returns the
  // number of packs that were not empty.
  static uint64_t Emit(absl::Span<const PatternEntry> entries, uint64_t wanted,
                       std::vector<uint64_t>& left, std::vector<Pattern>& patterns) {
    uint64_t packs = 0;
    while (packs < wanted) {
      Pattern pattern;
      pattern.repeats = wanted - packs;
      for (const auto& [item, copies] : entries) {
        const auto kept = static_cast<uint32_t>(std::min<uint64_t>(copies, left[item]));
        if (kept == 0) continue;
        pattern.entries.push_back({item, kept});
        pattern.repeats = std::min(pattern.repeats, left[item] / kept);
      }
      if (pattern.entries.empty()) break;
      for (const auto& [item, copies] : pattern.entries) left[item] -= copies * pattern.repeats;
      packs += pattern.repeats;
      patterns.push_back(std::move(pattern));
    }
    return packs;
  }

  // Completes decided packs with packs of the other planners for the rest. Before that, a few
  // random decided packs are given back, since otherwise the rest may be too small to be flexible.
  void Complete(std::vector<uint64_t> left, std::vector<Pattern> patterns, uint64_t packs,
                uint64_t num_given_back) {
    for (uint64_t i = 0; i < num_given_back && !patterns.empty(); ++i) {
      Pattern& pattern = patterns[random_.Below(patterns.size())];
      if (pattern.repeats == 0) continue;
      --pattern.repeats;
      --packs;
      for (const auto& [item, copies] : pattern.entries) left[item] += copies;
    }
    const PackingProblem rest(problem_, std::move(left));
    std::vector<Pattern> more;
    if (rest.num_graphs() != 0) {
      MixingOptions mixing;
      mixing.seed = random_.Next();
      // With `target` packs for the rest the whole is proved optimal, with `too_many` no better
      // than what there is.
      mixing.target = result_.lower_bound - std::min(packs, result_.lower_bound);
      if (!result_.patterns.empty())
        mixing.too_many = result_.packs - std::min(packs, result_.packs);
      mixing.attempts = kRestAttempts;
      mixing.vector_level = options_.vector_level;
      std::optional<std::vector<Pattern>> mixed = PlanByMixing(rest, mixing, budget_);
      if (!mixed) return;
      more = *std::move(mixed);
      for (const Pattern& pattern : more) packs += pattern.repeats;
    }
    if (!result_.patterns.empty() && packs >= result_.packs) return;
    std::erase_if(patterns, [](const Pattern& pattern) { return pattern.repeats == 0; });
    patterns.insert(patterns.end(), more.begin(), more.end());
    result_.patterns = std::move(patterns);
    result_.packs = packs;
  }

  // After `packs` were decided: if the program needs too many for the rest, there may be patterns
  // for it that the whole did not need.
  bool PriceRest(PatternProgram& program, uint64_t packs) {
    const double wanted = static_cast<double>(result_.lower_bound) + kTolerance;
    for (; rounds_of_dive_ < kMaxRounds; ++rounds_of_dive_) {
      if (static_cast<double>(packs) + program.Value() <= wanted || !Price(program)) return true;
      if (!program.SolvePrimal(budget_)) return false;
    }
    return true;
  }

  // Goes from the optimum of `program` to whole packs, one decision after the other. After each
  // decision the rest is also tried at once. False if it cannot go on.
  bool Dive(PatternProgram program) {
    rounds_of_dive_ = 0;
    std::vector<uint64_t> left(problem_.counts().begin(), problem_.counts().end());
    std::vector<Pattern> patterns;
    uint64_t packs = 0;
    for (;;) {
      // Whole packs of the program's solution are decided.
      const std::vector<PatternProgram::Use> uses = program.Uses();
      for (const auto& [p, x] : uses) {
        packs += Emit(program.pattern(p), static_cast<uint64_t>(x + kTolerance), left, patterns);
      }
      for (uint64_t given_back = 0; given_back < kMostGivenBack; ++given_back) {
        for (int i = 0; i < kTries; ++i) Complete(left, patterns, packs, given_back);
        if (Optimal()) return true;
        if (budget_.remaining() == 0) return false;
      }
      double nearest = -1;
      const PatternProgram::Use* chosen = nullptr;
      for (const PatternProgram::Use& use : uses) {
        const double whole = static_cast<double>(static_cast<uint64_t>(use.packs + kTolerance));
        // The first dive takes the pattern nearest to a whole pack; later dives may differ.
        const double noise = static_cast<double>(random_.Below(1024)) / 1024;
        const double fraction = use.packs - whole + (dives_ == 0 ? 0 : kNoise * noise);
        if (fraction > nearest) {
          nearest = fraction;
          chosen = &use;
        }
      }
      // Then one pack of a pattern that has a fraction of one.
      if (chosen == nullptr || Emit(program.pattern(chosen->pattern), 1, left, patterns) == 0) {
        return true;
      }
      ++packs;
      if (!result_.patterns.empty() && packs + 1 >= result_.packs) return true;
      program.SetDemand(std::vector<double>(left.begin(), left.end()));
      if (!program.SolveDual(budget_)) return budget_.remaining() != 0;
      if (!PriceRest(program, packs)) return budget_.remaining() != 0;
    }
  }

  const PackingProblem& problem_;
  const ColumnGenerationOptions& options_;
  WorkBudget& budget_;
  SeededRandom random_;
  PatternPricing pricing_;
  PatternProgram program_;
  ColumnGenerationResult result_;
  int dives_ = 0;
  int rounds_of_dive_ = 0;  // Pricings of the present dive.
};

}  // namespace

uint64_t ColumnGenerationBytes(uint64_t num_items) {
  if (num_items > kMostItems) return 0;
  // The inverse of the basis, for the program and for the dive, and the worth of all rooms.
  return 2 * sizeof(double) * num_items * num_items + sizeof(int32_t) * kMostRooms;
}

bool SuitsColumnGeneration(const PackingProblem& problem, uint64_t steps) {
  const uint64_t n = problem.num_items();
  const uint64_t rooms = PatternPricing::NumRooms(problem);
  if (problem.num_components() == 0 || n > kMostItems || rooms > kMostRooms) return false;
  return n * n * n / kStepsOfPivots + PatternPricing::MostSteps(problem) * kUsualPricings <= steps;
}

ColumnGenerationResult PlanByColumnGeneration(const PackingProblem& problem,
                                              absl::Span<const Pattern> pool,
                                              const ColumnGenerationOptions& options,
                                              WorkBudget& budget) {
  return ColumnGeneration(problem, options, budget).Run(pool);
}

}  // namespace packhouse
