// What a stream's limits lose, now that its sizes have changed.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_DRIFT_JUDGEMENT_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_DRIFT_JUDGEMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/engine/streams/stream_shapes.h"

namespace packhouse {

// The profile of a stream with limits of its own (`capacities` as requested): capacities that are
// no larger in any component. They are multiples of a power of two that divides the limit, at most
// 128 and, so that there is a choice, at most a sixteenth of the limit. Errors as ProfileForStream;
// INVALID_ARGUMENT if no component has a limit.
absl::StatusOr<DeviceProfile> ProfileWithin(const std::vector<uint64_t>& capacities,
                                            const GraphSchema& schema,
                                            const BatchShapeOptions& batches);

struct DriftJudgement {
  // The share of the cost of batches that the offered limits and look-ahead save: for the graphs
  // after the change, and for the reference.
  double loss = 0;
  double reference_loss = 0;
  // By component, `graphs` last; 1 without a limit.
  std::vector<double> reference_efficiencies;
  std::vector<double> present_efficiencies;
  std::vector<double> offered_efficiencies;
  // Unset: none cost less.
  std::optional<StreamShapes> offered;
  size_t look_ahead = 0;

  // What the change has cost.
  double LossByChange() const { return loss - (reference_loss > 0 ? reference_loss : 0); }
};

struct DriftSearch {
  // From ProfileForStream() or ProfileWithin(); nullopt: other limits cannot be searched.
  std::optional<DeviceProfile> profile;
  // The stream's shapes.
  std::vector<StreamShape> present;
  // A larger look-ahead is offered if it gains this share.
  double min_loss = 0;
  // Its packing is the stream's.
  ShapeSearch shapes;
};

// Compares the stream's shapes with those that are best for the graphs after the change, and for
// those of the reference: the stream's own packer packs graphs that are drawn from them. `schema`
// must outlive the offered shapes. Errors: CANCELLED as ChooseStreamShapes, others as that and
// OnlinePacker; where no limits take any graph, none are offered. Cost: twice that of
// ChooseStreamShapes. Same arguments, same result. Thread-safe.
absl::StatusOr<DriftJudgement> JudgeDrift(const SizeHistogram& reference,
                                          const SizeHistogram& recent, const GraphSchema& schema,
                                          const DriftSearch& search);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_DRIFT_JUDGEMENT_H_
