#include "service/algorithms/planning/optimizer/plan_improvement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/numeric/int128.h"
#include "service/algorithms/planning/optimizer/mixing.h"
#include "service/base/seeded_random.h"

namespace packhouse {
namespace {

// The most packs that are taken apart at once.
constexpr uint64_t kMostPacks = 1500;
// Random packs that are taken apart for variety: up to this many for each pack that wastes.
constexpr uint64_t kMostRandomShare = 4;
constexpr uint64_t kLeastRandom = 6;
constexpr uint32_t kAttempts = 96;

class Improvement {
 public:
  Improvement(const PackingProblem& problem, const ImprovementOptions& options,
              std::vector<Pattern>& patterns, WorkBudget& budget)
      : problem_(problem),
        options_(options),
        patterns_(patterns),
        budget_(budget),
        random_(options.seed),
        m_(problem.num_components()) {
    for (const Pattern& pattern : patterns_) packs_ += pattern.repeats;
  }

  uint64_t Run() {
    const uint64_t packs_before = packs_;
    uint32_t fruitless = 0;
    while (packs_ > options_.target && fruitless < options_.max_fruitless_tries &&
           budget_.remaining() != 0) {
      const uint64_t packs = packs_;
      if (!TryOnce()) break;
      fruitless = packs_ < packs ? 0 : fruitless + 1;
    }
    return packs_before - packs_;
  }

 private:
  // The share of the capacities that one pack leaves empty. Each component is weighted by how full
  // the packs must be in it.
  double WasteOf(const Pattern& pattern) const {
    double waste = 0;
    for (size_t k = 0; k < m_; ++k) {
      uint64_t rows = 0;
      for (const auto& [item, copies] : pattern.entries) {
        rows += uint64_t{problem_.sizes(item)[k]} * copies;
      }
      const auto capacity = static_cast<double>(problem_.capacity(k));
      const double load =
          static_cast<double>(problem_.total(k)) / (capacity * static_cast<double>(packs_));
      // The eighth power in all: what packs have enough of hardly counts.
      const double weight = load * load * load * load;
      waste += weight * weight * (1 - static_cast<double>(rows) / capacity);
    }
    return waste;
  }

  // Whether this many packs might hold the items.
  bool MightFit(const std::vector<uint64_t>& totals, uint64_t packs) const {
    for (size_t k = 0; k < m_; ++k) {
      if (totals[k] > absl::uint128{packs} * problem_.capacity(k)) return false;
    }
    return true;
  }

  // Moves one pack of pattern p to the rest.
  void TakeApart(size_t p, std::vector<uint64_t>& counts, std::vector<uint64_t>& totals) {
    --patterns_[p].repeats;
    for (const auto& [item, copies] : patterns_[p].entries) {
      counts[item] += copies;
      for (size_t k = 0; k < m_; ++k) totals[k] += uint64_t{problem_.sizes(item)[k]} * copies;
    }
    apart_.push_back(p);
  }

  // One step of a large neighbourhood search (Shaw 1998): some packs are taken apart, and what they
  // held is packed anew. False if no packs could be packed tighter.
  bool TryOnce() {
    // Those that waste most, until one pack less might, by volume, hold all of them.
    std::vector<std::pair<double, size_t>> wasteful;
    for (size_t p = 0; p < patterns_.size(); ++p) {
      wasteful.emplace_back(-WasteOf(patterns_[p]), p);
    }
    std::sort(wasteful.begin(), wasteful.end());
    budget_.Spend(patterns_.size() * 50);
    std::vector<uint64_t> counts(problem_.num_items(), 0);
    std::vector<uint64_t> totals(m_, 0);
    apart_.clear();
    bool might_fit = false;
    for (const auto& [waste, p] : wasteful) {
      while (!might_fit && patterns_[p].repeats > 0 && apart_.size() < kMostPacks) {
        TakeApart(p, counts, totals);
        might_fit = MightFit(totals, apart_.size() - 1);
      }
      if (might_fit) break;
    }
    if (might_fit) {
      // Full packs have what fits into the gaps; random ones, so that tries differ.
      const uint64_t extra =
          random_.Below(kMostRandomShare * apart_.size() + kLeastRandom) + kLeastRandom / 2;
      for (uint64_t i = 0; i < extra && apart_.size() < kMostPacks; ++i) {
        const size_t p = random_.Below(patterns_.size());
        if (patterns_[p].repeats > 0) TakeApart(p, counts, totals);
      }
    }
    const uint64_t packs = apart_.size();
    std::optional<std::vector<Pattern>> anew;
    if (might_fit) {
      MixingOptions mixing;
      mixing.seed = random_.Next();
      // As many packs as before are welcome, too: another plan may be a step to a better one.
      mixing.target = packs - 1;
      mixing.too_many = packs + 1;
      mixing.attempts = kAttempts;
      mixing.choices = options_.choices;
      mixing.finish_at = options_.finish_at;
      mixing.vector_level = options_.vector_level;
      anew = PlanByMixing(PackingProblem(problem_, std::move(counts)), mixing, budget_);
    }
    if (!anew) {
      // All is as it was.
      for (const size_t p : apart_) ++patterns_[p].repeats;
      return might_fit;
    }
    std::erase_if(patterns_, [](const Pattern& pattern) { return pattern.repeats == 0; });
    packs_ -= packs;
    for (Pattern& pattern : *anew) {
      packs_ += pattern.repeats;
      patterns_.push_back(std::move(pattern));
    }
    return true;
  }

  const PackingProblem& problem_;
  const ImprovementOptions& options_;
  std::vector<Pattern>& patterns_;
  WorkBudget& budget_;
  SeededRandom random_;
  const size_t m_;
  uint64_t packs_ = 0;
  std::vector<size_t> apart_;  // The pattern of each pack that was taken apart.
};

}  // namespace

uint64_t ImprovePlan(const PackingProblem& problem, const ImprovementOptions& options,
                     std::vector<Pattern>& patterns, WorkBudget& budget) {
  return Improvement(problem, options, patterns, budget).Run();
}

}  // namespace packhouse
