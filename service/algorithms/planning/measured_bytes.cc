#include "service/algorithms/planning/measured_bytes.h"

#include <algorithm>

#include "service/algorithms/planning/limits.h"

namespace packhouse {
namespace {

bool SaysNothing(uint64_t capacity) { return capacity == 0 || capacity == kUnlimited; }

// By how much `capacities` exceed `seen` in the component where they do so most; at least 1.
double LargestRatio(absl::Span<const uint64_t> capacities, absl::Span<const uint64_t> seen) {
  double ratio = 1;
  for (size_t k = 0; k < capacities.size() && k < seen.size(); ++k) {
    if (SaysNothing(capacities[k]) || SaysNothing(seen[k])) continue;
    ratio = std::max(ratio, static_cast<double>(capacities[k]) / static_cast<double>(seen[k]));
  }
  return ratio;
}

}  // namespace

uint64_t MeasuredBytes::BytesOf(absl::Span<const uint64_t> capacities) const {
  if (fitted.empty()) return 0;
  const auto fixed = static_cast<double>(fixed_bytes);
  double least = 1.8e19;
  for (const Seen& seen : fitted) {
    const double bytes = std::max(static_cast<double>(seen.bytes), fixed);
    least = std::min(least, fixed + LargestRatio(capacities, seen.capacities) * (bytes - fixed));
  }
  return least >= 1.8e19 ? UINT64_MAX : static_cast<uint64_t>(least);
}

bool MeasuredBytes::MayFit(absl::Span<const uint64_t> capacities) const {
  for (const std::vector<uint64_t>& shape : too_large) {
    bool is_as_large = true;
    for (size_t k = 0; k < capacities.size() && k < shape.size() && is_as_large; ++k) {
      is_as_large = SaysNothing(shape[k]) || capacities[k] >= shape[k];
    }
    if (is_as_large) return false;
  }
  return most_bytes == UINT64_MAX || BytesOf(capacities) <= most_bytes;
}

}  // namespace packhouse
