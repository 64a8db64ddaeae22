#include "service/algorithms/planning/optimizer/mixing.h"

#include <algorithm>
#include <utility>

#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"
#include "service/algorithms/planning/optimizer/fit_index.h"
#include "service/algorithms/planning/optimizer/item_urn.h"
#include "service/algorithms/planning/optimizer/lopsided_rooms.h"
#include "service/base/seeded_random.h"

namespace packhouse {
namespace {

// If more mean items than this are missing, the first drawn item that fits is taken.
constexpr double kChooseBelow = 8;
// Items are dealt instead of drawn if more mean items than this are missing, and more than one for
// every kDealItems different items.
constexpr double kDealAbove = 32;
constexpr double kDealItems = 16;
// After this many draws in vain the pack is finished.
constexpr int kMaxMisses = 12;
// The most graphs of a pack that are taken one by one. Beyond that, no more are drawn.
constexpr size_t kMostTaken = size_t{1} << 17;
// Weights follow what is left: they are renewed when the number of packs that are left has shrunk
// by 1 / this.
constexpr uint64_t kRenewals = 4;
// Share of a capacity below which slack counts as none.
constexpr double kLeastSlack = 0.002;

// The steps of a draw, and the additional steps if there are so many items that memory is slow. A
// look at kLooksPerStep components of 64 items is a step, if that is more than kFitSteps.
constexpr uint64_t kDrawSteps = 20;
constexpr uint64_t kItemsPerDrawStep = 8192;
constexpr uint64_t kFitSteps = 40;
constexpr uint64_t kLooksPerStep = 4;
constexpr uint64_t kItemsPerFitStep = 1024;
constexpr uint64_t kPackSteps = 200;
constexpr uint64_t kSortSteps = 100;

class MixingPacker {
 public:
  MixingPacker(const PackingProblem& problem, const MixingOptions& options, WorkBudget& budget)
      : problem_(problem),
        options_(options),
        budget_(budget),
        m_(problem.num_components()),
        random_(options.seed),
        left_(problem.counts().begin(), problem.counts().end()),
        used_(problem.num_items()),
        urn_(problem.counts()),
        hardest_first_(HardestFirst(problem)),
        lopsided_(problem),
        position_(problem.num_items()),
        room_(m_),
        clipped_(m_),
        weights_(m_),
        mean_(m_),
        slack_(m_) {
    for (size_t k = 0; k < m_; ++k) totals_.push_back(problem.total(k));
    draw_steps_ = kDrawSteps + problem.num_items() / kItemsPerDrawStep;
    fit_steps_ = kFitSteps + problem.num_items() / kItemsPerFitStep;
  }

  std::optional<std::vector<Pattern>> Run() {
    RenewWeights();
    std::vector<Pattern> patterns;
    uint64_t packs = 0;
    uint64_t bytes = 0;
    while (urn_.total() != 0) {
      if (!budget_.Spend(kPackSteps)) return Complete(std::move(patterns), packs);
      const uint64_t least = LeastPacksLeft();
      if (packs + least >= options_.too_many) return std::nullopt;
      packs_left_ = std::max(least, options_.target > packs ? options_.target - packs : 0);
      if (packs_left_ <= renew_at_) RenewWeights();
      UpdateDemand();
      Fill();
      patterns.push_back(Emit());
      bytes += BytesInList(patterns.back());
      if (!budget_.HoldList(bytes)) return std::nullopt;
      packs += patterns.back().repeats;
    }
    // The last pattern's repeats may exceed the packs that were known to be necessary.
    if (packs >= options_.too_many) return std::nullopt;
    return patterns;
  }

 private:
  std::optional<std::vector<Pattern>> Complete(std::vector<Pattern> patterns, uint64_t packs) {
    if (budget_.cancelled()) return std::nullopt;
    const PackingProblem rest(problem_, std::move(left_));
    WorkBudget rest_budget = budget_.WithoutBound();
    for (Pattern& pattern : PlanByFirstFitDecreasing(rest, options_.vector_level, &rest_budget)) {
      packs += pattern.repeats;
      patterns.push_back(std::move(pattern));
    }
    if (rest_budget.cancelled()) {
      budget_.GiveUp();
      return std::nullopt;
    }
    if (packs >= options_.too_many) return std::nullopt;
    return patterns;
  }

