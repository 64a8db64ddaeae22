// The capacities of one batch.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_LIMITS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

// Capacity of a component without a limit.
inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// The largest capacity of a component that is packed online or laid out; a component without a
// limit counts as having it. Row numbers in a batch fit int32.
inline constexpr uint64_t kMaxCapacity = (uint64_t{1} << 31) - 1;

// A capacity for each component; `graphs` is the last. Immutable; thread-safe.
class Limits {
 public:
  // `capacities` has l + 1 entries, `graphs` last; kUnlimited where there is no limit.
  // INVALID_ARGUMENT if no component has a limit, or if a capacity is 0.
  static absl::StatusOr<Limits> Create(std::vector<uint64_t> capacities);

  // l, without `graphs`.
  size_t num_components() const { return capacities_.size() - 1; }
  // Capacity of component k, 0 <= k <= l; l is `graphs`.
  uint64_t capacity(size_t k) const { return capacities_[k]; }
  bool has_limit(size_t k) const { return capacities_[k] != kUnlimited; }
  uint64_t graphs() const { return capacities_.back(); }
  absl::Span<const uint64_t> capacities() const { return capacities_; }

  // The first component in which a graph of this size alone exceeds its capacity.
  std::optional<size_t> FirstExceeded(absl::Span<const uint32_t> tuple) const;

  friend bool operator==(const Limits& a, const Limits& b) {
    return a.capacities_ == b.capacities_;
  }

 private:
  explicit Limits(std::vector<uint64_t> capacities) : capacities_(std::move(capacities)) {}

  std::vector<uint64_t> capacities_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_LIMITS_H_
