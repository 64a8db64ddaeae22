#include "service/collation/batch_shape.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/planning/limits.h"

namespace packhouse {

absl::StatusOr<BatchShape> BatchShape::Resolve(const GraphSchema& schema,
                                               const std::vector<uint64_t>& requested,
                                               const BatchShapeOptions& options) {
  if (requested.size() != schema.num_components() + 1) {
    return absl::InvalidArgumentError(absl::StrCat("limits: ", requested.size(), " capacities for ",
                                                   schema.num_components() + 1, " components"));
  }
  // Checks the capacities as requested, so that the error is right if there is no limit at all.
  PH_RETURN_IF_ERROR(Limits::Create(requested).status());
  for (size_t k = 0; k < requested.size(); ++k) {
    if (options.padding == Padding::kNone || requested[k] != kUnlimited) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "limits: padding needs a capacity of component '", schema.sizes().name(k), "'"));
  }
  std::vector<uint64_t> capacities = requested;
  for (const TensorSpec& tensor : schema.tensors()) {
    // Only a component without a limit is lowered; a limit too large for a dtype is an error.
    if (!tensor.index_into || requested[*tensor.index_into] != kUnlimited) continue;
    uint64_t& capacity = capacities[*tensor.index_into];
    capacity = std::min({capacity, MaxIndex(tensor.dtype), kMaxCapacity});
  }
  capacities.back() = std::min(capacities.back(), options.max_graphs_per_batch);

  PH_ASSIGN_OR_RETURN(BatchLayout layout,
                      BatchLayout::Create(&schema, capacities, options.padding, options.derived));
  if (options.whole_graphs && layout.is_fixed()) {
    const auto bytes = layout.FixedBatchBytes();
    if (!bytes || *bytes > options.max_batch_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("limits: a padded batch would take ",
                                                     bytes.value_or(UINT64_MAX), " bytes, at most ",
                                                     options.max_batch_bytes, " are allowed"));
    }
  }
  std::vector<uint64_t> usable_capacities = capacities;
  const std::vector<uint64_t> reserved = ReservedRows(schema, options.padding);
  for (size_t k = 0; k < usable_capacities.size(); ++k) {
    if (usable_capacities[k] != kUnlimited) usable_capacities[k] -= reserved[k];
  }
  PH_ASSIGN_OR_RETURN(Limits usable, Limits::Create(std::move(usable_capacities)));
  return BatchShape{std::move(capacities), std::move(usable), std::move(layout)};
}

bool BatchShape::Takes(absl::Span<const uint64_t> real_rows) const {
  for (size_t k = 0; k < real_rows.size(); ++k) {
    if (usable.has_limit(k) && real_rows[k] > usable.capacity(k)) return false;
  }
  return true;
}

absl::StatusOr<DeviceProfile> ProfileForPadding(DeviceProfile profile, const GraphSchema& schema,
                                                Padding padding, uint64_t max_graphs_per_batch) {
  PH_RETURN_IF_ERROR(CheckDeviceProfile(profile, schema.sizes()));
  if (padding == Padding::kNone) return profile;
  const std::vector<uint64_t> reserved = ReservedRows(schema, padding);
  for (size_t k = 0; k < profile.components.size(); ++k) {
    ComponentProfile& component = profile.components[k];
    component.reserved_rows = reserved[k];
    if (k == schema.num_components()) continue;
    if (component.max_rows == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "profile: padding needs max_rows of component '", schema.sizes().name(k), "'"));
    }
    if (component.max_rows > kMaxCapacity) {
      return absl::InvalidArgumentError(
          absl::StrCat("profile: max_rows ", component.max_rows, " of component '",
                       schema.sizes().name(k), "', a padded batch has at most ", kMaxCapacity));
    }
  }
  ComponentProfile& graphs = profile.components.back();
  graphs.fits_packs = graphs.max_rows == 0;
  graphs.max_rows =
      graphs.fits_packs ? max_graphs_per_batch : std::min(graphs.max_rows, max_graphs_per_batch);
  PH_RETURN_IF_ERROR(CheckDeviceProfile(profile, schema.sizes()));
  return profile;
}

}  // namespace packhouse
