// The single number by which tuple packing orders sizes and the room left in packs.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_PRIORITY_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_PRIORITY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

enum class PriorityKind { kProduct, kSum, kMax, kMin, kComponent };

// A heuristic of the tuple-packing paper (Krell et al. 2022, section 3.2), for any number of
// components. kMin is a true minimum (the companion notebook's is a maximum).
struct Priority {
  PriorityKind kind = PriorityKind::kProduct;
  // For kComponent.
  size_t component = 0;
  // Per component; empty: all 1. Factors for kSum, kMax, kMin; exponents, at most 16, for
  // kProduct; ignored for kComponent.
  std::vector<uint32_t> weights;

  friend bool operator==(const Priority&, const Priority&) = default;
};

// 126 bits: exact below 2^126, then saturating. Larger values count as equal.
__extension__ typedef unsigned __int128 PriorityValue;

// Evaluates a priority over the components that have a limit (`graphs` never counts). Monotone: if
// a <= b in every component then Of(a) <= Of(b); so the search can skip packs with too little
// priority left. Immutable; thread-safe.
class PriorityFunction {
 public:
  // INVALID_ARGUMENT for an unknown component, a component without a limit, a wrong number of
  // weights, or an exponent above 16.
  static absl::StatusOr<PriorityFunction> Create(const Priority& priority, const Limits& limits);

  // Of a size tuple, or of the room left in a pack. O(l).
  PriorityValue Of(absl::Span<const uint32_t> sizes) const { return Evaluate(sizes); }
  PriorityValue Of(absl::Span<const uint64_t> room) const { return Evaluate(room); }

 private:
  PriorityFunction() = default;
  template <typename Int>
  PriorityValue Evaluate(absl::Span<const Int> sizes) const;

  PriorityKind kind_ = PriorityKind::kProduct;
  struct Term {
    size_t component;
    uint32_t weight;
  };
  std::vector<Term> terms_;
};

// "product", "sum", "nodes", "sum weighted 2,1".
std::string PriorityName(const Priority& priority, const SizeSchema& schema);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_PRIORITY_H_
