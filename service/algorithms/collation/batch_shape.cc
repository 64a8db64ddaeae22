#include "service/algorithms/collation/batch_shape.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/status_macros.h"

namespace packhouse {

uint64_t MostGraphs(uint64_t max_graphs_per_batch, size_t num_components) {
  const auto bytes_for = [](size_t components) {
    return sizeof(uint64_t) + components * sizeof(uint32_t);
  };
  if (num_components <= kUsualComponents) return max_graphs_per_batch;
  // Not below 2: one for padding.
  return std::max<uint64_t>(
      std::min<uint64_t>(max_graphs_per_batch, 2),
      max_graphs_per_batch / bytes_for(num_components) * bytes_for(kUsualComponents));
}

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
    if (requested[k] != kUnlimited || !NeedsCapacity(schema, options.padding, k)) continue;
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
  capacities.back() = std::min(capacities.back(),
                               MostGraphs(options.max_graphs_per_batch, schema.num_components()));

  PH_ASSIGN_OR_RETURN(BatchLayout layout,
                      BatchLayout::Create(&schema, capacities, options.padding, options.derived,
                                          options.min_rows, options.integer_width));
  if (options.whole_graphs) {
    const auto bytes = layout.PaddedBytes();
    if (!bytes || *bytes > options.max_batch_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("limits: a padded batch would take ",
                                                     bytes.value_or(UINT64_MAX), " bytes, at most ",
                                                     options.max_batch_bytes, " are allowed"));
    }
  }
  std::vector<uint64_t> usable_capacities = capacities;
  const std::vector<uint64_t> reserved = ReservedRows(schema, options.padding);
  std::vector<uint64_t> packed_capacities = capacities;
  for (size_t k = 0; k < usable_capacities.size(); ++k) {
    const uint64_t least = options.min_rows[k];
    if (usable_capacities[k] != kUnlimited) {
      // With a minimum, the padding graph's rows are free for padding indices, too.
      usable_capacities[k] -= std::max(least, reserved[k]);
    }
    packed_capacities[k] =
        least == 0 ? usable_capacities[k]
                   : options.min_rows.PackedCapacity(k, capacities[k], capacities.back());
  }
  PH_ASSIGN_OR_RETURN(Limits usable, Limits::Create(std::move(usable_capacities)));
  PH_ASSIGN_OR_RETURN(Limits packed, Limits::Create(std::move(packed_capacities)));
  return BatchShape{std::move(capacities), std::move(usable), std::move(packed), std::move(layout)};
}

uint64_t BatchShape::LargestGraph(size_t k) const {
  const uint64_t least = layout.min_rows()[k];
  // All other graphs of its batch are padding.
  return least == 0 ? usable.capacity(k) : capacities[k] - least * (capacities.back() - 1);
}

bool BatchShape::Takes(absl::Span<const uint64_t> real_rows) const {
  for (size_t k = 0; k < real_rows.size(); ++k) {
    if (usable.has_limit(k) && real_rows[k] > usable.capacity(k)) return false;
    const uint64_t padding_graphs =
        capacities.back() - std::min(capacities.back(), real_rows.back());
    if (real_rows[k] + layout.min_rows()[k] * padding_graphs > capacities[k]) return false;
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
      if (!NeedsCapacity(schema, padding, k)) continue;
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
  const uint64_t most = MostGraphs(max_graphs_per_batch, schema.num_components());
  graphs.fits_packs = graphs.max_rows == 0;
  graphs.max_rows = graphs.fits_packs ? most : std::min(graphs.max_rows, most);
  PH_RETURN_IF_ERROR(CheckDeviceProfile(profile, schema.sizes()));
  return profile;
}

}  // namespace packhouse
