#include "service/sizes/decaying_histogram.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

// 2^32 times the count still has 20 bits to spare in a double's mantissa for counts below 2^32.
constexpr double kMaxAge = 32;
constexpr double kNegligible = 1.0 / 1024;
constexpr double kLargest = 18446744073709549568.0;  // Largest double below 2^64.

uint64_t Round(double weight) {
  return static_cast<uint64_t>(std::min(std::round(weight), kLargest));
}

}  // namespace

DecayingHistogram::DecayingHistogram(size_t num_components, absl::Duration half_life,
                                     absl::Time start)
    : num_components_(num_components), half_life_(half_life), landmark_(start), latest_(start) {}

double DecayingHistogram::Age(absl::Time now) const {
  return absl::FDivDuration(std::max(now, latest_) - landmark_, half_life_);
}

void DecayingHistogram::Advance(absl::Time now) {
  latest_ = std::max(latest_, now);
  const double age = Age(latest_);
  if (age < kMaxAge) return;
  const double factor = std::exp2(-age);
  total_weight_ = 0;
  for (auto it = weights_.begin(); it != weights_.end();) {
    it->second *= factor;
    if (it->second < kNegligible) {
      weights_.erase(it++);
    } else {
      total_weight_ += it->second;
      ++it;
    }
  }
  landmark_ = latest_;
}

absl::Status DecayingHistogram::Add(absl::Span<const uint32_t> tuple, uint64_t count,
                                    absl::Time now) {
  if (tuple.size() != num_components_) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: ", tuple.size(), " components, expected ", num_components_));
  }
  if (count == 0) return absl::OkStatus();
  Advance(now);
  const double weight = static_cast<double>(count) * std::exp2(Age(now));
  auto found = weights_.find(tuple);
  if (found == weights_.end()) {
    found = weights_.emplace(SizeTuple(tuple.begin(), tuple.end()), 0.0).first;
  }
  found->second += weight;
  total_weight_ += weight;
  return absl::OkStatus();
}

absl::Status DecayingHistogram::AddTable(const SizeTable& table, absl::Time now) {
  for (size_t i = 0; i < table.num_graphs(); ++i) {
    PH_RETURN_IF_ERROR(Add(table.tuple(i), 1, now));
  }
  return absl::OkStatus();
}

absl::Status DecayingHistogram::Merge(const SizeHistogram& other, absl::Time now) {
  for (size_t row = 0; row < other.num_distinct(); ++row) {
    PH_RETURN_IF_ERROR(Add(other.tuple(row), other.count(row), now));
  }
  return absl::OkStatus();
}

absl::StatusOr<SizeHistogram> DecayingHistogram::Snapshot(absl::Time now) const {
  const double factor = std::exp2(-Age(now));
  SizeHistogram snapshot(num_components_);
  for (const auto& [tuple, weight] : weights_) {
    PH_RETURN_IF_ERROR(snapshot.Add(tuple, Round(weight * factor)));
  }
  return snapshot;
}

uint64_t DecayingHistogram::num_graphs(absl::Time now) const {
  return Round(total_weight_ * std::exp2(-Age(now)));
}

}  // namespace packhouse
