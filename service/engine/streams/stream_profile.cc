#include "service/engine/streams/stream_profile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// The sizes are counted so often that there are this many packs.
constexpr double kPacksTuned = 8192;
constexpr double kMostRows = 1e18;
// Room is wanted for graphs this many times as large as the largest so far.
constexpr double kHeadroom = 4;
// Where the profile has no room for them, this share of what it has room for is wanted.
constexpr double kShareOfRoom = 0.8;

std::vector<uint64_t> RealTotals(const SizeHistogram& histogram) {
  std::vector<uint64_t> totals;
  for (size_t k = 0; k < histogram.num_components(); ++k) totals.push_back(histogram.total(k));
  totals.push_back(histogram.num_graphs());
  return totals;
}

// Bytes that a row of each padded component adds to a batch's tensors.
std::vector<uint64_t> RowBytes(const BatchLayout& layout, size_t num_components) {
  std::vector<uint64_t> bytes(num_components + 1);
  for (const BatchColumn& column : layout.columns()) {
    if (!layout.is_ragged(column.component)) bytes[column.component] += column.row_bytes;
  }
  return bytes;
}

// Bytes of a batch that do not depend on its rows.
uint64_t FixedBytes(const BatchShape& shape, const std::vector<uint64_t>& row_bytes) {
  uint64_t fixed = shape.layout.PaddedBytes().value_or(0);
  for (size_t k = 0; k < row_bytes.size(); ++k) {
    if (row_bytes[k] != 0) fixed -= row_bytes[k] * shape.capacities[k];
  }
  return fixed;
}

}  // namespace

absl::StatusOr<DeviceProfile> ProfileForStream(DeviceProfile profile, const GraphSchema& schema,
                                               const BatchShapeOptions& batches) {
  PH_ASSIGN_OR_RETURN(profile, ProfileForPadding(std::move(profile), schema, batches.padding,
                                                 batches.max_graphs_per_batch));
  for (const TensorSpec& tensor : schema.tensors()) {
    if (!tensor.index_into) continue;
    ComponentProfile& component = profile.components[*tensor.index_into];
    component.max_rows = std::min(component.max_rows, MaxIndex(tensor.dtype));
  }
  PH_RETURN_IF_ERROR(CheckDeviceProfile(profile, schema.sizes()));
  std::vector<uint64_t> smallest;
  for (const ComponentProfile& component : profile.components) {
    smallest.push_back(component.max_rows == 0 ? kUnlimited : SmallestCapacity(component));
  }
  const absl::Status resolved =
      BatchShape::Resolve(schema, WithReserved(profile, smallest), batches).status();
  if (!resolved.ok()) {
    return absl::Status(resolved.code(),
                        absl::StrCat("profile: the smallest allowed batch: ", resolved.message()));
  }
  return profile;
}

absl::StatusOr<SizeHistogram> AsEndlessStream(const SizeHistogram& histogram,
                                              const DeviceProfile& profile) {
  const std::vector<uint64_t> totals = RealTotals(histogram);
  double times = std::numeric_limits<double>::infinity();
  double largest_total = 1;
  for (size_t k = 0; k < totals.size(); ++k) {
    const double total = static_cast<double>(totals[k]);
    largest_total = std::max(largest_total, total);
    if (profile.components[k].max_rows == 0 || totals[k] == 0) continue;
    const double capacity = static_cast<double>(LargestCapacity(profile.components[k]));
    times = std::min(times, kPacksTuned * capacity / total);
  }
  times = std::clamp(std::ceil(times), 1.0, std::max(1.0, kMostRows / largest_total));
  SizeHistogram repeated(histogram.num_components());
  for (const uint32_t row : histogram.SortedRows()) {
    PH_RETURN_IF_ERROR(
        repeated.Add(histogram.tuple(row), histogram.count(row) * static_cast<uint64_t>(times)));
  }
  return repeated;
}

