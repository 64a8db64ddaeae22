#include "service/engine/epochs/selection.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status CheckNumberOfItems(absl::string_view what, uint64_t number) {
  if (number <= ItemSizes::kMaxItems) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", number, ", at most ", ItemSizes::kMaxItems));
}

}  // namespace

absl::StatusOr<FittingItems> ItemsThatFit(const ItemSizes& sizes,
                                          std::optional<absl::Span<const uint32_t>> selection,
                                          absl::Span<const Limits> limits, size_t most_listed,
                                          const Making& making) {
  if (limits.empty()) return absl::InvalidArgumentError("limits: none");
  for (const Limits& one : limits) {
    if (one.num_components() != sizes.num_components()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limits: of ", one.num_components(), " components, items have ", sizes.num_components()));
    }
  }
  FittingItems fitting;
  const size_t n = selection ? selection->size() : sizes.num_items();
  fitting.items.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const uint32_t item = selection ? (*selection)[i] : static_cast<uint32_t>(i);
    if (item >= sizes.num_items()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "selection: item ", item, ", the data set has ", sizes.num_items(), " items"));
    }
    std::optional<size_t> exceeded;
    for (const Limits& one : limits) {
      exceeded = one.FirstExceeded(sizes.tuple(item));
      if (!exceeded) break;
    }
    if (!exceeded) {
      fitting.items.push_back(item);
      continue;
    }
    ++fitting.num_rejected;
    if (fitting.rejected.size() == most_listed) continue;
    fitting.rejected.push_back(
        {item, *exceeded, sizes.tuple(item)[*exceeded], limits.back().capacity(*exceeded)});
  }
  return fitting;
}

absl::StatusOr<std::vector<uint32_t>> SubsetOf(size_t num_items, std::vector<uint32_t> items) {
  std::sort(items.begin(), items.end());
  const auto twice = std::adjacent_find(items.begin(), items.end());
  if (twice != items.end()) {
    return absl::InvalidArgumentError(absl::StrCat("subset: item ", *twice, " is listed twice"));
  }
  if (!items.empty() && items.back() >= num_items) {
    return absl::InvalidArgumentError(
        absl::StrCat("subset: item ", items.back(), ", the data set has ", num_items, " items"));
  }
  return items;
}

absl::StatusOr<std::vector<uint32_t>> IntegerWeights(absl::Span<const double> weights) {
  double largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("weights: number ", i, " is ", weights[i],
                                                     ", must be finite and not negative"));
    }
    largest = std::max(largest, weights[i]);
  }
  if (largest == 0) return absl::InvalidArgumentError("weights: none is above 0");
  // largest is in [1/2, 1) * 2^exponent. Both functions are exact, except for underflow to 0.
  int exponent = 0;
  std::frexp(largest, &exponent);
  std::vector<uint32_t> integers;
  integers.reserve(weights.size());
  for (const double weight : weights) {
    const auto integer = static_cast<uint32_t>(std::ldexp(weight, 32 - exponent));
    integers.push_back(integer == 0 && weight > 0 ? 1 : integer);
  }
  return integers;
}

