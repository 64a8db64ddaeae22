#include "service/engine/epochs/round_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// The most corrections of the proportions; the first two gain most.
constexpr int kMaxTrials = 6;
// Proportions are multiples of 1 / this.
constexpr uint64_t kShares = 16384;

// Which rank groups take a graph: bit j for rank group j.
using RankGroupMask = uint32_t;

// Sizes that the same rank groups take.
struct SizeGroup {
  std::vector<uint32_t> tuples;
  std::vector<uint64_t> totals;  // By component, `graphs` last.
};

// What is to be divided.
struct Division {
  PlanItems items;
  size_t num_components = 0;
  // Groups with the fewest choices come first: the others can then balance the most.
  std::vector<std::pair<RankGroupMask, SizeGroup>> groups;
};

absl::Status CheckRankGroups(size_t num_components, absl::Span<const RankGroup> rank_groups) {
  if (rank_groups.empty() || rank_groups.size() > RoundPlan::kMaxRankGroups) {
    return absl::InvalidArgumentError(absl::StrCat("rank_groups: ", rank_groups.size(),
                                                   ", must be 1 to ", RoundPlan::kMaxRankGroups));
  }
  uint64_t ranks = 0;
  for (size_t j = 0; j < rank_groups.size(); ++j) {
    if (rank_groups[j].num_ranks == 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank group ", j, ": has no ranks"));
    }
    if (rank_groups[j].limits.num_components() != num_components) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank group ", j, ": limits of ", rank_groups[j].limits.num_components(),
                       " components, the histogram has ", num_components));
    }
    ranks += rank_groups[j].num_ranks;
  }
  if (ranks > RoundPlan::kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank_groups: ", ranks, " ranks, at most ", RoundPlan::kMaxRanks));
  }
  return absl::OkStatus();
}

absl::StatusOr<Division> Divide(const SizeHistogram& histogram,
                                absl::Span<const RankGroup> rank_groups) {
  Division division;
  division.items = ItemsOf(histogram);
  const size_t l = division.num_components = histogram.num_components();
  const PackingPlan& plan = division.items.empty_plan;
  std::map<RankGroupMask, SizeGroup> groups;
  std::optional<uint32_t> too_large;
  for (uint32_t t = 0; t < division.items.counts.size(); ++t) {
    RankGroupMask mask = 0;
    for (size_t j = 0; j < rank_groups.size(); ++j) {
      if (!rank_groups[j].limits.FirstExceeded(plan.tuple(t))) mask |= RankGroupMask{1} << j;
    }
    if (mask == 0) {
      too_large = t;
      continue;
    }
    SizeGroup& group = groups[mask];
    group.totals.resize(l + 1, 0);
    group.tuples.push_back(t);
    // No more than the histogram's totals, which are below 2^64.
    for (size_t k = 0; k < l; ++k) {
      group.totals[k] += plan.tuple(t)[k] * division.items.counts[t];
    }
    group.totals[l] += division.items.counts[t];
  }
  if (too_large) {
    return absl::OutOfRangeError(absl::StrCat("a graph of size (",
                                              absl::StrJoin(plan.tuple(*too_large), ", "),
                                              ") exceeds the limits of every rank group"));
  }
  division.groups.assign(groups.begin(), groups.end());
  std::stable_sort(division.groups.begin(), division.groups.end(),
                   [](const auto& a, const auto& b) {
                     return __builtin_popcount(a.first) < __builtin_popcount(b.first);
                   });
  return division;
}