  uint64_t LeastPacksLeft() const {
    uint64_t packs = 1;
    for (size_t k = 0; k < m_; ++k) {
      const uint64_t capacity = problem_.capacity(k);
      packs = std::max(packs, totals_[k] / capacity + (totals_[k] % capacity != 0));
    }
    return packs;
  }

  // Scarce room costs more.
  void RenewWeights() {
    const uint64_t packs = std::max(LeastPacksLeft(), packs_left_);
    renew_at_ = packs - packs / kRenewals;
    for (size_t k = 0; k < m_; ++k) {
      const double capacity = static_cast<double>(problem_.capacity(k));
      // What the packs that are left will leave empty.
      const double share =
          1 - static_cast<double>(totals_[k]) / (capacity * static_cast<double>(packs));
      weights_[k] = 1 / (capacity * (std::max(share, 0.0) + kLeastSlack));
    }
    lopsided_.Learn(left_, budget_);
    order_.clear();
    std::vector<double> score(problem_.num_items());
    for (uint32_t item = 0; item < problem_.num_items(); ++item) {
      if (left_[item] == 0) continue;
      order_.push_back(item);
      score[item] = ScoreOf(problem_.sizes(item));
    }
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return score[a] != score[b] ? score[a] > score[b] : a < b;
    });
    scores_.resize(order_.size());
    for (size_t p = 0; p < order_.size(); ++p) {
      position_[order_[p]] = static_cast<uint32_t>(p);
      scores_[p] = score[order_[p]];
    }
    index_.emplace(problem_, order_, options_.vector_level);
    budget_.Spend(order_.size() * (m_ + kSortSteps));
  }

  void UpdateDemand() {
    const auto graphs = static_cast<double>(urn_.total());
    const auto packs = static_cast<double>(packs_left_);
    for (size_t k = 0; k < m_; ++k) {
      const auto total = static_cast<double>(totals_[k]);
      mean_[k] = total / graphs;
      slack_[k] = std::max(0.0, static_cast<double>(problem_.capacity(k)) - total / packs);
    }
  }

  template <typename Sizes>
  double ScoreOf(const Sizes& sizes) const {
    double score = 0;
    for (size_t k = 0; k < m_; ++k) score += weights_[k] * static_cast<double>(sizes[k]);
    return score;
  }

  bool Fits(uint32_t item) const {
    const auto sizes = problem_.sizes(item);
    for (size_t k = 0; k < m_; ++k) {
      if (sizes[k] > room_[k]) return false;
    }
    return true;
  }

  void Take(uint32_t item) {
    const auto sizes = problem_.sizes(item);
    for (size_t k = 0; k < m_; ++k) room_[k] -= sizes[k];
    ++used_[item];
    taken_.push_back(item);
  }
  void PutBack(size_t i) {
    const auto sizes = problem_.sizes(taken_[i]);
    for (size_t k = 0; k < m_; ++k) room_[k] += sizes[k];
    --used_[taken_[i]];
    taken_[i] = taken_.back();
    taken_.pop_back();
  }

  // Mean items that the room still takes.
  double MeanItemsMissing() const {
    double missing = 1e18;
    for (size_t k = 0; k < m_; ++k) {
      if (mean_[k] > 0) missing = std::min(missing, static_cast<double>(room_[k]) / mean_[k]);
    }
    return missing;
  }

  // How badly mean items fill the room that is left after `item`.
  double Misfit(uint32_t item) const {
    const auto sizes = problem_.sizes(item);
    double missing = 1e18;
    for (size_t k = 0; k < m_; ++k) {
      if (mean_[k] > 0) {
        missing = std::min(missing, static_cast<double>(room_[k] - sizes[k]) / mean_[k]);
      }
    }
    double misfit = 0;
    for (size_t k = 0; k < m_; ++k) {
      const double excess =
          static_cast<double>(room_[k] - sizes[k]) - missing * mean_[k] - slack_[k];
      if (excess > 0) misfit += weights_[k] * excess;
    }
    return misfit;
  }

  std::optional<uint32_t> Draw() {
    budget_.Spend(draw_steps_);
    const uint32_t item = urn_.Draw(random_);
    if (used_[item] == left_[item] || !Fits(item)) return std::nullopt;
    return item;
  }

