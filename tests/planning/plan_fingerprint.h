// One number for whole plans, with what their search took.
#ifndef PACKHOUSE_TESTS_PLANNING_PLAN_FINGERPRINT_H_
#define PACKHOUSE_TESTS_PLANNING_PLAN_FINGERPRINT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/plan.h"
#include "tests/support/fingerprint.h"

namespace packhouse {

inline void AddPatterns(absl::Span<const Pattern> patterns, Fingerprint& plans) {
  for (const Pattern& pattern : patterns) {
    for (const PatternEntry& entry : pattern.entries) {
      plans.Add(entry.tuple);
      plans.Add(entry.copies);
    }
    plans.Add(pattern.repeats);
  }
}

inline void AddPlan(const CertifiedPlan& plan, Fingerprint& plans) {
  AddPatterns(plan.plan.patterns, plans);
  plans.Add(plan.bound.packs);
  plans.Add(static_cast<uint64_t>(plan.bound.kind));
  plans.Add(plan.bound.component);
  plans.Add(static_cast<uint64_t>(plan.method));
  plans.Add(plan.steps);
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_PLAN_FINGERPRINT_H_
