#include "service/algorithms/histograms/decaying_histogram.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

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
    : half_life_(half_life), landmark_(start), latest_(start), index_(num_components) {}

double DecayingHistogram::Age(absl::Time now) const {
  return absl::FDivDuration(std::max(now, latest_) - landmark_, half_life_);
}

std::optional<double> DecayingHistogram::FactorAt(absl::Time now) const {
  const double age = Age(now);
  if (age < kMaxAge) return std::nullopt;
  return std::exp2(-age);
}

size_t DecayingHistogram::NumDistinctAt(absl::Time now) const {
  const std::optional<double> factor = FactorAt(now);
  if (!factor) return num_distinct();
  return static_cast<size_t>(std::count_if(weights_.begin(), weights_.end(), [&](double weight) {
    return weight * *factor >= kNegligible;
  }));
}

bool DecayingHistogram::ContainsAt(absl::Span<const uint32_t> tuple, absl::Time now) const {
  const std::optional<uint32_t> row = index_.Find(tuple);
  if (!row) return false;
  const std::optional<double> factor = FactorAt(now);
  return !factor || weights_[*row] * *factor >= kNegligible;
}

void DecayingHistogram::Advance(absl::Time now) {
  latest_ = std::max(latest_, now);
  const std::optional<double> moved = FactorAt(latest_);
  if (!moved) return;
  const double factor = *moved;
  total_weight_ = 0;
  for (size_t row = 0; row < weights_.size();) {
    weights_[row] *= factor;
    if (weights_[row] < kNegligible) {
      // The last row moves here; it has not been visited yet.
      index_.Remove(row);
      weights_[row] = weights_.back();
      weights_.pop_back();
    } else {
      total_weight_ += weights_[row];
      ++row;
    }
  }
  landmark_ = latest_;
}

absl::Status DecayingHistogram::CheckComponents(size_t num_components) const {
  if (num_components == index_.num_components()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "histogram: ", num_components, " components, expected ", index_.num_components()));
}

absl::Status DecayingHistogram::Add(absl::Span<const uint32_t> tuple, uint64_t count,
                                    absl::Time now) {
  PH_RETURN_IF_ERROR(CheckComponents(tuple.size()));
  if (count == 0) return absl::OkStatus();
  Advance(now);
  const double weight = static_cast<double>(count) * std::exp2(Age(now));
  const uint32_t row = index_.FindOrInsert(tuple);
  weights_.resize(index_.num_rows(), 0.0);
  weights_[row] += weight;
  total_weight_ += weight;
  return absl::OkStatus();
}

absl::Status DecayingHistogram::AddTable(const SizesView& table, absl::Time now) {
  const size_t n = table.num_graphs();
  if (n == 0) return absl::OkStatus();
  PH_RETURN_IF_ERROR(CheckComponents(table.num_components()));
  Advance(now);
  const double weight = std::exp2(Age(now));
  index_.ForEachRow(table.counts(), n, [&](absl::Span<const uint32_t> rows) {
    weights_.resize(index_.num_rows(), 0.0);
    for (const uint32_t row : rows) weights_[row] += weight;
  });
  total_weight_ += static_cast<double>(n) * weight;
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
  SizeHistogram snapshot(num_components());
  for (size_t row = 0; row < weights_.size(); ++row) {
    PH_RETURN_IF_ERROR(snapshot.Add(index_.tuple(row), Round(weights_[row] * factor)));
  }
  return snapshot;
}

uint64_t DecayingHistogram::num_graphs(absl::Time now) const {
  return Round(total_weight_ * std::exp2(-Age(now)));
}

absl::Status DecayingHistogram::RestoreRow(absl::Span<const uint32_t> tuple, double weight) {
  PH_RETURN_IF_ERROR(CheckComponents(tuple.size()));
  if (!std::isfinite(weight) || weight <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("histogram: a weight of ", weight));
  }
  if (Contains(tuple)) return absl::InvalidArgumentError("histogram: a size that is there already");
  index_.FindOrInsert(tuple);
  weights_.push_back(weight);
  return absl::OkStatus();
}

absl::Status DecayingHistogram::RestoreTotal(absl::Time latest, double total_weight) {
  if (!std::isfinite(total_weight) || total_weight < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: weights of ", total_weight, " in all"));
  }
  latest_ = std::max(latest_, latest);
  total_weight_ = total_weight;
  return absl::OkStatus();
}

}  // namespace packhouse
