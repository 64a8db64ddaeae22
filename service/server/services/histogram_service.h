// HistogramService (proto/packhouse/v1/histogram.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_HISTOGRAM_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_HISTOGRAM_SERVICE_H_

#include "service/engine/histograms/histogram_store.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"

namespace packhouse::rpc {

// The pointees must outlive the service. Thread-safe.
class HistogramService final : public EarlyService {
 public:
  HistogramService(const CallContext& context, HistogramStore* histograms);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_HISTOGRAM_SERVICE_H_
