#include "service/server/services/histogram_service.h"

#include <memory>
#include <string>
#include <vector>

#include "packhouse/v1/histogram.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/observe_handler.h"
#include "service/server/wire/wire_memory.h"

namespace packhouse::rpc {
namespace {

absl::StatusOr<v1::GetHistogramResponse> Get(const v1::GetHistogramRequest& request,
                                             const HistogramStore& histograms,
                                             const CallContext& context, MemoryHold& answer) {
  PH_ASSIGN_OR_RETURN(const HistogramSnapshot snapshot,
                      histograms.Get(request.histogram(), context.clock->Now()));
  const Making making(context.working, nullptr);
  PH_ASSIGN_OR_RETURN(answer, making.Hold("the histogram as it is sent",
                                          BytesToWire(snapshot.histogram.num_distinct(),
                                                      snapshot.schema.num_components())));
  v1::GetHistogramResponse response;
  response.set_revision(snapshot.revision);
  HistogramToWire(snapshot.histogram, snapshot.schema, *response.mutable_histogram());
  if (snapshot.half_life != absl::InfiniteDuration()) {
    DurationToWire(snapshot.half_life, *response.mutable_half_life());
  }
  return response;
}

absl::StatusOr<v1::ListHistogramsResponse> List(const HistogramStore& histograms,
                                                const CallContext& context, MemoryHold& answer) {
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> names, histograms.Names());
  const Making making(context.working, nullptr);
  PH_ASSIGN_OR_RETURN(
      answer, making.Hold("the names as they are sent",
                          names.size() * (sizeof(std::string) + HistogramStore::kMaxNameLength)));
  v1::ListHistogramsResponse response;
  for (const std::string& name : names) {
    if (context.authorizer == nullptr || context.authorizer->MaySee(context.principal(), name)) {
      response.add_histograms(name);
    }
  }
  return response;
}

absl::StatusOr<v1::MergeHistogramResponse> Merge(const v1::MergeHistogramRequest& request,
                                                 HistogramStore& histograms,
                                                 const CallContext& context) {
  const absl::Time now = context.clock->Now();
  const Making making(context.working, nullptr);
  PH_ASSIGN_OR_RETURN(const MemoryHold memory,
                      making.Hold("addend", BytesOfHistogram(request.addend())));
  PH_ASSIGN_OR_RETURN(const NamedHistogram addend, HistogramFromWire(request.addend()));
  HistogramKey key = {request.histogram(), addend.schema, std::nullopt};
  if (request.has_half_life()) {
    PH_ASSIGN_OR_RETURN(key.half_life, BoundFromWire(request.half_life(), "half_life"));
  }
  const auto producer =
      ProducerFromWire(request.has_producer_sequence(), request.producer_sequence(), now);
  PH_ASSIGN_OR_RETURN(const CountedGraphs counted,
                      request.subtract() ? histograms.Subtract(key, addend.histogram, producer, now)
                                         : histograms.Merge(key, addend.histogram, producer, now));
  v1::MergeHistogramResponse response;
  response.set_num_counted(counted.counted);
  response.set_num_graphs(counted.num_graphs);
  return response;
}

absl::StatusOr<v1::DeleteHistogramResponse> Delete(const v1::DeleteHistogramRequest& request,
                                                   HistogramStore& histograms,
                                                   const CallContext& context) {
  PH_RETURN_IF_ERROR(histograms.Delete(request.histogram()));
  LogDeletion(context.log, context.client, "histogram", request.histogram());
  return v1::DeleteHistogramResponse();
}

}  // namespace

HistogramService::HistogramService(const CallContext& context, HistogramStore* histograms)
    : EarlyService(v1::HistogramService::service_full_name(), context) {
  Serve({
      StreamRow<v1::ObserveRequest, v1::ObserveResponse>(
          Method::kObserve, Waits::kTurns, absl::OkStatus(),
          [histograms](const StreamOpening& stream) {
            return std::make_unique<ObserveHandler>(stream.context.clock, histograms);
          }),
      Row(Method::kGetHistogram, Waits::kTurns,
          [histograms](const v1::GetHistogramRequest& request, RequestCall& call) {
            return Get(request, *histograms, call.context(), call.answer_memory());
          }),
      Row(Method::kListHistograms, Waits::kTurns,
          [histograms](const v1::ListHistogramsRequest& /*request*/, RequestCall& call) {
            return List(*histograms, call.context(), call.answer_memory());
          }),
      Row(Method::kMergeHistogram, Waits::kTurns,
          [histograms](const v1::MergeHistogramRequest& request, RequestCall& call) {
            return Merge(request, *histograms, call.context());
          }),
      Row(Method::kDeleteHistogram, Waits::kTurns,
          [histograms](const v1::DeleteHistogramRequest& request, RequestCall& call) {
            return Delete(request, *histograms, call.context());
          }),
  });
}

}  // namespace packhouse::rpc
