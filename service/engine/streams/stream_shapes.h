// Chooses the shapes of a stream's batches for a device.
//
// How it works. A stream has no end, so the sizes are taken as shares, and not as a number of
// graphs: the tuner (limit_tuner.h) gets so many of each that a part-filled pack does not matter.
// Graphs larger than those seen so far may come. So if a shape with room for them costs hardly more
// than the best one, it is taken. Then the stream's own packer packs graphs drawn from the sizes
// (pack_rehearsal.h). This gives the expected efficiency, the number of graphs of a batch if the
// profile leaves it open, and the smaller shapes, if the client takes several.
//
// If the client takes several shapes, and no one takes all graphs that some limits take, there are
// groups of sizes (algorithms/planning/size_groups.h). Shapes are chosen for each group as for a
// stream of its own; smaller ones only for the first. The stream packs for each of them apart
// (shape_routes.h).
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_SHAPES_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_SHAPES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/packing/online_packer.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/algorithms/planning/plan_memory.h"
#include "service/engine/streams/shape_routes.h"
#include "service/engine/streams/stream_profile.h"

namespace packhouse {

// A shape of a stream's batches.
struct StreamShape {
  BatchShape shape;
  // The capacities that were asked for or chosen; kUnlimited where there is none.
  std::vector<uint64_t> requested;
  // Of a batch, in any unit; it decides what a graph is packed for that several shapes take.
  double cost = 1;
};

// Of the shapes that no earlier shape takes (LeadingShapes()), in their order: the most real rows
// of their packs.
ShapeRoutes RoutesOf(absl::Span<const StreamShape> shapes);

// What kept a capacity of the first shape from being larger.
enum class CapacityTerm {
  kNone,     // The component has no limit.
  kMaxRows,  // ComponentProfile::max_rows and multiple_of.
  kMemory,   // DeviceProfile::memory_bytes.
  kServer,   // BatchShapeOptions: the bytes of a batch, or its graphs.
  kSizes,    // More rows would cost more, since packs are full in another component.
};

struct StreamShapes {
  // By descending cost. None takes all that an earlier one takes; if one shape takes all graphs,
  // the first does.
  std::vector<StreamShape> shapes;
  // By shape: the share of full packs, and a batch's bytes by the profile's model.
  std::vector<double> shares;
  std::vector<uint64_t> memory_bytes;
  // By component, `graphs` last. Real rows over rows, all shapes together; 1 without a limit.
  std::vector<double> efficiencies;
  std::vector<CapacityTerm> terms;
  // The cost of the rows over the cost of the real rows, less 1; 0 if these cost nothing.
  double overhead = 0;
  // Graphs of the histogram that fit no allowed limits, or not beside those that are kept.
  std::optional<OversizeGraphs> oversize;
  // Sentences for people.
  std::vector<std::string> reasons;
};

struct ShapeSearch {
  BatchShapeOptions batches;
  OnlinePackerOptions packing;
  // Steps for each search of the tuner, of which there are at most three; groups share them.
  uint64_t steps = 200'000'000;
  // Asked now and then; may be empty.
  std::function<bool()> is_cancelled;
  // Reserves memory for what grows; null: there is room for all.
  PlanMemory* memory = nullptr;
};

// `profile` is from ProfileForStream. `schema` must outlive the shapes. Without padding there is
// one shape for each group.
//
// Errors: FAILED_PRECONDITION if no allowed limits take any graph of the histogram, or if it is
// empty; CANCELLED if the caller gave up, or `memory` refused; others as TuneLimits and
// BatchShape::Resolve. Cost: at most about a second; the memory of a copy of the histogram and of
// the tuner (TunerBytes). Same arguments, same result. Thread-safe.
absl::StatusOr<StreamShapes> ChooseStreamShapes(const SizeHistogram& histogram,
                                                const DeviceProfile& profile,
                                                const GraphSchema& schema,
                                                const ShapeSearch& search);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_SHAPES_H_
