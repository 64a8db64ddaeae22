// The profiles and sizes with which a stream's shapes are searched.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_PROFILE_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_PROFILE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"

namespace packhouse {

// The profile with which shapes are searched: as ProfileForPadding, and with no more rows than the
// dtypes of index tensors can number. Errors as ProfileForPadding; INVALID_ARGUMENT as
// BatchShape::Resolve if even the smallest batch that the profile allows cannot be made.
absl::StatusOr<DeviceProfile> ProfileForStream(DeviceProfile profile, const GraphSchema& schema,
                                               const BatchShapeOptions& batches);

// The functions below take profiles from ProfileForStream().

// The same shares of sizes, and so many graphs that there are thousands of packs of the largest
// allowed capacities.
absl::StatusOr<SizeHistogram> AsEndlessStream(const SizeHistogram& histogram,
                                              const DeviceProfile& profile);

// The profile of padded batches, with the bytes of a batch's tensors as its memory. If it has a
// bound of its own, the bytes of a row are in parts of both bounds, and the larger part counts:
// then both are kept.
absl::StatusOr<DeviceProfile> WithinBatchBytes(const DeviceProfile& profile,
                                               const GraphSchema& schema,
                                               const BatchShapeOptions& batches);

// The profile, without limits that have no room for graphs that are a few times as large as the
// largest so far, as far as it allows larger ones. `capacities`, without what padding keeps free,
// are those that are best without it; nullopt if they have the room.
std::optional<DeviceProfile> ProfileWithRoom(const SizeHistogram& histogram,
                                             const DeviceProfile& profile,
                                             absl::Span<const uint64_t> capacities);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_PROFILE_H_
