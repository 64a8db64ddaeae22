#include "service/algorithms/planning/feedback/measured_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "service/algorithms/planning/limits.h"

namespace packhouse {
namespace {

// Peaks of equal batches differ by about as much; and how much farther apart two shapes must be for
// their difference to tell the constant.
constexpr double kPeakNoise = 0.002;
constexpr double kLeastGrowth = 1.1;
// What ran out of memory was above this share of what its bytes are thought to be.
constexpr double kBelowTooLarge = 0.95;
// A component's cost is at least this share of a batch's cost, spread over its rows; and less of
// `graphs` counts as nothing.
constexpr double kLeastShare = 1e-3;
constexpr double kLeastGraphsShare = 0.01;

// The growth from `a` to `b` in the component that grows least; 0 if one shrinks.
double LeastGrowth(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] == 0 && b[k] == 0) continue;
    if (a[k] == 0 || b[k] < a[k]) return 0;
    least = std::min(least, static_cast<double>(b[k]) / static_cast<double>(a[k]));
  }
  return std::isfinite(least) ? least : 0;
}

// The least that the constant can be: if every component grows at least r-fold from one batch to
// another, then the bytes beside the constant F do too, b - F >= r * (a - F).
double LeastFixedBytes(const std::vector<MeasuredBytes::Seen>& fitted) {
  double fixed = 0;
  double least_bytes = std::numeric_limits<double>::infinity();
  for (const MeasuredBytes::Seen& a : fitted) {
    least_bytes = std::min(least_bytes, static_cast<double>(a.bytes));
    for (const MeasuredBytes::Seen& b : fitted) {
      const double growth = LeastGrowth(a.capacities, b.capacities);
      if (growth < kLeastGrowth) continue;
      const double low = static_cast<double>(a.bytes) * (1 - kPeakNoise);
      const double high = static_cast<double>(b.bytes) * (1 + kPeakNoise);
      fixed = std::max(fixed, (growth * low - high) / (growth - 1));
    }
  }
  return fitted.empty() ? 0 : std::clamp(fixed, 0.0, least_bytes);
}

// Half of capacities that did not fit, as far as the profile allows smaller ones: where nothing is
// known to fit, a step at a time would fail as often as there are steps.
void HalveAboveLeast(const DeviceProfile& profile, std::vector<uint64_t>& capacities) {
  for (size_t k = 0; k < capacities.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0 || capacities[k] == kUnlimited) continue;
    const uint64_t least =
        std::max({component.min_rows, component.multiple_of, component.reserved_rows + 1});
    // The least capacity is a multiple, too.
    const uint64_t above = least + component.multiple_of;
    capacities[k] = std::min(capacities[k], std::max(capacities[k] / 2, above));
  }
}

// A law far beyond what was seen may tell more than a whole number holds.
uint64_t WholeBytes(double bytes) { return static_cast<uint64_t>(std::min(bytes, 0x1p63)); }

std::vector<CostPoint> PointsOf(const MeasuredShapes& shapes, bool of_seconds) {
  std::vector<CostPoint> points;
  for (const MeasuredShape& shape : shapes.shapes()) {
    const double value = of_seconds ? shape.MedianSeconds() : static_cast<double>(shape.peak_bytes);
    if (value <= 0 || (!of_seconds && !shape.fits())) continue;
    const double weight = of_seconds ? std::sqrt(static_cast<double>(shape.seconds.size())) : 1;
    points.push_back({shape.capacities, value, weight});
  }
  return points;
}

// The costs of a model that has any; `places`: by component of the profile, that in the model.
void SetCosts(const MeasuredModel& model, const std::vector<size_t>& places,
              DeviceProfile& measured) {
  // A batch as they were seen, for shares.
  std::vector<double> typical(model.components.size(), 0);
  double batch = 0;
  for (const MeasuredBytes::Seen& seen : model.bounds.fitted) {
    for (size_t j = 0; j < typical.size(); ++j) {
      typical[j] = std::max(typical[j], static_cast<double>(seen.capacities[j]));
    }
  }
  for (size_t j = 0; j < typical.size(); ++j) {
    typical[j] = std::max(typical[j], 1.0);
    batch += model.seconds.per_row[j] * typical[j];
  }
  batch = std::max(batch + model.seconds.fixed, model.seconds.least);
  // Without peaks it is not known how many rows a batch has.
  const bool has_typical = !model.bounds.fitted.empty();
  const double dearest =
      *std::max_element(model.seconds.per_row.begin(), model.seconds.per_row.end());
  for (size_t k = 0; k < places.size(); ++k) {
    ComponentProfile& component = measured.components[k];
    if (places[k] == model.components.size()) continue;
    const double cost = model.seconds.per_row[places[k]];
    const double share = cost * typical[places[k]] / batch;
    if (component.relative_cost > 0) {
      const double least = has_typical ? kLeastShare * batch / typical[places[k]]
                                       : std::max(kLeastShare * dearest, 1e-9 * batch);
      component.relative_cost = std::max(cost, least);
    } else if (has_typical && share >= kLeastGraphsShare) {
      component.relative_cost = cost;
    }
  }
  measured.fixed_cost = model.seconds.fixed;
  measured.least_cost = model.seconds.least;
  measured.has_measured_costs = true;
}

}  // namespace