// The bound over all sets of rank groups: the rounds, by volume, of the graphs that only these
// take.
uint64_t VolumeBound(const Division& division, absl::Span<const RankGroup> rank_groups) {
  const size_t l = division.num_components;
  std::vector<RankGroupMask> masks = {(RankGroupMask{1} << rank_groups.size()) - 1};
  for (const auto& [mask, group] : division.groups) masks.push_back(mask);
  uint64_t bound = 0;
  for (const RankGroupMask mask : masks) {
    for (size_t k = 0; k <= l; ++k) {
      absl::uint128 capacity = 0;
      bool limited = true;
      for (size_t j = 0; j < rank_groups.size(); ++j) {
        if ((mask >> j & 1) == 0) continue;
        limited = limited && rank_groups[j].limits.has_limit(k);
        capacity += absl::uint128(rank_groups[j].limits.capacity(k)) * rank_groups[j].num_ranks;
      }
      absl::uint128 total = 0;
      uint64_t graphs = 0;
      for (const auto& [other, group] : division.groups) {
        if ((other & ~mask) != 0) continue;
        total += group.totals[k];
        graphs += group.totals[l];
      }
      if (graphs != 0) bound = std::max<uint64_t>(bound, 1);
      if (!limited || total == 0) continue;
      bound = std::max(bound, static_cast<uint64_t>((total + capacity - 1) / capacity));
    }
  }
  return bound;
}

// How many of kShares each rank group gets of a size group, so that the fullest rank group is as
// empty as possible. `volumes` (by rank group, then component) is what they have, and is updated.
std::vector<uint64_t> Proportions(const SizeGroup& group, RankGroupMask mask,
                                  absl::Span<const RankGroup> rank_groups,
                                  absl::Span<const double> speeds,
                                  std::vector<std::vector<double>>& volumes) {
  const size_t n = group.totals.size();
  const auto load_with_share = [&](size_t j) {
    double load = 0;
    for (size_t k = 0; k < n; ++k) {
      if (!rank_groups[j].limits.has_limit(k)) continue;
      const double share = static_cast<double>(group.totals[k]) / static_cast<double>(kShares);
      const double capacity = static_cast<double>(rank_groups[j].limits.capacity(k)) *
                              static_cast<double>(rank_groups[j].num_ranks);
      load = std::max(load, (volumes[j][k] + share) / (capacity * speeds[j]));
    }
    return load;
  };
  std::vector<uint64_t> shares(rank_groups.size(), 0);
  for (uint64_t i = 0; i < kShares; ++i) {
    std::optional<size_t> best;
    double least = 0;
    for (size_t j = 0; j < rank_groups.size(); ++j) {
      if ((mask >> j & 1) == 0) continue;
      const double load = load_with_share(j);
      if (!best || load < least) {
        best = j;
        least = load;
      }
    }
    ++shares[*best];
    for (size_t k = 0; k < n; ++k) {
      volumes[*best][k] += static_cast<double>(group.totals[k]) / static_cast<double>(kShares);
    }
  }
  return shares;
}

// Counts by rank group, then tuple.
std::vector<std::vector<uint64_t>> Split(const Division& division,
                                         absl::Span<const RankGroup> rank_groups,
                                         absl::Span<const double> speeds) {
  const size_t m = rank_groups.size();
  std::vector<std::vector<uint64_t>> counts(m,
                                            std::vector<uint64_t>(division.items.counts.size(), 0));
  std::vector<std::vector<double>> volumes(m,
                                           std::vector<double>(division.num_components + 1, 0.0));
  for (const auto& [mask, group] : division.groups) {
    const std::vector<uint64_t> shares = Proportions(group, mask, rank_groups, speeds, volumes);
    // The graphs that rounding down has withheld from each rank group so far, in units of 1 /
    // kShares. So rounding errors of different sizes do not add up.
    std::vector<absl::int128> owed(m, 0);
    for (const uint32_t t : group.tuples) {
      const uint64_t count = division.items.counts[t];
      uint64_t left = count;
      for (size_t j = 0; j < m; ++j) {
        const absl::uint128 exact = absl::uint128(count) * shares[j];
        const auto whole = static_cast<uint64_t>(exact / kShares);
        counts[j][t] = whole;
        left -= whole;
        owed[j] += static_cast<absl::int128>(exact % kShares);
      }
      for (; left != 0; --left) {
        std::optional<size_t> most;
        for (size_t j = 0; j < m; ++j) {
          if (shares[j] != 0 && (!most || owed[j] > owed[*most])) most = j;
        }
        ++counts[*most][t];
        owed[*most] -= kShares;
      }
    }
  }
  return counts;
}

