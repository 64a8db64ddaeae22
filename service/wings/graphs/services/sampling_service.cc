#include "service/wings/graphs/services/sampling_service.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "packhouse/v1/sampling.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/pack_handler.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_memory.h"
#include "service/wings/graphs/epochs/sampled_dataset.h"
#include "service/wings/graphs/epochs/size_estimate.h"
#include "service/wings/graphs/services/sample_handler.h"
#include "service/wings/graphs/services/wire_sampling.h"

namespace packhouse::rpc {
namespace {

constexpr uint32_t kDefaultEstimate = 2000;

// Makes the histogram anew. Where its new sizes are refused, it has the old ones.
absl::Status Replace(HistogramStore& histograms, const HistogramKey& key,
                     const SizeHistogram& histogram, absl::Time now) {
  absl::StatusOr<HistogramSnapshot> before = histograms.Get(key.name, now);
  if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
  const absl::Status deleted = histograms.Delete(key.name);
  if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
  absl::Status made = histograms.Merge(key, histogram, std::nullopt, now).status();
  // Whatever else it says, the new ones may be there.
  if (!before.ok() || !absl::IsResourceExhausted(made)) return made;
  before->memory.Reset();
  histograms
      .Merge({key.name, before->schema, before->half_life}, before->histogram, std::nullopt, now)
      .IgnoreError();
  return made;
}

absl::StatusOr<v1::EstimateSizesResponse> Estimate(const v1::EstimateSizesRequest& request,
                                                   const SourceGraphStore* graphs,
                                                   HistogramStore& histograms,
                                                   SamplingObserver* sampled, RequestCall& call) {
  const CallContext& context = call.context();
  const Making making(context.working, call.cancellation());
  PH_ASSIGN_OR_RETURN(const auto source, OpenSubGraphs(request.sub_graphs(), graphs));
  PH_ASSIGN_OR_RETURN(const MemoryHold memory, making.Hold("seeds", BytesOfSeeds(request.seeds())));
  PH_ASSIGN_OR_RETURN(const SeedList seeds,
                      SeedsFromWire(request.has_seeds(), request.seeds(), *source));
  const SizeSchema& schema = source->schema().sizes();
  if (!request.histogram().empty()) {
    const auto before = histograms.SchemaOf(request.histogram());
    if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
    if (before.ok() && !(*before == schema)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "histogram '", request.histogram(), "': has other components than the sub-graphs"));
    }
  }
  PH_ASSIGN_OR_RETURN(
      const SizeEstimate estimate,
      EstimateSizes(source, seeds, {request.seed(), request.epoch()},
                    request.num_graphs() == 0 ? kDefaultEstimate : request.num_graphs(), making,
                    sampled));
  PH_ASSIGN_OR_RETURN(
      call.answer_memory(),
      making.Hold("the histogram as it is sent",
                  BytesToWire(estimate.histogram.num_distinct(), schema.num_components())));
  // The last thing that may be refused.
  if (!request.histogram().empty()) {
    PH_RETURN_IF_ERROR(Replace(histograms, {request.histogram(), schema, std::nullopt},
                               estimate.histogram, context.clock->Now()));
  }
  v1::EstimateSizesResponse response;
  GraphSchemaToWire(source->schema(), *response.mutable_schema());
  HistogramToWire(estimate.histogram, schema, *response.mutable_histogram());
  response.set_num_seeds(estimate.num_seeds);
  response.set_num_graphs(estimate.num_graphs);
  response.set_bytes_per_graph(estimate.mean_bytes);
  return response;
}

void ProgressToWire(const SampledDatasetProgress& progress, v1::SampleDatasetResponse& wire) {
  wire.set_num_graphs(progress.num_graphs);
  wire.set_num_graphs_total(progress.num_graphs_total);
  wire.set_num_drawn_smaller(progress.num_drawn_smaller);
}

absl::StatusOr<v1::SampleDatasetResponse> Make(const v1::SampleDatasetRequest& wire,
                                               const SourceGraphStore* graphs,
                                               DatasetStore& datasets, SamplingObserver* sampled,
                                               ProgressSink<v1::SampleDatasetResponse>& sink) {
  const Making making(sink.call().context().working, sink.call().cancellation());
  PH_ASSIGN_OR_RETURN(const auto source, OpenSubGraphs(wire.sub_graphs(), graphs));
  PH_ASSIGN_OR_RETURN(const MemoryHold memory, making.Hold("seeds", BytesOfSeeds(wire.seeds())));
  SampledDatasetRequest request;
  request.dataset = wire.dataset();
  request.seed = {wire.seed(), wire.epoch()};
  PH_ASSIGN_OR_RETURN(request.seeds, SeedsFromWire(wire.has_seeds(), wire.seeds(), *source));
  request.max_bytes = wire.max_bytes();
  PH_ASSIGN_OR_RETURN(request.limits,
                      CountsFromWire(wire.max_rows(), source->schema().sizes(), "max_rows"));
  // 0: no bound.
  for (uint32_t& limit : request.limits) limit = limit == 0 ? UINT32_MAX : limit;
  PH_ASSIGN_OR_RETURN(request.draws_smaller, DrawsSmaller(wire.beyond_limits()));
  SampledDatasetProgress last;
  PH_ASSIGN_OR_RETURN(const DatasetInfo info,
                      MakeSampledDataset(source, request, datasets, making, sampled,
                                         [&](const SampledDatasetProgress& progress) {
                                           last = progress;
                                           v1::SampleDatasetResponse response;
                                           ProgressToWire(progress, response);
                                           sink.Report(response);
                                         }));
  v1::SampleDatasetResponse response;
  last.num_graphs = info.num_graphs;
  last.num_graphs_total = info.num_graphs;
  ProgressToWire(last, response);
  DatasetToWire(info, *response.mutable_dataset());
  return response;
}

}  // namespace

SamplingService::SamplingService(const CallContext& context, const StreamBounds& bounds,
                                 HistogramStore* histograms, PackObserverFactory* observers,
                                 LiveStreams* live, const SourceGraphStore* graphs,
                                 DatasetStore* datasets, SamplingObserver* sampled)
    : EarlyService(v1::SamplingService::service_full_name(), context) {
  Serve({
      StreamRow<v1::SampleRequest, SampleReply>(
          Method::kSample, Waits::kTurns, absl::OkStatus(),
          [=](const StreamOpening& stream) {
            const CallContext& of_call = stream.context;
            auto packer = std::make_unique<PackHandler>(
                of_call.clock, bounds, histograms, observers, of_call.working, stream.planning);
            packer->ListAmong(live, {of_call.client, of_call.principal()});
            return std::make_unique<SampleHandler>(graphs, std::move(packer), of_call.working,
                                                   sampled);
          }),
      Row(Method::kEstimateSizes, Waits::kPlans,
          [=](const v1::EstimateSizesRequest& request, RequestCall& call) {
            return Estimate(request, graphs, *histograms, sampled, call);
          }),
      Row(Method::kSampleDataset, Waits::kPlans,
          datasets == nullptr ? NoDataFolder() : absl::OkStatus(),
          [=](const v1::SampleDatasetRequest& request,
              ProgressSink<v1::SampleDatasetResponse>& sink) {
            return Make(request, graphs, *datasets, sampled, sink);
          }),
  });
}

}  // namespace packhouse::rpc
