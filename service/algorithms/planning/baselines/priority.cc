#include "service/algorithms/planning/baselines/priority.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace packhouse {
namespace {

constexpr PriorityValue kSaturated = PriorityValue{1} << 126;
constexpr uint32_t kMaxExponent = 16;

PriorityValue SaturatingMultiply(PriorityValue a, uint64_t b) {
  PriorityValue product;
  if (__builtin_mul_overflow(a, PriorityValue{b}, &product)) return kSaturated;
  return std::min(product, kSaturated);
}

}  // namespace

absl::StatusOr<PriorityFunction> PriorityFunction::Create(const Priority& priority,
                                                          const Limits& limits) {
  const size_t l = limits.num_components();
  if (!priority.weights.empty() && priority.weights.size() != l) {
    return absl::InvalidArgumentError(
        absl::StrCat("priority: ", priority.weights.size(), " weights for ", l, " components"));
  }
  PriorityFunction function;
  function.kind_ = priority.kind;
  for (size_t k = 0; k < l; ++k) {
    const uint32_t weight = priority.weights.empty() ? 1 : priority.weights[k];
    if (priority.kind == PriorityKind::kProduct && weight > kMaxExponent) {
      return absl::InvalidArgumentError(
          absl::StrCat("priority: weight ", weight, " of component number ", k,
                       " as exponent of a product, at most ", kMaxExponent));
    }
    if (priority.kind == PriorityKind::kComponent && k != priority.component) continue;
    if (!limits.has_limit(k)) continue;
    function.terms_.push_back({k, weight});
  }
  if (priority.kind == PriorityKind::kComponent && function.terms_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "priority: component number ", priority.component, " has no limit or does not exist"));
  }
  return function;
}

template <typename Int>
PriorityValue PriorityFunction::Evaluate(absl::Span<const Int> sizes) const {
  PriorityValue value = 0;
  switch (kind_) {
    case PriorityKind::kComponent:
      return sizes[terms_.front().component];
    case PriorityKind::kSum:
      for (const auto& [k, weight] : terms_) {
        value += SaturatingMultiply(sizes[k], weight);
      }
      return std::min(value, kSaturated);
    case PriorityKind::kMax:
      for (const auto& [k, weight] : terms_) {
        value = std::max(value, SaturatingMultiply(sizes[k], weight));
      }
      return value;
    case PriorityKind::kMin:
      value = terms_.empty() ? 0 : kSaturated;
      for (const auto& [k, weight] : terms_) {
        value = std::min(value, SaturatingMultiply(sizes[k], weight));
      }
      return value;
    case PriorityKind::kProduct:
      value = 1;
      for (const auto& [k, weight] : terms_) {
        for (uint32_t i = 0; i < weight; ++i) value = SaturatingMultiply(value, sizes[k]);
      }
      return value;
  }
  return value;
}

template PriorityValue PriorityFunction::Evaluate(absl::Span<const uint32_t>) const;
template PriorityValue PriorityFunction::Evaluate(absl::Span<const uint64_t>) const;

std::string PriorityName(const Priority& priority, const SizeSchema& schema) {
  std::string name;
  switch (priority.kind) {
    case PriorityKind::kProduct:
      name = "product";
      break;
    case PriorityKind::kSum:
      name = "sum";
      break;
    case PriorityKind::kMax:
      name = "max";
      break;
    case PriorityKind::kMin:
      name = "min";
      break;
    case PriorityKind::kComponent:
      return std::string(schema.name(priority.component));
  }
  if (!priority.weights.empty()) {
    absl::StrAppend(&name, " weighted ", absl::StrJoin(priority.weights, ","));
  }
  return name;
}

}  // namespace packhouse
