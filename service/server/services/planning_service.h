// PlanningService (proto/packhouse/v1/planning.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_PLANNING_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_PLANNING_SERVICE_H_

#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/byte_quota.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"

namespace packhouse::rpc {

// The pointees must outlive the service. Thread-safe.
class PlanningService final : public EarlyService {
 public:
  // `quota` counts the bytes of grids that are being sent. `max_graphs_per_batch` is the bound of
  // epochs, for plans that name a padding.
  // `measured` has what was measured of devices.
  PlanningService(const CallContext& context, const HistogramStore* histograms, ByteQuota* quota,
                  uint64_t max_graphs_per_batch, const MeasuredModels* measured);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_PLANNING_SERVICE_H_