absl::StatusOr<WeightedSampler> WeightedSampler::Create(absl::Span<const uint32_t> weights,
                                                        const Making& making) {
  PH_RETURN_IF_ERROR(CheckNumberOfItems("weights", weights.size()));
  WeightedSampler sampler;
  // Below 2^64, as is each weight times their number.
  sampler.total_ = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  if (sampler.total_ == 0) return absl::InvalidArgumentError("weights: none is above 0");
  const uint64_t n = weights.size();
  std::vector<uint32_t> low;
  std::vector<uint32_t> high;
  sampler.thresholds_.resize(n);
  sampler.aliases_.resize(n);
  const auto num_low =
      static_cast<size_t>(std::count_if(weights.begin(), weights.end(), [&](uint32_t weight) {
        return weight * n < sampler.total_;
      }));
  // There is at least one high column. While low columns are filled up, high ones become low.
  low.reserve(num_low + 1);
  high.reserve(n - num_low);
  for (size_t i = 0; i < n; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    sampler.thresholds_[i] = weights[i] * n;
    sampler.aliases_[i] = static_cast<uint32_t>(i);
    (sampler.thresholds_[i] < sampler.total_ ? low : high).push_back(static_cast<uint32_t>(i));
  }
  // A low column is filled up from a high one. With integers there is no remainder: the low columns
  // lack exactly what the high ones have too much.
  for (size_t i = 0; !low.empty() && !high.empty(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const uint32_t poor = low.back();
    const uint32_t rich = high.back();
    low.pop_back();
    sampler.aliases_[poor] = rich;
    sampler.thresholds_[rich] -= sampler.total_ - sampler.thresholds_[poor];
    if (sampler.thresholds_[rich] < sampler.total_) {
      high.pop_back();
      low.push_back(rich);
    }
  }
  return sampler;
}

absl::StatusOr<std::vector<uint32_t>> WeightedSampler::Draw(uint64_t count, const EpochSeed& seed,
                                                            const Making& making) const {
  PH_RETURN_IF_ERROR(CheckNumberOfItems("sample", count));
  SeededRandom random(SequenceStart(seed, DrawPurpose::kSample));
  std::vector<uint32_t> sample;
  sample.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    sample.push_back(DrawOne(random));
  }
  return sample;
}

absl::StatusOr<std::vector<uint32_t>> SampleWithoutReplacement(absl::Span<const uint32_t> weights,
                                                               uint64_t count,
                                                               const EpochSeed& seed,
                                                               const Making& making) {
  PH_RETURN_IF_ERROR(CheckNumberOfItems("weights", weights.size()));
  const size_t n = weights.size();
  const auto positive = static_cast<uint64_t>(
      std::count_if(weights.begin(), weights.end(), [](uint32_t weight) { return weight != 0; }));
  if (count > positive) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sample: ", count, " items without replacement, ", positive, " have a weight above 0"));
  }
  // Draws with replacement and skips items that were drawn before, until half of the weight is
  // drawn; then goes on with a table of the rest. So each draw is skipped with a probability of at
  // most a half, and there are at most 64 tables.
  std::vector<uint32_t> left(n);
  std::iota(left.begin(), left.end(), 0);
  std::vector<uint32_t> left_weights(weights.begin(), weights.end());
  SeededRandom random(SequenceStart(seed, DrawPurpose::kSample));
  std::vector<uint32_t> sample;
  sample.reserve(count);
  while (sample.size() < count) {
    PH_ASSIGN_OR_RETURN(const WeightedSampler sampler,
                        WeightedSampler::Create(left_weights, making));
    uint64_t weight_left = sampler.total();
    std::vector<bool> taken(left.size(), false);
    for (size_t i = 0; sample.size() < count && weight_left > sampler.total() / 2; ++i) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(i));
      const uint32_t place = sampler.DrawOne(random);
      if (taken[place]) continue;
      taken[place] = true;
      weight_left -= left_weights[place];
      sample.push_back(left[place]);
    }
    size_t kept = 0;
    for (size_t place = 0; place < left.size(); ++place) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(place));
      if (taken[place] || left_weights[place] == 0) continue;
      left[kept] = left[place];
      left_weights[kept++] = left_weights[place];
    }
    left.resize(kept);
    left_weights.resize(kept);
  }
  return sample;
}

absl::StatusOr<std::vector<uint32_t>> DrawPlaces(absl::Span<const uint32_t> weights,
                                                 std::optional<uint64_t> count,
                                                 bool with_replacement, const EpochSeed& seed,
                                                 const Making& making) {
  if (with_replacement) {
    PH_ASSIGN_OR_RETURN(const WeightedSampler sampler, WeightedSampler::Create(weights, making));
    return sampler.Draw(count.value_or(weights.size()), seed, making);
  }
  const auto positive = static_cast<uint64_t>(
      weights.size() - std::count(weights.begin(), weights.end(), uint32_t{0}));
  return SampleWithoutReplacement(weights, count.value_or(positive), seed, making);
}

}  // namespace packhouse
