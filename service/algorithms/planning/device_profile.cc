#include "service/algorithms/planning/device_profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status CheckComponent(const ComponentProfile& component, absl::string_view name) {
  // Negated, because NaN is neither above nor below a bound.
  if (!(component.relative_cost >= 0 &&
        component.relative_cost <= ComponentProfile::kMaxRelativeCost)) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: relative_cost ", component.relative_cost, " of ", name,
                     "; it must be in [0, ", ComponentProfile::kMaxRelativeCost, "]"));
  }
  if (component.multiple_of == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: multiple_of 0 of ", name, "; at least 1 is needed"));
  }
  if (component.max_rows == 0) return absl::OkStatus();
  if (component.max_rows == kUnlimited) {
    return absl::InvalidArgumentError(absl::StrCat("profile: max_rows ", component.max_rows, " of ",
                                                   name, "; at most ", kUnlimited - 1,
                                                   " is allowed"));
  }
  const uint64_t min_rows = std::max<uint64_t>(component.min_rows, 1);
  const uint64_t largest = component.max_rows - component.max_rows % component.multiple_of;
  if (largest < min_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profile: no multiple of ", component.multiple_of, " in [min_rows, max_rows] = [", min_rows,
        ", ", component.max_rows, "] of ", name));
  }
  if (largest <= component.reserved_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profile: max_rows ", component.max_rows, " of ", name, " leaves no room beside the ",
        component.reserved_rows, " that padding keeps free"));
  }
  return absl::OkStatus();
}

// By the profile's own figures.
uint64_t DeclaredBytes(const DeviceProfile& profile, absl::Span<const uint64_t> capacities) {
  uint64_t bytes = profile.fixed_bytes;
  for (size_t k = 0; k < capacities.size(); ++k) {
    if (capacities[k] == kUnlimited) continue;
    const ComponentProfile& component = profile.components[k];
    const auto rows =
        CheckedMultiply(component.bytes_per_row, capacities[k] + component.reserved_rows);
    const auto sum = rows ? CheckedAdd(bytes, *rows) : std::nullopt;
    if (!sum) return UINT64_MAX;
    bytes = *sum;
  }
  return bytes;
}

}  // namespace

absl::Status CheckDeviceProfile(const DeviceProfile& profile, const SizeSchema& schema) {
  const size_t l = schema.num_components();
  if (profile.components.size() != l + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profile: ", profile.components.size(), " components, expected ", l + 1, " with graphs"));
  }
  if (profile.max_distinct_shapes < 1 ||
      profile.max_distinct_shapes > DeviceProfile::kMaxDistinctShapes) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: max_distinct_shapes ", profile.max_distinct_shapes,
                     "; it must be in [1, ", DeviceProfile::kMaxDistinctShapes, "]"));
  }
  for (const double cost : {profile.fixed_cost, profile.least_cost}) {
    if (cost >= 0 && cost <= ComponentProfile::kMaxRelativeCost) continue;
    return absl::InvalidArgumentError(absl::StrCat("profile: fixed_cost ", cost,
                                                   "; it must be in [0, ",
                                                   ComponentProfile::kMaxRelativeCost, "]"));
  }
  bool any_limit = false;
  bool any_cost = false;
  std::vector<uint64_t> smallest(l + 1, kUnlimited);
  for (size_t k = 0; k <= l; ++k) {
    const ComponentProfile& component = profile.components[k];
    PH_RETURN_IF_ERROR(CheckComponent(component, schema.name(k)));
    if (component.max_rows == 0) continue;
    any_limit = true;
    any_cost |= component.relative_cost > 0;
    smallest[k] = SmallestCapacity(component);
  }
  if (!any_limit) {
    return absl::InvalidArgumentError(
        "profile: no component has max_rows above 0, so that no batch would ever be full");
  }
  if (!any_cost) {
    return absl::InvalidArgumentError(
        "profile: relative_cost is 0 in every component that has max_rows; one above 0 is needed");
  }
  if (profile.measured_bytes != nullptr &&
      !profile.measured_bytes->MayFit(WithReserved(profile, smallest))) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: batches of the smallest capacities, or of as many bytes (",
                     BytesOfShape(profile, smallest), "), did not fit the device, as measured_as '",
                     profile.measured_as, "' tells"));
  }
  if (!FitsMemory(profile, smallest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: the smallest capacities take ", BytesOfShape(profile, smallest),
                     " bytes, memory_bytes is ", profile.memory_bytes));
  }
  return absl::OkStatus();
}

uint64_t SmallestCapacity(const ComponentProfile& component) {
  const uint64_t min_rows = std::max(component.min_rows, component.reserved_rows + 1);
  return CapacityFor(component, min_rows - component.reserved_rows);
}

uint64_t LargestCapacity(const ComponentProfile& component) {
  return component.max_rows - component.max_rows % component.multiple_of - component.reserved_rows;
}

uint64_t CapacityFor(const ComponentProfile& component, uint64_t rows) {
  const uint64_t laid_out = rows + component.reserved_rows;
  const uint64_t multiple = component.multiple_of;
  return (laid_out / multiple + (laid_out % multiple != 0)) * multiple - component.reserved_rows;
}

std::vector<uint64_t> WithReserved(const DeviceProfile& profile,
                                   absl::Span<const uint64_t> capacities) {
  std::vector<uint64_t> laid_out(capacities.begin(), capacities.end());
  for (size_t k = 0; k < laid_out.size(); ++k) {
    if (laid_out[k] != kUnlimited) laid_out[k] += profile.components[k].reserved_rows;
  }
  return laid_out;
}

uint64_t BytesOfShape(const DeviceProfile& profile, absl::Span<const uint64_t> capacities) {
  if (profile.measured_bytes != nullptr && !profile.measured_bytes->fitted.empty()) {
    return profile.measured_bytes->BytesOf(WithReserved(profile, capacities));
  }
  return DeclaredBytes(profile, capacities);
}

bool FitsMemory(const DeviceProfile& profile, absl::Span<const uint64_t> capacities) {
  if (profile.measured_bytes != nullptr &&
      !profile.measured_bytes->MayFit(WithReserved(profile, capacities))) {
    return false;
  }
  if (profile.memory_bytes == 0) return true;
  const uint64_t bytes = DeclaredBytes(profile, capacities);
  // UINT64_MAX may mean a larger sum.
  return bytes <= profile.memory_bytes && bytes != UINT64_MAX;
}

bool HasMemoryBound(const DeviceProfile& profile) {
  return profile.memory_bytes != 0 || profile.measured_bytes != nullptr;
}

double CostOfShape(const DeviceProfile& profile, absl::Span<const uint64_t> capacities) {
  double cost = profile.fixed_cost;
  for (size_t k = 0; k < capacities.size(); ++k) {
    if (capacities[k] == kUnlimited) continue;
    const ComponentProfile& component = profile.components[k];
    cost += component.relative_cost * static_cast<double>(capacities[k] + component.reserved_rows);
  }
  return std::max(cost, profile.least_cost);
}

}  // namespace packhouse