MeasuredModel FitModel(const std::vector<std::string>& components, const MeasuredShapes& shapes) {
  MeasuredModel model;
  model.components = components;
  model.seconds = FitCost(PointsOf(shapes, /*of_seconds=*/true));
  const std::vector<CostPoint> peaks = PointsOf(shapes, /*of_seconds=*/false);
  model.bytes = FitCost(peaks);
  double most = 0;
  for (const CostPoint& peak : peaks) {
    model.bytes.fixed += std::max(0.0, peak.value - model.bytes.ValueOf(peak.capacities));
    model.bounds.fitted.push_back({peak.capacities, WholeBytes(peak.value)});
    most = std::max(most, peak.value);
  }
  model.bounds.fixed_bytes = WholeBytes(LeastFixedBytes(model.bounds.fitted));
  double too_many = std::numeric_limits<double>::infinity();
  for (const MeasuredShape& shape : shapes.shapes()) {
    if (shape.fits()) continue;
    model.bounds.too_large.push_back(shape.capacities);
    if (!peaks.empty()) too_many = std::min(too_many, model.bytes.ValueOf(shape.capacities));
  }
  if (std::isfinite(too_many)) {
    model.bounds.most_bytes = WholeBytes(std::max(kBelowTooLarge * too_many, most));
  }
  return model;
}

std::optional<DeviceProfile> WithMeasured(const DeviceProfile& profile, const SizeSchema& schema,
                                          const MeasuredModel& model) {
  const size_t num_components = schema.num_components() + 1;
  // By component of the profile, its place in the model.
  std::vector<size_t> places(num_components, model.components.size());
  for (size_t k = 0; k < num_components; ++k) {
    for (size_t place = 0; place < model.components.size(); ++place) {
      if (model.components[place] == schema.name(k)) places[k] = place;
    }
    if (places[k] == model.components.size() && profile.components[k].max_rows != 0) {
      return std::nullopt;
    }
  }
  const auto arranged = [&](const std::vector<uint64_t>& capacities) {
    std::vector<uint64_t> result(num_components, kUnlimited);
    for (size_t k = 0; k < num_components; ++k) {
      if (places[k] < capacities.size()) result[k] = capacities[places[k]];
    }
    return result;
  };
  DeviceProfile measured = profile;
  const bool has_bytes = !model.bounds.fitted.empty() || !model.bounds.too_large.empty();
  if (has_bytes) {
    auto bytes = std::make_shared<MeasuredBytes>();
    for (const MeasuredBytes::Seen& seen : model.bounds.fitted) {
      bytes->fitted.push_back({arranged(seen.capacities), seen.bytes});
    }
    for (const auto& shape : model.bounds.too_large) {
      std::vector<uint64_t> too_large = arranged(shape);
      if (model.bounds.fitted.empty()) HalveAboveLeast(profile, too_large);
      bytes->too_large.push_back(std::move(too_large));
    }
    bytes->fixed_bytes = model.bounds.fixed_bytes;
    bytes->most_bytes = model.bounds.most_bytes;
    if (!bytes->fitted.empty()) {
      // The declared figures are replaced; the bound stays.
      if (profile.memory_bytes != 0) {
        bytes->most_bytes = std::min(bytes->most_bytes, profile.memory_bytes);
      } else if (bytes->most_bytes != UINT64_MAX) {
        // Somewhere between what fitted and what did not; to look for it would cost more batches.
        bytes->most_bytes = 0;
        for (const MeasuredBytes::Seen& seen : bytes->fitted) {
          bytes->most_bytes = std::max(bytes->most_bytes, seen.bytes);
        }
      }
      measured.memory_bytes = 0;
      measured.fixed_bytes = 0;
      for (ComponentProfile& component : measured.components) component.bytes_per_row = 0;
    }
    measured.measured_bytes = std::move(bytes);
  }
  if (model.seconds.per_row.empty()) {
    if (!has_bytes) return std::nullopt;
    return measured;
  }
  SetCosts(model, places, measured);
  return measured;
}

}  // namespace packhouse
