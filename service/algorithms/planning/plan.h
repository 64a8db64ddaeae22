// A plan: which sizes share packs, and how good the plan is.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PLAN_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

// `copies` graphs of size tuple number `tuple`.
struct PatternEntry {
  uint32_t tuple;
  uint32_t copies;

  friend bool operator==(const PatternEntry&, const PatternEntry&) = default;
};

// A multiset of size tuples that share a pack, and the number of such packs. More than 2^32 - 1
// graphs of one size are several entries.
struct Pattern {
  std::vector<PatternEntry> entries;
  uint64_t repeats = 0;

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

// The most graphs of one size that a planner puts into one pack: it would have 2^16 entries.
inline constexpr uint64_t kMostCopies = uint64_t{UINT32_MAX} << 16;

// Adds `copies` graphs of one size; at most kMostCopies.
void AddCopies(uint32_t tuple, uint64_t copies, Pattern& pattern);

// Patterns that together have every graph of a histogram exactly once.
struct PackingPlan {
  size_t num_components = 0;
  // The distinct size tuples, row-major, ascending.
  std::vector<uint32_t> tuples;
  std::vector<Pattern> patterns;

  size_t num_tuples() const { return num_components == 0 ? 1 : tuples.size() / num_components; }
  absl::Span<const uint32_t> tuple(size_t row) const {
    return absl::MakeConstSpan(tuples).subspan(row * num_components, num_components);
  }
  uint64_t num_packs() const;
};

// The figures of one component over a whole plan. Efficiencies are in [0, 1]; 1 if no rows are laid
// out.
struct ComponentEfficiency {
  uint64_t capacity = kUnlimited;
  // real rows / (packs * capacity); 1 without a limit.
  double efficiency = 1;
  uint64_t fullest_pack = 0;
  // real rows / (packs * fullest_pack): the figure that the tuple-packing paper and its notebook
  // print. Not below `efficiency` for plans that keep the limits.
  double efficiency_of_fullest = 1;
};

struct PlanQuality {
  uint64_t packs = 0;
  // No plan has fewer packs.
  uint64_t lower_bound = 0;
  // The component whose volume gives the bound; l is `graphs`.
  size_t bounding_component = 0;
  // packs / lower_bound - 1; 0 for an empty plan.
  double gap = 0;
  // One for each component, `graphs` last.
  std::vector<ComponentEfficiency> components;
};

// The tuples of a histogram, ascending, as a plan numbers them, and the count of each.
struct PlanItems {
  PackingPlan empty_plan;
  std::vector<uint64_t> counts;
};
PlanItems ItemsOf(const SizeHistogram& histogram);

// OUT_OF_RANGE if a graph of the histogram alone exceeds the limits; names the largest such sizes,
// their bound and the number of such graphs. `schema` gives names for the message. `capacities`, if
// given, are for the message too: the batches' capacities, of which `limits` is what padding
// leaves.
absl::Status CheckEachGraphFits(const SizeHistogram& histogram, const Limits& limits,
                                const SizeSchema& schema,
                                absl::Span<const uint64_t> capacities = {});

// Checks that the plan uses exactly the graphs of `histogram`, each once, and that no pack exceeds
// `limits`. INTERNAL naming the first violation. Written to be obviously right, and independent of
// the planners, since it vouches for them. O(size of the plan).
absl::Status VerifyPlan(const PackingPlan& plan, const SizeHistogram& histogram,
                        const Limits& limits);

// The figures of a plan that has every graph of `histogram` once. It may exceed the limits, as
// baselines do.
PlanQuality MeasurePlan(const PackingPlan& plan, const SizeHistogram& histogram,
                        const Limits& limits);

// Turns the figures of a plan under the limits that padding leaves into figures of the batches,
// whose `capacities` include the padding. An efficiency without a limit stays.
void LayOutEfficiencies(absl::Span<const uint64_t> capacities,
                        std::vector<ComponentEfficiency>& components);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PLAN_H_
