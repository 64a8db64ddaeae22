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

 private:
  CallReactor* Report(grpc::CallbackServerContext* call);
  CallReactor* GetModel(grpc::CallbackServerContext* call);
  CallReactor* ListModels(grpc::CallbackServerContext* call);
  CallReactor* DeleteModel(grpc::CallbackServerContext* call);

  const CallContext context_;
  // For calls that wait for the disk.
  const CallContext append_context_;
  FeedbackStore* const feedback_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_FEEDBACK_SERVICE_H_
