// Seeded small worlds for the tests of epochs and their delivery.
#ifndef PACKHOUSE_TESTS_EPOCHS_EPOCH_WORLDS_H_
#define PACKHOUSE_TESTS_EPOCHS_EPOCH_WORLDS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/planner_result.h"
#include "service/engine/epochs/size_classes.h"
#include "tests/support/random.h"

namespace packhouse {

// Sizes (nodes, edges) of few distinct kinds, so that classes have several items.
inline std::vector<uint32_t> FewSizes(size_t num_items, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> sizes;
  for (size_t i = 0; i < num_items; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(0, 5));
    sizes.push_back(nodes);
    sizes.push_back(nodes + static_cast<uint32_t>(random.Below(2)));
  }
  return sizes;
}

inline ItemSizes NodesAndEdges(const std::vector<uint32_t>& sizes) {
  return ItemSizes::Create(sizes.size() / 2, 2, sizes).value();
}

// A quick plan for the classes.
inline PackingPlan QuickPlan(const SizeClasses& classes, const Limits& limits) {
  OptimizerOptions options;
  options.steps = 20'000;
  return OptimizePlan(classes.Histogram().value(), limits, options).value().plan;
}

inline EpochBatches Draw(const SizeClasses& classes, const PackingPlan& plan,
                         const EpochSeed& seed) {
  return DrawEpoch(classes, absl::MakeConstSpan(&plan.patterns, 1), seed).value();
}

inline std::vector<std::vector<uint32_t>> AllBatches(const EpochBatches& epoch) {
  std::vector<std::vector<uint32_t>> batches;
  for (size_t b = 0; b < epoch.num_batches(); ++b) {
    batches.emplace_back(epoch.batch(b).begin(), epoch.batch(b).end());
  }
  return batches;
}

// An epoch of one rank group, of so many batches.
inline EpochIdentity IdentityOf(std::vector<uint64_t> batches_by_rank_group, uint64_t epoch = 0) {
  EpochIdentity identity;
  identity.key = {"job", epoch};
  identity.dataset = "molecules";
  identity.dataset_version = 3;
  identity.seed = 11;
  for (const uint64_t batches : batches_by_rank_group) {
    identity.rank_groups.push_back({{222, 502, kUnlimited}, 0, batches});
  }
  identity.options = "shuffle";
  return identity;
}

// What no planner has found, of all forms that one could give.
inline PlannerResult RandomPlannerResult(Random& random) {
  PlannerResult planned;
  planned.receipt = "v1-" + std::to_string(random.Next());
  planned.dataset_version = random.Next();
  planned.lower_bound = random.Below(100);
  planned.num_components = random.Below(4);
  for (uint64_t i = random.Below(20) * planned.num_components; i != 0; --i) {
    planned.tuples.push_back(static_cast<uint32_t>(random.Next() >> random.Between(32, 63)));
  }
  for (uint64_t group = random.Between(1, 3); group != 0; --group) {
    planned.shapes.emplace_back();
    for (uint64_t shape = random.Between(1, 3); shape != 0; --shape) {
      planned.shapes.back().push_back({random.Below(1000), kUnlimited, random.Next()});
    }
    planned.patterns.emplace_back(random.Below(6));
    for (Pattern& pattern : planned.patterns.back()) {
      pattern.repeats = random.Next() >> random.Below(64);
      for (uint64_t entry = random.Below(5); entry != 0; --entry) {
        pattern.entries.push_back({static_cast<uint32_t>(random.Below(300)),
                                   static_cast<uint32_t>(random.Between(1, 9))});
      }
    }
  }
  if (random.Below(2) == 0) {
    SegmentCounts& segments = planned.segments;
    for (uint64_t i = random.Between(1, 5); i != 0; --i) {
      segments.num_batches.push_back(static_cast<uint32_t>(random.Below(1000)));
      segments.digests.push_back(random.Next());
      segments.of_shapes.push_back(random.Below(1000));
      segments.rows.push_back(random.Next());
      segments.fullest.push_back(random.Below(1000));
    }
    segments.num_graphs = random.Between(1, 1000);
    segments.num_oversize = random.Between(1, 1000);
    segments.num_cut_graphs = random.Between(1, 1000);
    segments.num_pieces = random.Between(1, 1000);
  }
  return planned;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_EPOCHS_EPOCH_WORLDS_H_
