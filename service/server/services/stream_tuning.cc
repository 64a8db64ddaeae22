#include "service/server/services/stream_tuning.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/planning_room.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/wire/wire_planning.h"
#include "service/server/wire/wire_tuning.h"

namespace packhouse {
namespace {

constexpr uint32_t kDefaultGraphs = 2000;
// They are held until the search.
constexpr uint32_t kMaxGraphs = 65536;

v1::CapacityTerm TermToWire(CapacityTerm term) {
  switch (term) {
    case CapacityTerm::kNone:
      break;
    case CapacityTerm::kMaxRows:
      return v1::CAPACITY_TERM_MAX_ROWS;
    case CapacityTerm::kMemory:
      return v1::CAPACITY_TERM_MEMORY_BYTES;
    case CapacityTerm::kServer:
      return v1::CAPACITY_TERM_SERVER;
    case CapacityTerm::kSizes:
      return v1::CAPACITY_TERM_SIZES;
  }
  return v1::CAPACITY_TERM_UNSPECIFIED;
}

// The sizes that shapes are chosen from.
absl::StatusOr<SizeHistogram> SizesFor(const StreamTuningRequest& request, SizeHistogram sizes,
                                       const SizeSchema& schema, const HistogramStore& histograms,
                                       absl::Time now, MemoryHold& memory) {
  if (request.histogram.empty()) return sizes;
  PH_ASSIGN_OR_RETURN(HistogramSnapshot snapshot, histograms.Get(request.histogram, now));
  if (!(snapshot.schema == schema)) {
    return absl::FailedPreconditionError(absl::StrCat("calibration: histogram '", request.histogram,
                                                      "' has other components than the stream"));
  }
  memory = std::move(snapshot.memory);
  if (!request.counts_stream) PH_RETURN_IF_ERROR(snapshot.histogram.Merge(sizes));
  return std::move(snapshot.histogram);
}

absl::StatusOr<FoundShapes> Search(const StreamTuningRequest& request, const GraphSchema& schema,
                                   SizeHistogram sizes, const HistogramStore& histograms,
                                   absl::Time now, MemoryBudget* working,
                                   const std::function<bool()>& is_cancelled) {
  const Making making(working, is_cancelled);
  if (is_cancelled()) return absl::CancelledError("the client cancelled or is gone");
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(const SizeHistogram histogram,
                      SizesFor(request, std::move(sizes), schema.sizes(), histograms, now, memory));
  PlanningRoom room(making, histogram.num_distinct(), histogram.num_components());
  // The sizes, and the same as an endless stream.
  PH_RETURN_IF_ERROR(room.HoldHistogram());
  PH_RETURN_IF_ERROR(room.HoldHistogram());
  PH_RETURN_IF_ERROR(room.HoldTuning());
  ShapeSearch search;
  search.batches = request.batches;
  search.packing = request.packing;
  search.steps = request.steps;
  search.is_cancelled = is_cancelled;
  search.memory = room.memory();
  absl::StatusOr<StreamShapes> shapes =
      ChooseStreamShapes(histogram, request.profile, schema, search);
  if (!shapes.ok()) return room.Reason(shapes.status());
  FoundShapes found{*std::move(shapes), histogram.num_graphs(), std::nullopt};
  if (request.is_watched) {
    PH_ASSIGN_OR_RETURN(found.reference, DriftReferenceOf(histogram, &request.profile));
  }
  return found;
}

}  // namespace

absl::StatusOr<std::optional<StreamTuningRequest>> StreamTuningFromWire(
    const v1::PackOpen& open, const GraphSchema& schema, const BatchShapeOptions& batches,
    const MeasuredModels* models) {
  if (!open.has_device_profile()) {
    if (open.has_calibration()) {
      return absl::InvalidArgumentError(
          "calibration: set without a device_profile, for which it chooses the limits");
    }
    return std::nullopt;
  }
  if (open.has_limits()) {
    return absl::InvalidArgumentError(
        "limits: set beside a device_profile, from which the server chooses them");
  }
  StreamTuningRequest request;
  request.batches = batches;
  PH_ASSIGN_OR_RETURN(DeviceProfile profile,
                      DeviceProfileFromWire(open.device_profile(), schema.sizes()));
  PH_ASSIGN_OR_RETURN(profile, AsMeasured(profile, schema.sizes(), models));
  PH_ASSIGN_OR_RETURN(request.profile, ProfileForStream(std::move(profile), schema, batches));
  request.num_graphs = open.calibration().num_graphs();
  if (request.num_graphs == 0) request.num_graphs = kDefaultGraphs;
  if (request.num_graphs > kMaxGraphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("calibration: num_graphs ", request.num_graphs, ", at most ", kMaxGraphs));
  }
  request.histogram = open.calibration().histogram();
  request.counts_stream = !request.histogram.empty() && request.histogram == open.histogram();
  return request;
}

