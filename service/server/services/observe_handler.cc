#include "service/server/services/observe_handler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"

namespace packhouse {

absl::Status ObserveHandler::Describe(const v1::ObserveRequest& request) {
  if (!key_) {
    if (request.histogram().empty()) {
      return absl::InvalidArgumentError("histogram: must be named in the first request");
    }
    PH_ASSIGN_OR_RETURN(SizeSchema schema, ComponentsFromWire(request.components()));
    if (request.components().empty()) {
      absl::StatusOr<SizeSchema> known = histograms_->SchemaOf(request.histogram());
      if (known.ok()) {
        schema = *std::move(known);
      } else if (!absl::IsNotFound(known.status())) {
        return known.status();
      }
    }
    HistogramKey key = {request.histogram(), std::move(schema), std::nullopt};
    if (request.has_half_life()) {
      PH_ASSIGN_OR_RETURN(key.half_life, BoundFromWire(request.half_life(), "half_life"));
    }
    if (request.requests_per_response() > kMaxRequestsPerResponse) {
      return absl::InvalidArgumentError(
          absl::StrCat("requests_per_response: ", request.requests_per_response(), ", at most ",
                       kMaxRequestsPerResponse));
    }
    requests_per_response_ = std::max(1U, request.requests_per_response());
    key_ = std::move(key);
    return absl::OkStatus();
  }
  if (!request.histogram().empty() && request.histogram() != key_->name) {
    return absl::InvalidArgumentError(
        absl::StrCat("histogram: '", absl::CHexEscape(request.histogram().substr(0, 128)),
                     "', the stream counts into '", key_->name, "'"));
  }
  if (!request.components().empty()) {
    PH_ASSIGN_OR_RETURN(const SizeSchema schema, ComponentsFromWire(request.components()));
    if (!(schema == key_->schema)) {
      return absl::InvalidArgumentError("components: differ from those of the first request");
    }
  }
  if (request.has_half_life()) {
    PH_ASSIGN_OR_RETURN(const absl::Duration half_life,
                        BoundFromWire(request.half_life(), "half_life"));
    if (half_life != key_->half_life) {
      return absl::InvalidArgumentError("half_life: differs from that of the first request");
    }
  }
  if (request.requests_per_response() != 0 &&
      request.requests_per_response() != requests_per_response_) {
    return absl::InvalidArgumentError(
        "requests_per_response: differs from that of the first request");
  }
  return absl::OkStatus();
}

absl::Status ObserveHandler::Accept(std::unique_ptr<v1::ObserveRequest> request) {
  PH_RETURN_IF_ERROR(Describe(*request));
  if (!request->has_sizes() &&
      AsksForProducer(request->has_producer_sequence(), request->producer_sequence())) {
    PH_ASSIGN_OR_RETURN(
        const ProducerHistory history,
        histograms_->GetProducer(key_->name, request->producer_sequence().producer()));
    *response_.mutable_producer_sequence() = request->producer_sequence();
    response_.set_num_requests(response_.num_requests() + 1);
    ProducerStateToWire(history, *response_.mutable_producer_state());
    return absl::OkStatus();
  }
  std::vector<uint32_t> copy;
  PH_ASSIGN_OR_RETURN(const SizesView sizes,
                      SizesFromWire(request->sizes(), key_->schema.num_components(), copy));
  const auto producer = ProducerFromWire(request->has_producer_sequence(),
                                         request->producer_sequence(), clock_->Now());
  PH_ASSIGN_OR_RETURN(const CountedGraphs counted,
                      histograms_->Observe(*key_, sizes, producer, clock_->Now()));
  if (request->has_producer_sequence()) {
    *response_.mutable_producer_sequence() = request->producer_sequence();
  } else {
    response_.clear_producer_sequence();
  }
  response_.set_num_requests(response_.num_requests() + 1);
  response_.set_num_counted(response_.num_counted() + counted.counted);
  response_.set_num_graphs(counted.num_graphs);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::ObserveResponse>> ObserveHandler::Next() {
  const uint32_t least = has_ended_ ? 1 : requests_per_response_;
  if (response_.num_requests() < least) return std::nullopt;
  return std::exchange(response_, v1::ObserveResponse());
}

}  // namespace packhouse