  // The unused item with the highest score that fits.
  std::optional<uint32_t> BestSingle() {
    const double most = ScoreOf(room_) * (1 + 1e-12);
    for (size_t k = 0; k < m_; ++k) {
      clipped_[k] = static_cast<uint32_t>(std::min<uint64_t>(room_[k], UINT32_MAX));
    }
    auto position = static_cast<size_t>(
        std::lower_bound(scores_.begin(), scores_.end(), most, std::greater<>()) - scores_.begin());
    uint64_t looks = 0;
    for (;; ++position) {
      position = index_->FirstFit(position, clipped_.data(), looks);
      if (position == order_.size() || used_[order_[position]] < left_[order_[position]]) break;
    }
    // Few looks find an item, unless there are many components: it fits in each of them by chance.
    budget_.Spend(std::max(fit_steps_, looks * m_ / kLooksPerStep));
    if (position == order_.size()) return std::nullopt;
    return order_[position];
  }

  // A pack may hold far more graphs than can be taken one by one.
  bool MayTakeMore() const { return taken_.size() < kMostTaken && budget_.remaining() != 0; }

  bool FullEnough() const {
    for (size_t k = 0; k < m_; ++k) {
      if (static_cast<double>(room_[k]) > slack_[k]) return false;
    }
    return true;
  }
  double Waste() const {
    double waste = 0;
    for (size_t k = 0; k < m_; ++k) {
      const double excess = static_cast<double>(room_[k]) - slack_[k];
      if (excess > 0) waste += weights_[k] * excess;
    }
    return waste;
  }

  // Takes about `graphs` graphs, at equal steps along the order of scores. This gives the same mix
  // as that many draws, with less chance in it.
  void Deal(double graphs) {
    const double share = graphs / static_cast<double>(urn_.total());
    double due = static_cast<double>(random_.Below(uint64_t{1} << 32)) / 4294967296.0;
    for (const uint32_t item : order_) {
      due += static_cast<double>(left_[item]) * share;
      if (due < 1) continue;
      uint64_t copies = std::min(static_cast<uint64_t>(due), left_[item] - used_[item]);
      due -= static_cast<double>(static_cast<uint64_t>(due));
      const auto sizes = problem_.sizes(item);
      for (size_t k = 0; k < m_; ++k) {
        if (sizes[k] != 0) copies = std::min(copies, room_[k] / sizes[k]);
      }
      copies = std::min<uint64_t>(copies, UINT32_MAX / 2);
      if (copies == 0) continue;
      for (size_t k = 0; k < m_; ++k) room_[k] -= sizes[k] * copies;
      used_[item] += copies;
      dealt_.push_back(item);
    }
    budget_.Spend(order_.size() + kFitSteps * dealt_.size());
  }

  // For a pack that starts with a large item, while its room is lopsided.
  void TakeCompanions() {
    const auto is_left = [this](uint32_t item) { return used_[item] < left_[item]; };
    while (MayTakeMore()) {
      const std::optional<uint32_t> item = lopsided_.Companion(room_, is_left, budget_);
      if (!item) return;
      Take(*item);
    }
  }

  // A pack begins with the hardest item, since that has the fewest places left. Draws then keep the
  // mix of what is left, so that small items last; towards the end, of several draws the one is
  // taken beside which mean items fill the pack best. Finish() fills the rest by search.
  void Fill() {
    room_.assign(problem_.capacities().begin(), problem_.capacities().end());
    taken_.clear();
    dealt_.clear();
    while (left_[hardest_first_[hardest_]] == 0) ++hardest_;
    Take(hardest_first_[hardest_]);
    if (lopsided_.IsLarge(taken_[0])) TakeCompanions();
    double missing = MeanItemsMissing();
    // To deal takes a look at all items: worth it for many at once.
    if (missing > kDealAbove && missing * kDealItems > static_cast<double>(order_.size())) {
      Deal(missing - kChooseBelow);
      missing = MeanItemsMissing();
    }
    for (int misses = 0; misses < kMaxMisses && missing >= options_.finish_at && MayTakeMore();) {
      std::optional<uint32_t> chosen = Draw();
      if (missing < kChooseBelow) {
        double least = chosen ? Misfit(*chosen) : 0;
        for (int i = 1; i < options_.choices; ++i) {
          const std::optional<uint32_t> other = Draw();
          if (!other) continue;
          const double misfit = Misfit(*other);
          if (!chosen || misfit < least) {
            chosen = other;
            least = misfit;
          }
        }
      }
      if (!chosen) {
        ++misses;
        continue;
      }
      Take(*chosen);
      missing = MeanItemsMissing();
    }
    Finish();
  }

