// Device profiles for tests, and streams that declare one.
#ifndef PACKHOUSE_TESTS_STREAMS_PROFILE_WORLDS_H_
#define PACKHOUSE_TESTS_STREAMS_PROFILE_WORLDS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/base/status_macros.h"
#include "service/engine/streams/stream_packer.h"
#include "service/engine/streams/stream_shapes.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unwatched_streams.h"

namespace packhouse {

// Any profile that a stream of this schema takes.
inline DeviceProfile RandomProfile(Random& random, const GraphSchema& schema,
                                   const BatchShapeOptions& batches) {
  const std::vector<uint64_t> reserved = ReservedRows(schema, batches.padding);
  DeviceProfile profile;
  for (size_t k = 0; k <= schema.num_components(); ++k) {
    const bool is_graphs = k == schema.num_components();
    ComponentProfile component;
    component.multiple_of = random.Below(2) == 0 ? 1 : random.Between(1, 8);
    component.max_rows = component.multiple_of * random.Between(1, 10) + reserved[k];
    component.max_rows = std::max(component.max_rows, component.multiple_of + reserved[k]);
    component.max_rows += component.multiple_of;
    if (random.Below(3) == 0) component.min_rows = random.Between(1, component.multiple_of);
    component.bytes_per_row = random.Below(5);
    component.relative_cost = is_graphs ? 0 : 1;
    if (random.Below(4) == 0) component.relative_cost = random.Between(1, 3);
    if (is_graphs && random.Below(2) == 0) component.max_rows = 0;
    profile.components.push_back(component);
  }
  // A profile needs a component with rows and a cost.
  if (profile.components.size() == 1) profile.components[0] = {.max_rows = 5 + reserved[0]};
  profile.max_distinct_shapes = static_cast<uint32_t>(random.Between(1, 8));
  if (random.Below(2) == 0) profile.memory_bytes = random.Between(40, 400);
  return profile;
}

// What a stream asks for whose shapes are chosen from its first `num_graphs` graphs.
struct ProfiledStream {
  std::shared_ptr<const GraphSchema> schema;
  StreamPackerOptions options;
  ShapeSearch search;

  ProfiledStream(std::shared_ptr<const GraphSchema> graphs, StreamPackerOptions stream)
      : schema(std::move(graphs)), options(std::move(stream)) {
    search.batches = {options.padding,
                      options.derived,
                      options.whole_graphs,
                      options.bounds.max_graphs_per_batch,
                      options.bounds.max_batch_bytes,
                      options.min_rows};
  }

  absl::Status Declare(DeviceProfile profile, uint64_t num_graphs) {
    PH_ASSIGN_OR_RETURN(profile, ProfileForStream(std::move(profile), *schema, search.batches));
    options.calibration = CalibrationOptions{std::move(profile), num_graphs};
    search.packing = options.packing;
    return absl::OkStatus();
  }

  std::unique_ptr<StreamPacker> Open() const {
    return StreamPacker::Create(schema, options, UnwatchedStreams().ForStream(schema->sizes(), {}))
        .value();
  }

  // Chooses and sets shapes.
  absl::StatusOr<std::vector<Rejection>> SetShapes(StreamPacker& packer) const {
    PH_ASSIGN_OR_RETURN(StreamShapes chosen,
                        ChooseStreamShapes(packer.calibration().sizes(),
                                           options.calibration->profile, *schema, search));
    return packer.SetShapes(std::move(chosen.shapes));
  }
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_STREAMS_PROFILE_WORLDS_H_
