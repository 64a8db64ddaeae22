#include "service/algorithms/planning/plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/base/checked_arithmetic.h"

namespace packhouse {
namespace {

// The most sizes that an error names.
constexpr size_t kNamedOversize = 8;

// real / (packs * rows), in [0, 1] by definition where the limits are kept.
double Ratio(uint64_t real, uint64_t packs, uint64_t rows) {
  const double laid_out = static_cast<double>(packs) * static_cast<double>(rows);
  return laid_out == 0 ? 1.0 : static_cast<double>(real) / laid_out;
}

}  // namespace

void AddCopies(uint32_t tuple, uint64_t copies, Pattern& pattern) {
  while (copies != 0) {
    const auto some = static_cast<uint32_t>(std::min<uint64_t>(copies, UINT32_MAX));
    pattern.entries.push_back({tuple, some});
    copies -= some;
  }
}

uint64_t PackingPlan::num_packs() const {
  uint64_t packs = 0;
  for (const Pattern& pattern : patterns) packs += pattern.repeats;
  return packs;
}

PlanItems ItemsOf(const SizeHistogram& histogram) {
  PlanItems items;
  items.empty_plan.num_components = histogram.num_components();
  for (const uint32_t row : histogram.SortedRows()) {
    const auto tuple = histogram.tuple(row);
    items.empty_plan.tuples.insert(items.empty_plan.tuples.end(), tuple.begin(), tuple.end());
    items.counts.push_back(histogram.count(row));
  }
  return items;
}

absl::Status CheckEachGraphFits(const SizeHistogram& histogram, const Limits& limits,
                                const SizeSchema& schema, absl::Span<const uint64_t> capacities) {
  uint64_t too_large = 0;
  size_t num_sizes = 0;
  // The largest first.
  std::map<SizeTuple, uint64_t, std::greater<>> named;
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    const auto tuple = histogram.tuple(row);
    if (!limits.FirstExceeded(tuple)) continue;
    too_large += histogram.count(row);
    ++num_sizes;
    named.emplace(SizeTuple(tuple.begin(), tuple.end()), histogram.count(row));
    if (named.size() > kNamedOversize) named.erase(std::prev(named.end()));
  }
  if (too_large == 0) return absl::OkStatus();
  const SizeTuple& largest = named.begin()->first;
  const size_t component = *limits.FirstExceeded(largest);
  const uint64_t usable = limits.capacity(component);
  std::string message =
      absl::StrCat(too_large, too_large == 1 ? " graph exceeds" : " graphs exceed",
                   " the limits; the largest has size (", absl::StrJoin(largest, ", "),
                   "): ", schema.name(component), " ", largest[component], " > ", usable);
  if (!capacities.empty() && capacities[component] != usable) {
    absl::StrAppend(&message, ", the usable bound: padding keeps ", capacities[component] - usable,
                    " of the ", capacities[component], " free");
  }
  if (num_sizes > 1) {
    absl::StrAppend(&message, "; sizes too large: ");
    for (const auto& [size, count] : named) {
      if (&size != &largest) absl::StrAppend(&message, ", ");
      absl::StrAppend(&message, count, " x (", absl::StrJoin(size, ", "), ")");
    }
    if (num_sizes > named.size()) {
      absl::StrAppend(&message, " and ", num_sizes - named.size(), " more");
    }
  }
  return absl::OutOfRangeError(message);
}

