// FeedbackService (proto/packhouse/v1/feedback.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_FEEDBACK_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_FEEDBACK_SERVICE_H_

#include "service/engine/feedback/feedback_store.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"

namespace packhouse::rpc {

// The pointees must outlive the service. Thread-safe.
class FeedbackService final : public EarlyService {
 public:
  FeedbackService(const CallContext& context, FeedbackStore* feedback);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_FEEDBACK_SERVICE_H_