absl::StatusOr<DeviceProfile> WithinBatchBytes(const DeviceProfile& profile,
                                               const GraphSchema& schema,
                                               const BatchShapeOptions& batches) {
  std::vector<uint64_t> smallest;
  for (const ComponentProfile& component : profile.components) {
    smallest.push_back(component.max_rows == 0 ? kUnlimited : SmallestCapacity(component));
  }
  PH_ASSIGN_OR_RETURN(const BatchShape shape,
                      BatchShape::Resolve(schema, WithReserved(profile, smallest), batches));
  const std::vector<uint64_t> row_bytes = RowBytes(shape.layout, schema.num_components());
  const uint64_t fixed = FixedBytes(shape, row_bytes);
  DeviceProfile within = profile;
  if (profile.memory_bytes == 0) {
    within.memory_bytes = batches.max_batch_bytes;
    within.fixed_bytes = fixed;
    for (size_t k = 0; k < row_bytes.size(); ++k) {
      within.components[k].bytes_per_row = row_bytes[k];
    }
    return within;
  }
  constexpr double kParts = 1ULL << 40;
  const auto part = [](uint64_t bytes, uint64_t bound, uint64_t fixed_bytes) {
    const double room = static_cast<double>(bound) - static_cast<double>(fixed_bytes);
    return kParts * static_cast<double>(bytes) / std::max(room, 1.0);
  };
  within.memory_bytes = static_cast<uint64_t>(kParts);
  within.fixed_bytes = 0;
  for (size_t k = 0; k < row_bytes.size(); ++k) {
    ComponentProfile& component = within.components[k];
    const double larger =
        std::max(part(component.bytes_per_row, profile.memory_bytes, profile.fixed_bytes),
                 part(row_bytes[k], batches.max_batch_bytes, fixed));
    component.bytes_per_row = static_cast<uint64_t>(std::ceil(std::min(larger, 2 * kParts)));
  }
  return within;
}

std::optional<DeviceProfile> ProfileWithRoom(const SizeHistogram& histogram,
                                             const DeviceProfile& profile,
                                             absl::Span<const uint64_t> capacities) {
  const std::vector<uint64_t> totals = RealTotals(histogram);
  const double num_graphs = static_cast<double>(histogram.num_graphs());
  // In mean graphs: the room that is wanted and the room that there is; and the component that
  // fills first.
  double wanted = 0;
  double room = std::numeric_limits<double>::infinity();
  double bytes = 0;
  double bytes_per_graph = 0;
  std::optional<size_t> heaviest;
  double heaviest_load = 0;
  for (size_t k = 0; k < totals.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0 || totals[k] == 0) continue;
    const double mean = static_cast<double>(totals[k]) / num_graphs;
    const uint64_t largest = k < histogram.num_components() ? histogram.maximum(k) : 1;
    wanted = std::max(wanted, kHeadroom * static_cast<double>(largest) / mean);
    room = std::min(room, static_cast<double>(LargestCapacity(component)) / mean);
    const double row_bytes = static_cast<double>(component.bytes_per_row);
    bytes += row_bytes * static_cast<double>(component.reserved_rows);
    bytes_per_graph += row_bytes * mean;
    const double load = mean / static_cast<double>(capacities[k]);
    if (component.relative_cost == 0 || load <= heaviest_load) continue;
    heaviest_load = load;
    heaviest = k;
  }
  if (!heaviest) return std::nullopt;
  if (profile.memory_bytes != 0 && bytes_per_graph > 0) {
    const double left =
        static_cast<double>(profile.memory_bytes) - static_cast<double>(profile.fixed_bytes);
    room = std::min(room, (left - bytes) / bytes_per_graph);
  }
  DeviceProfile roomy = profile;
  ComponentProfile& component = roomy.components[*heaviest];
  const double mean = static_cast<double>(totals[*heaviest]) / num_graphs;
  const double rows = std::min(std::floor(mean * std::min(wanted, kShareOfRoom * room)),
                               static_cast<double>(LargestCapacity(component)));
  if (rows <= static_cast<double>(capacities[*heaviest])) return std::nullopt;
  component.min_rows =
      std::max(component.min_rows, static_cast<uint64_t>(rows) + component.reserved_rows);
  return roomy;
}

}  // namespace packhouse