absl::Status VerifyPlan(const PackingPlan& plan, const SizeHistogram& histogram,
                        const Limits& limits) {
  const size_t l = plan.num_components;
  if (l != histogram.num_components()) {
    return absl::InternalError(
        absl::StrCat("plan: ", l, " components, the histogram has ", histogram.num_components()));
  }
  // No pack exceeds a limit; `used` is what all packs hold of each size.
  std::vector<uint64_t> used(histogram.num_distinct() == 0 ? 0 : plan.num_tuples(), 0);
  for (const Pattern& pattern : plan.patterns) {
    if (pattern.entries.empty()) return absl::InternalError("plan: an empty pattern");
    if (pattern.repeats == 0) return absl::InternalError("plan: a pattern with 0 repeats");
    std::vector<uint64_t> rows(l + 1, 0);
    for (const auto& [tuple, copies] : pattern.entries) {
      if (tuple >= used.size() || copies == 0) {
        return absl::InternalError(absl::StrCat("plan: entry of ", copies, " times tuple ", tuple));
      }
      for (size_t k = 0; k < l; ++k) rows[k] += uint64_t{plan.tuple(tuple)[k]} * copies;
      rows[l] += copies;
      const auto graphs = CheckedMultiply(copies, pattern.repeats);
      const auto sum = graphs ? CheckedAdd(used[tuple], *graphs) : std::nullopt;
      if (!sum) {
        return absl::InternalError(
            absl::StrCat("plan: the graphs of tuple ", tuple, " exceed 2^64 - 1"));
      }
      used[tuple] = *sum;
    }
    for (size_t k = 0; k <= l; ++k) {
      if (rows[k] > limits.capacity(k)) {
        return absl::InternalError(absl::StrCat("plan: a pack has ", rows[k], " rows of component ",
                                                k, ", capacity ", limits.capacity(k)));
      }
    }
  }
  // Packs hold each graph once: of no size more or fewer than there are. The sum notices sizes of
  // the histogram that the plan does not know.
  uint64_t graphs = 0;
  for (size_t tuple = 0; tuple < used.size(); ++tuple) {
    if (used[tuple] != histogram.CountOf(plan.tuple(tuple))) {
      return absl::InternalError(absl::StrCat(
          "plan: packs ", used[tuple], " graphs of size (", absl::StrJoin(plan.tuple(tuple), ", "),
          "), the histogram has ", histogram.CountOf(plan.tuple(tuple))));
    }
    const auto sum = CheckedAdd(graphs, used[tuple]);
    if (!sum) return absl::InternalError("plan: its graphs exceed 2^64 - 1");
    graphs = *sum;
  }
  if (graphs != histogram.num_graphs()) {
    return absl::InternalError(
        absl::StrCat("plan: packs ", graphs, " graphs of ", histogram.num_graphs()));
  }
  return absl::OkStatus();
}

PlanQuality MeasurePlan(const PackingPlan& plan, const SizeHistogram& histogram,
                        const Limits& limits) {
  const size_t l = plan.num_components;
  PlanQuality quality;
  quality.packs = plan.num_packs();
  quality.components.resize(l + 1);
  for (const Pattern& pattern : plan.patterns) {
    std::vector<uint64_t> rows(l + 1, 0);
    for (const auto& [tuple, copies] : pattern.entries) {
      for (size_t k = 0; k < l; ++k) rows[k] += uint64_t{plan.tuple(tuple)[k]} * copies;
      rows[l] += copies;
    }
    for (size_t k = 0; k <= l; ++k) {
      auto& fullest = quality.components[k].fullest_pack;
      fullest = std::max(fullest, rows[k]);
    }
  }
  for (size_t k = 0; k <= l; ++k) {
    ComponentEfficiency& component = quality.components[k];
    const uint64_t real = k < l ? histogram.total(k) : histogram.num_graphs();
    component.capacity = limits.capacity(k);
    if (limits.has_limit(k)) {
      component.efficiency = Ratio(real, quality.packs, component.capacity);
    }
    component.efficiency_of_fullest = Ratio(real, quality.packs, component.fullest_pack);
  }
  const LowerBound bound = ComputeVolumeBound(histogram, limits);
  quality.lower_bound = bound.packs;
  quality.bounding_component = bound.component;
  if (bound.packs != 0) {
    quality.gap = static_cast<double>(quality.packs) / static_cast<double>(bound.packs) - 1.0;
  }
  return quality;
}

void LayOutEfficiencies(absl::Span<const uint64_t> capacities,
                        std::vector<ComponentEfficiency>& components) {
  for (size_t k = 0; k < components.size(); ++k) {
    ComponentEfficiency& component = components[k];
    if (component.capacity == kUnlimited || component.capacity == capacities[k]) continue;
    component.efficiency *=
        static_cast<double>(component.capacity) / static_cast<double>(capacities[k]);
    component.capacity = capacities[k];
  }
}

}  // namespace packhouse