// The plan of one rank group's part, with entries that number the tuples of the whole.
absl::StatusOr<std::vector<Pattern>> PlanPart(const Division& division,
                                              absl::Span<const uint64_t> counts,
                                              const Limits& limits,
                                              const OptimizerOptions& options) {
  SizeHistogram part(division.num_components);
  std::vector<uint32_t> numbers;
  for (uint32_t t = 0; t < counts.size(); ++t) {
    if (counts[t] == 0) continue;
    PH_RETURN_IF_ERROR(part.Add(division.items.empty_plan.tuple(t), counts[t]));
    numbers.push_back(t);
  }
  if (numbers.empty()) return std::vector<Pattern>();
  PH_ASSIGN_OR_RETURN(CertifiedPlan certified, OptimizePlan(part, limits, options));
  // The tuples of the part are ascending, too.
  for (Pattern& pattern : certified.plan.patterns) {
    for (PatternEntry& entry : pattern.entries) entry.tuple = numbers[entry.tuple];
  }
  return std::move(certified.plan.patterns);
}

uint64_t NumPacks(absl::Span<const Pattern> patterns) {
  uint64_t packs = 0;
  for (const Pattern& pattern : patterns) packs += pattern.repeats;
  return packs;
}

}  // namespace

absl::StatusOr<RoundPlan> PlanRounds(const SizeHistogram& histogram,
                                     absl::Span<const RankGroup> rank_groups,
                                     const OptimizerOptions& options) {
  PH_RETURN_IF_ERROR(CheckRankGroups(histogram.num_components(), rank_groups));
  PH_ASSIGN_OR_RETURN(const Division division, Divide(histogram, rank_groups));
  const size_t m = rank_groups.size();
  const uint64_t bound = VolumeBound(division, rank_groups);
  const int trials = m == 1 ? 1 : kMaxTrials;
  OptimizerOptions part_options = options;
  part_options.steps = options.steps / (static_cast<uint64_t>(trials) * m);
  part_options.warm_start = nullptr;

  std::optional<RoundPlan> best;
  uint64_t best_packs = 0;
  // The effective capacity of a rank group, as a multiple of its capacity, corrected by how well it
  // packed.
  std::vector<double> speeds(m, 1.0);
  for (int trial = 0; trial < trials; ++trial) {
    const std::vector<std::vector<uint64_t>> counts = Split(division, rank_groups, speeds);
    RoundPlan plan;
    plan.lower_bound = bound;
    std::vector<double> rounds_of(m, 0.0);
    uint64_t packs = 0;
    uint64_t ranks = 0;
    for (size_t j = 0; j < m; ++j) {
      PH_ASSIGN_OR_RETURN(std::vector<Pattern> patterns,
                          PlanPart(division, counts[j], rank_groups[j].limits, part_options));
      const uint64_t own = NumPacks(patterns);
      const uint64_t own_ranks = rank_groups[j].num_ranks;
      plan.patterns_by_rank_group.push_back(std::move(patterns));
      plan.rounds = std::max(plan.rounds, own / own_ranks + (own % own_ranks != 0 ? 1 : 0));
      rounds_of[j] = static_cast<double>(own) / static_cast<double>(own_ranks);
      packs += own;
      ranks += own_ranks;
    }
    if (!best || plan.rounds < best->rounds ||
        (plan.rounds == best->rounds && packs < best_packs)) {
      best = std::move(plan);
      best_packs = packs;
    }
    if (best->rounds == bound) break;
    const double mean = static_cast<double>(packs) / static_cast<double>(ranks);
    for (size_t j = 0; j < m; ++j) {
      if (rounds_of[j] > 0) speeds[j] = speeds[j] * (mean / rounds_of[j]);
    }
  }
  return *std::move(best);
}

}  // namespace packhouse