absl::StatusOr<uint64_t> GraphsToHold(const StreamTuningRequest& request, const SizeSchema& schema,
                                      HistogramStore& histograms, absl::Time now) {
  if (request.histogram.empty()) return request.num_graphs;
  if (const absl::Status there = histograms.SchemaOf(request.histogram).status(); !there.ok()) {
    // The stream is about to create its own.
    if (absl::IsNotFound(there) && request.counts_stream) return request.num_graphs;
    return there;
  }
  // Counts nothing, and says how many there are.
  PH_ASSIGN_OR_RETURN(const CountedGraphs counted,
                      histograms.Observe({request.histogram, schema, std::nullopt}, SizeTable(),
                                         std::nullopt, now));
  return request.num_graphs - std::min(request.num_graphs, counted.num_graphs);
}

std::unique_ptr<StreamTuning> StreamTuning::Start(StreamTuningRequest request,
                                                  std::shared_ptr<const GraphSchema> schema,
                                                  SizeHistogram sizes,
                                                  const HistogramStore* histograms,
                                                  const Clock* clock, MemoryBudget* working,
                                                  StreamPlanning* planning) {
  auto outcome = std::make_shared<Outcome>();
  StreamPlanning::Job job = [outcome, request = std::move(request), schema = std::move(schema),
                             sizes = std::move(sizes), histograms, clock,
                             working](const std::function<bool()>& is_cancelled) {
    absl::StatusOr<FoundShapes> found = EndOnAllocationFailure([&] {
      return Search(request, *schema, sizes, *histograms, clock->Now(), working, is_cancelled);
    });
    absl::MutexLock lock(&outcome->mutex);
    outcome->found.emplace(std::move(found));
  };
  if (planning != nullptr) {
    planning->Submit(std::move(job));
  } else {
    job([] { return false; });
  }
  return std::unique_ptr<StreamTuning>(new StreamTuning(std::move(outcome)));
}

std::optional<absl::StatusOr<FoundShapes>> StreamTuning::Take() {
  absl::MutexLock lock(&outcome_->mutex);
  return std::exchange(outcome_->found, std::nullopt);
}

void TunedToWire(const FoundShapes& found, const SizeSchema& schema, v1::PackTuned& wire) {
  const StreamShapes& shapes = found.shapes;
  const auto rows = [](uint64_t capacity) { return capacity == kUnlimited ? 0 : capacity; };
  for (size_t i = 0; i < shapes.shapes.size(); ++i) {
    const BatchShape& from = shapes.shapes[i].shape;
    v1::PackShape& shape = *wire.add_shapes();
    for (size_t k = 0; k < from.capacities.size(); ++k) {
      v1::TunedCapacity& capacity = *shape.add_capacities();
      capacity.set_component(std::string(schema.name(k)));
      capacity.set_rows(rows(from.capacities[k]));
      capacity.set_usable_rows(rows(from.usable.capacity(k)));
    }
    shape.set_memory_bytes(shapes.memory_bytes[i]);
    shape.set_expected_share(shapes.shares[i]);
  }
  for (size_t k = 0; k < shapes.terms.size(); ++k) {
    v1::TunedComponent& component = *wire.add_components();
    component.set_component(std::string(schema.name(k)));
    component.set_expected_efficiency(shapes.efficiencies[k]);
    component.set_term(TermToWire(shapes.terms[k]));
  }
  wire.set_expected_overhead(shapes.overhead);
  wire.set_num_graphs(found.num_graphs);
  if (shapes.oversize) OversizeToWire(*shapes.oversize, *wire.mutable_oversize());
  for (const std::string& reason : shapes.reasons) wire.add_reasons(reason);
}

}  // namespace packhouse