  void TakeAllThatFit() {
    while (!FullEnough() && MayTakeMore()) {
      const std::optional<uint32_t> item = BestSingle();
      if (!item) return;
      Take(*item);
    }
  }

  void Finish() {
    const size_t base = taken_.size();
    TakeAllThatFit();
    // No item fits any more: only exchanges can still fill the pack.
    double least = Waste();
    best_ = taken_;
    for (uint32_t attempt = 0; attempt < options_.attempts && least > 0 && budget_.remaining() != 0;
         ++attempt) {
      // Back to the pack as it was, or to one item less.
      while (taken_.size() > base) PutBack(taken_.size() - 1);
      std::optional<uint32_t> removed;
      if (attempt % 2 == 1 && base > 1) {
        const size_t i = 1 + random_.Below(base - 1);
        removed = taken_[i];
        PutBack(i);
      }
      for (int i = 0; i < 2; ++i) {
        const std::optional<uint32_t> first = Draw();
        if (first) {
          Take(*first);
          break;
        }
      }
      TakeAllThatFit();
      const double waste = Waste();
      if (waste < least) {
        least = waste;
        best_ = taken_;
      }
      if (removed) {
        // Restores the base: the other items are at the front.
        while (taken_.size() > base - 1) PutBack(taken_.size() - 1);
        Take(*removed);
      }
    }
    for (const uint32_t item : taken_) --used_[item];
    taken_ = best_;
    for (const uint32_t item : taken_) ++used_[item];
  }

  Pattern Emit() {
    taken_.insert(taken_.end(), dealt_.begin(), dealt_.end());
    Pattern pattern;
    uint64_t repeats = UINT64_MAX;
    for (const uint32_t item : taken_) {
      const auto copies = static_cast<uint32_t>(std::exchange(used_[item], 0));
      if (copies == 0) continue;  // Seen before.
      pattern.entries.push_back({item, copies});
      repeats = std::min(repeats, left_[item] / copies);
    }
    std::sort(pattern.entries.begin(), pattern.entries.end(),
              [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; });
    pattern.repeats = repeats;
    for (const auto& [item, copies] : pattern.entries) {
      const uint64_t graphs = copies * repeats;
      left_[item] -= graphs;
      urn_.Remove(item, graphs);
      if (left_[item] == 0) index_->Remove(position_[item]);
      for (size_t k = 0; k < m_; ++k) totals_[k] -= problem_.sizes(item)[k] * graphs;
    }
    return pattern;
  }

  const PackingProblem& problem_;
  const MixingOptions options_;
  WorkBudget& budget_;
  const size_t m_;
  uint64_t draw_steps_ = 0;
  uint64_t fit_steps_ = 0;
  SeededRandom random_;

  // Counts that are left.
  std::vector<uint64_t> left_;
  std::vector<uint64_t> used_;  // How many of these are in the pack being filled.
  ItemUrn urn_;
  std::vector<uint64_t> totals_;
  uint64_t packs_left_ = 0;
  std::vector<uint32_t> hardest_first_;
  size_t hardest_ = 0;
  LopsidedRooms lopsided_;

  // Items by descending score.
  std::vector<uint32_t> order_;
  std::vector<double> scores_;
  std::vector<uint32_t> position_;
  std::optional<FitIndex> index_;
  uint64_t renew_at_ = 0;

  // The pack being filled. The seed is taken_[0]; dealt copies are in used_ only.
  std::vector<uint32_t> dealt_;
  std::vector<uint32_t> taken_;
  std::vector<uint32_t> best_;
  std::vector<uint64_t> room_;
  std::vector<uint32_t> clipped_;

  std::vector<double> weights_;  // Cost of a row of room.
  std::vector<double> mean_;     // Mean size of what is left.
  std::vector<double> slack_;    // Room that a pack may leave on average.
};

}  // namespace

std::optional<std::vector<Pattern>> PlanByMixing(const PackingProblem& problem,
                                                 const MixingOptions& options, WorkBudget& budget) {
  return MixingPacker(problem, options, budget).Run();
}

}  // namespace packhouse
