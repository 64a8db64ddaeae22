#include "service/algorithms/planning/limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace packhouse {

absl::StatusOr<Limits> Limits::Create(std::vector<uint64_t> capacities) {
  if (std::all_of(capacities.begin(), capacities.end(),
                  [](uint64_t capacity) { return capacity == kUnlimited; })) {
    return absl::InvalidArgumentError(
        "limits: no component has a capacity above 0, so that no batch would ever be full");
  }
  for (size_t k = 0; k < capacities.size(); ++k) {
    if (capacities[k] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("limits: capacity 0 of component number ", k, "; at least 1 is needed"));
    }
  }
  return Limits(std::move(capacities));
}

std::optional<size_t> Limits::FirstExceeded(absl::Span<const uint32_t> tuple) const {
  for (size_t k = 0; k < tuple.size(); ++k) {
    if (tuple[k] > capacities_[k]) return k;
  }
  return std::nullopt;
}

}  // namespace packhouse
