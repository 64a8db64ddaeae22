#include "service/algorithms/histograms/drift_detector.h"

#include <algorithm>

#include "absl/numeric/bits.h"

namespace packhouse {
namespace {

// Bins of 32 for each power of two: values below 64 have their own, larger ones bins of at most
// 1/32 of the value.
constexpr uint32_t kBinsPerOctave = 32;
constexpr int kBitsOfBins = 5;
constexpr size_t kValues = kBinsPerOctave * (32 - kBitsOfBins + 1);

size_t BinOf(uint32_t value) {
  if (value < kBinsPerOctave) return value;
  const int shift = static_cast<int>(absl::bit_width(value)) - 1 - kBitsOfBins;
  return kBinsPerOctave * (static_cast<size_t>(shift) + 1) +
         ((value >> shift) & (kBinsPerOctave - 1));
}

constexpr std::array<double, 6> kStakeOf = {0.06, -0.06, 0.2, -0.2, 0.7, -0.7};
// Half of the wealth bets on shifts.
constexpr std::array<double, 3> kShareOfOrder = {0.5, 0.25, 0.25};

// The shares of the starts add up to 1. Those from number 2^i - 1 to 2^(i+1) - 2 have
// 1 / ((i + 1) * (i + 2)) together, and equal shares of it.
double ShareOfStart(uint64_t number) {
  const int octave = static_cast<int>(absl::bit_width(number + 1)) - 1;
  const double starts = static_cast<double>(uint64_t{1} << octave);
  return 1 / ((octave + 1.0) * (octave + 2.0) * starts);
}

}  // namespace

void RankCounts::Add(size_t value, uint64_t count) {
  counts_[value] += count;
  for (size_t i = value + 1; i < tree_.size(); i += i & (~i + 1)) tree_[i] += count;
}

uint64_t RankCounts::CountUpTo(size_t value) const {
  uint64_t count = 0;
  for (size_t i = value + 1; i > 0; i -= i & (~i + 1)) count += tree_[i];
  return count;
}

DriftDetector::DriftDetector(size_t num_components) : num_components_(num_components) {
  for (size_t k = 0; k < num_components; ++k) features_.emplace_back(kValues);
  for (size_t k = 1; k < num_components; ++k) features_.emplace_back(2 * kValues);
}

uint64_t DriftDetector::BytesFor(size_t num_components) {
  const uint64_t values = kValues * (num_components + 2 * (num_components - 1));
  return 2 * sizeof(uint64_t) * values + 2 * sizeof(Feature) * 2 * num_components;
}

size_t DriftDetector::ValueOf(size_t feature, absl::Span<const uint32_t> tuple) const {
  if (feature < num_components_) return BinOf(tuple[feature]);
  // Bins are about logarithmic, so the difference tells the ratio.
  return kValues + BinOf(tuple[feature - num_components_ + 1]) - BinOf(tuple[0]);
}

void DriftDetector::AddReference(absl::Span<const uint32_t> tuple, uint64_t count) {
  for (size_t f = 0; f < features_.size(); ++f) features_[f].ranks.Add(ValueOf(f, tuple), count);
  num_reference_ += count;
}

void DriftDetector::AddReference(const SizeHistogram& histogram) {
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    AddReference(histogram.tuple(row), histogram.count(row));
  }
}

void DriftDetector::Start() {
  const double share = ShareOfStart(num_observed_ / kGraphsPerStart);
  for (Feature& feature : features_) {
    for (size_t i = 0; i < kBets; ++i) {
      if (num_observed_ != 0) feature.earned[i] *= feature.wealth[i] / feature.wealth_then[i];
      if (feature.earned[i] <= 1) {
        feature.earned[i] = 1;
        feature.lowest[i] = num_observed_;
      }
      feature.wealth[i] += share;
      feature.wealth_then[i] = feature.wealth[i];
    }
  }
}

double DriftDetector::RankOf(Feature& feature, size_t value) {
  feature.ranks.Add(value, 1);
  const uint64_t all = num_reference_ + num_observed_ + 1;
  const double above = static_cast<double>(all - feature.ranks.CountUpTo(value));
  const double equal = static_cast<double>(feature.ranks.CountOf(value));
  const double tie = (static_cast<double>(ties_.Next() >> 11) + 0.5) * 0x1p-53;
  return (above + tie * equal) / static_cast<double>(all);
}

bool DriftDetector::Observe(absl::Span<const uint32_t> tuple) {
  if (num_observed_ % kGraphsPerStart == 0) Start();
  double most = 0;
  for (size_t f = 0; f < features_.size(); ++f) {
    Feature& feature = features_[f];
    const double p = RankOf(feature, ValueOf(f, tuple));
    // Legendre's polynomials on [0, 1]: their mean is 0, and they are within [-1, 1].
    const double x = 2 * p - 1;
    const std::array<double, kOrders> polynomials = {x, 0.5 * (3 * x * x - 1),
                                                     0.5 * x * (5 * x * x - 3)};
    double total = 0;
    for (size_t order = 0; order < kOrders; ++order) {
      double of_order = 0;
      double* const wealth = &feature.wealth[order * kStakes];
      for (size_t i = 0; i < kStakes; ++i) {
        wealth[i] *= 1 + kStakeOf[i] * polynomials[order];
        of_order += wealth[i];
      }
      total += kShareOfOrder[order] * of_order;
    }
    most = std::max(most, total);
  }
  ++num_observed_;
  return most >= static_cast<double>(kStakes * features_.size()) / kFalseAlarms;
}

uint64_t DriftDetector::num_before_change() const {
  double most = -1;
  uint64_t start = 0;
  for (const Feature& feature : features_) {
    for (size_t i = 0; i < kBets; ++i) {
      const double wealth = kShareOfOrder[i / kStakes] * feature.wealth[i];
      if (wealth <= most) continue;
      most = wealth;
      start = feature.lowest[i];
    }
  }
  return start;
}

}  // namespace packhouse
