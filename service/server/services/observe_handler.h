// One stream of HistogramService.Observe.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_OBSERVE_HANDLER_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_OBSERVE_HANDLER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "packhouse/v1/histogram.pb.h"
#include "service/base/clock.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/server/calls/stream_handler.h"

namespace packhouse {

// Each response answers as many requests as the first one asked for. The pointees must outlive the
// handler.
class ObserveHandler final : public StreamHandler<v1::ObserveRequest, v1::ObserveResponse> {
 public:
  ObserveHandler(const Clock* clock, HistogramStore* histograms)
      : clock_(clock), histograms_(histograms) {}

  absl::Status Accept(std::unique_ptr<v1::ObserveRequest> request) override;
  void HalfClose() override { has_ended_ = true; }
  absl::StatusOr<std::optional<v1::ObserveResponse>> Next() override;

  static constexpr uint32_t kMaxRequestsPerResponse = 1024;

 private:
  // Sets the stream's histogram from the first request; later requests must not change it.
  absl::Status Describe(const v1::ObserveRequest& request);

  const Clock* const clock_;
  HistogramStore* const histograms_;
  std::optional<HistogramKey> key_;
  uint32_t requests_per_response_ = 1;
  // The answer to the requests that have not been answered yet.
  v1::ObserveResponse response_;
  bool has_ended_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_OBSERVE_HANDLER_H_
