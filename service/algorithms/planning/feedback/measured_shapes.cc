#include "service/algorithms/planning/feedback/measured_shapes.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace packhouse {
namespace {

// Whether `a` has as many rows as `b` or fewer in every component.
bool IsWithin(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  for (size_t k = 0; k < a.size() && k < b.size(); ++k) {
    if (a[k] > b[k]) return false;
  }
  return true;
}

}  // namespace

double MeasuredShape::MedianSeconds() const {
  if (seconds.empty()) return 0;
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

void MeasuredShapes::Add(const BatchObservation& observation) {
  ++num_reports_;
  const auto place = std::lower_bound(
      shapes_.begin(), shapes_.end(), observation.capacities,
      [](const MeasuredShape& shape, const auto& sought) { return shape.capacities < sought; });
  const bool is_known = place != shapes_.end() && place->capacities == observation.capacities;
  MeasuredShape& shape = is_known ? *place : *shapes_.insert(place, MeasuredShape());
  if (!is_known) shape.capacities = observation.capacities;
  shape.last_report = num_reports_;
  shape.num_batches += observation.num_batches;
  if (observation.out_of_memory) {
    shape.num_out_of_memory += observation.num_batches;
    num_out_of_memory_ += observation.num_batches;
  } else {
    shape.peak_bytes = std::max(shape.peak_bytes, observation.peak_bytes);
    if (observation.seconds > 0) shape.seconds.push_back(observation.seconds);
    if (shape.seconds.size() > MeasuredShape::kMaxSamples) {
      shape.seconds.erase(shape.seconds.begin());
    }
    for (MeasuredShape& other : shapes_) {
      if (IsWithin(other.capacities, observation.capacities)) other.num_out_of_memory = 0;
    }
  }
  // A shape of which nothing but a corrected error was known says nothing.
  std::erase_if(shapes_, [](const MeasuredShape& each) {
    return each.fits() && each.seconds.empty() && each.peak_bytes == 0;
  });
  DropSurplus();
}

void MeasuredShapes::DropSurplus() {
  // Of shapes that are too large, only the smallest matter.
  std::vector<std::vector<uint64_t>> too_large;
  for (const MeasuredShape& shape : shapes_) {
    if (!shape.fits()) too_large.push_back(shape.capacities);
  }
  std::erase_if(shapes_, [&](const MeasuredShape& shape) {
    return !shape.fits() && std::any_of(too_large.begin(), too_large.end(), [&](const auto& other) {
      return other != shape.capacities && IsWithin(other, shape.capacities);
    });
  });
  const auto oldest = [this](bool fits) {
    // The first of the smallest and the last of the largest of each component.
    std::vector<bool> is_extreme(shapes_.size(), false);
    for (size_t k = 0; fits && k < shapes_.front().capacities.size(); ++k) {
      const auto [least, most] = std::minmax_element(
          shapes_.begin(), shapes_.end(), [&](const MeasuredShape& a, const MeasuredShape& b) {
            return a.capacities[k] < b.capacities[k];
          });
      is_extreme[static_cast<size_t>(least - shapes_.begin())] = true;
      is_extreme[static_cast<size_t>(most - shapes_.begin())] = true;
    }
    std::optional<size_t> found;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const MeasuredShape& shape = shapes_[i];
      if (shape.fits() != fits || is_extreme[i]) continue;
      if (!found || shape.last_report < shapes_[*found].last_report) found = i;
    }
    return found;
  };
  const auto count = [this](bool fits) {
    return static_cast<size_t>(std::count_if(
        shapes_.begin(), shapes_.end(), [&](const auto& shape) { return shape.fits() == fits; }));
  };
  while (count(false) > kMaxTooLarge)
    shapes_.erase(shapes_.begin() + static_cast<ptrdiff_t>(*oldest(false)));
  while (shapes_.size() > kMaxShapes) {
    // With very many components all may be extremes.
    const size_t dropped =
        oldest(true).value_or(std::min_element(shapes_.begin(), shapes_.end(),
                                               [](const auto& a, const auto& b) {
                                                 return a.last_report < b.last_report;
                                               }) -
                              shapes_.begin());
    shapes_.erase(shapes_.begin() + static_cast<ptrdiff_t>(dropped));
  }
}

MeasuredShapes MeasuredShapes::Restore(std::vector<MeasuredShape> shapes, uint64_t num_reports,
                                       uint64_t num_out_of_memory) {
  MeasuredShapes restored;
  restored.shapes_ = std::move(shapes);
  restored.num_reports_ = num_reports;
  restored.num_out_of_memory_ = num_out_of_memory;
  return restored;
}

}  // namespace packhouse
