// The search for the shapes of a Pack stream that declares its hardware.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_STREAM_TUNING_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_STREAM_TUNING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "packhouse/v1/packing.pb.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/packing/online_packer.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/drift_watch.h"
#include "service/engine/streams/stream_shapes.h"
#include "service/server/calls/call_planning.h"

namespace packhouse {

// What a stream asks for, and where the sizes come from.
struct StreamTuningRequest {
  // From ProfileForStream().
  DeviceProfile profile;
  BatchShapeOptions batches;
  OnlinePackerOptions packing;
  uint64_t steps = 0;
  uint64_t num_graphs = 0;
  // The histogram whose graphs count too; empty: none.
  std::string histogram;
  // It has the graphs of the stream already.
  bool counts_stream = false;
  // The stream is watched: FoundShapes::reference is wanted.
  bool is_watched = false;
};

// INVALID_ARGUMENT naming the field, for `limits` beside a profile, a calibration without one, a
// bad profile, or too many graphs. Nullopt without a profile. `models` may be null.
absl::StatusOr<std::optional<StreamTuningRequest>> StreamTuningFromWire(
    const v1::PackOpen& open, const GraphSchema& schema, const BatchShapeOptions& batches,
    const MeasuredModels* models);

// How many graphs of the stream have to come before the search: 0 if the histogram has enough.
// NOT_FOUND if there is none of this name; FAILED_PRECONDITION if it has other components.
absl::StatusOr<uint64_t> GraphsToHold(const StreamTuningRequest& request, const SizeSchema& schema,
                                      HistogramStore& histograms, absl::Time now);

// What a search found.
struct FoundShapes {
  StreamShapes shapes;
  // That they were chosen from.
  uint64_t num_graphs = 0;
  std::optional<DriftReference> reference;
};

// One search. Thread-safe.
class StreamTuning {
 public:
  // Begins the search: on `planning` or, if that is null, within this call. The pointees must
  // outlive the search, which may outlive this; `working` may be null. `sizes`: graphs of the
  // stream. Throws std::bad_alloc if there is no memory to begin it.
  static std::unique_ptr<StreamTuning> Start(StreamTuningRequest request,
                                             std::shared_ptr<const GraphSchema> schema,
                                             SizeHistogram sizes, const HistogramStore* histograms,
                                             const Clock* clock, MemoryBudget* working,
                                             StreamPlanning* planning);

  // Nullopt as long as it goes on; then its result, once. Errors as ChooseStreamShapes;
  // RESOURCE_EXHAUSTED naming the sizes if its memory does not fit the budget; NOT_FOUND and
  // FAILED_PRECONDITION as GraphsToHold.
  std::optional<absl::StatusOr<FoundShapes>> Take();

 private:
  struct Outcome {
    absl::Mutex mutex;
    std::optional<absl::StatusOr<FoundShapes>> found ABSL_GUARDED_BY(mutex);
  };

  explicit StreamTuning(std::shared_ptr<Outcome> outcome) : outcome_(std::move(outcome)) {}

  const std::shared_ptr<Outcome> outcome_;
};

void TunedToWire(const FoundShapes& found, const SizeSchema& schema, v1::PackTuned& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_STREAM_TUNING_H_
