#include "service/server/services/histogram_service.h"

#include <memory>

#include "packhouse/v1/histogram.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/calls_grpc/stream_reactor.h"
#include "service/server/calls_grpc/unary_call.h"
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

}  // namespace

HistogramService::HistogramService(const CallContext& context, HistogramStore* histograms)
    : EarlyService(v1::HistogramService::service_full_name()),
      context_(context),
      histograms_(histograms) {
  Serve("Observe", &HistogramService::Observe);
  Serve("GetHistogram", &HistogramService::GetHistogram);
  Serve("MergeHistogram", &HistogramService::MergeHistogram);
  Serve("DeleteHistogram", &HistogramService::DeleteHistogram);
}

CallReactor* HistogramService::Observe(grpc::CallbackServerContext* call) {
  return StreamReactor<v1::ObserveRequest, v1::ObserveResponse>::Start(
      context_, *call, Method::kObserve,
      std::make_unique<ObserveHandler>(context_.clock, histograms_));
}

CallReactor* HistogramService::GetHistogram(grpc::CallbackServerContext* call) {
  // Until the answer is written.
  auto answer = std::make_shared<MemoryHold>();
  return RunUnary<v1::GetHistogramRequest>(context_, Method::kGetHistogram, call,
                                           [this, answer](const v1::GetHistogramRequest& parsed) {
                                             return Get(parsed, *histograms_, context_, *answer);
                                           });
}

CallReactor* HistogramService::MergeHistogram(grpc::CallbackServerContext* call) {
  return RunUnary<v1::MergeHistogramRequest>(context_, Method::kMergeHistogram, call,
                                             [this](const v1::MergeHistogramRequest& parsed) {
                                               return Merge(parsed, *histograms_, context_);
                                             });
}

CallReactor* HistogramService::DeleteHistogram(grpc::CallbackServerContext* call) {
  return RunUnary<v1::DeleteHistogramRequest>(
      context_, Method::kDeleteHistogram, call,
      [this](const v1::DeleteHistogramRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::DeleteHistogramResponse> {
        PH_RETURN_IF_ERROR(histograms_->Delete(parsed.histogram()));
        LogDeletion(context.log, context.client, "histogram", parsed.histogram());
        return v1::DeleteHistogramResponse();
      });
}

}  // namespace packhouse::rpc
