// Explains in sentences why a stream's shapes were chosen.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_SHAPE_REASONS_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_SHAPE_REASONS_H_

#include <string>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/engine/streams/stream_shapes.h"

namespace packhouse {

// One sentence for each deciding fact. `profile` as for ChooseStreamShapes.
std::vector<std::string> ShapeReasons(const StreamShapes& chosen, const SizeHistogram& histogram,
                                      const DeviceProfile& profile, const SizeSchema& schema);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_SHAPE_REASONS_H_
