// Runs a unary call that is quick, or waits for the disk, on the call pool.
#ifndef PACKHOUSE_SERVICE_RPC_UNARY_CALL_H_
#define PACKHOUSE_SERVICE_RPC_UNARY_CALL_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/admission/call_context.h"
#include "service/admission/unsent_budget.h"
#include "service/base/status_macros.h"
#include "service/rpc/allocation_failure.h"
#include "service/rpc/status_mapping.h"
#include "service/rpc/wire_bytes.h"

namespace packhouse::rpc {

// Ends a unary call. Its answer is held of the budget for responses that are not sent until gRPC
// has done with the call: a client that does not read keeps it for as long as it likes.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryReactor(UnsentBudget* budget) : answer(budget) {}

  AnswerHold answer;

 private:
  void OnDone() override { delete this; }
};

// Parses the request, answers with respond(const Request&) -> absl::StatusOr<Response>, run on
// the call pool. `bytes` and `answer` are gRPC's and live until the call has finished.
template <typename Request, typename Respond>
grpc::ServerUnaryReactor* RunUnary(const CallContext& server, Method method,
                                   grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes,
                                   grpc::ByteBuffer* answer, Respond respond) {
  const CallContext context = server.From(call->peer());
  auto* const reactor = new UnaryReactor(context.unsent_budget);  // Deletes itself.
  const absl::Time started = context.clock->Now();
  context.observer->OnStarted(method);
  const auto finish = [context, method, reactor, started](const absl::Status& status) {
    const absl::Duration elapsed = context.clock->Now() - started;
    context.observer->OnFinished(method, status.code(), elapsed);
    LogCall(context.log, context.client, method, status, elapsed);
    reactor->Finish(ToGrpc(status));
  };
  const absl::Status admitted = context.gate->EnterCall(context.client, Gate::CallKind::kQuick);
  if (!admitted.ok()) {
    finish(admitted);
    return reactor;
  }
  context.call_pool->Submit(context.client, [=, respond = std::move(respond)] {
    const absl::Status status = EndOnAllocationFailure([&]() -> absl::Status {
      // Nobody waits for it any more.
      if (call->IsCancelled()) return absl::CancelledError("the client cancelled or is gone");
      Request request;
      grpc::ByteBuffer copy(*bytes);
      PH_ASSIGN_OR_RETURN(const MemoryHold hold, ParseBytes(&copy, context.working, &request));
      auto response = respond(request);
      if (!response.ok()) return response.status();
      PH_RETURN_IF_ERROR(reactor->answer.Reserve(response->ByteSizeLong()));
      return WriteBytes(*response, context.max_response_bytes, answer);
    });
    // Left before the answer is sent: whoever has the answer finds the call gone.
    context.gate->LeaveCall(context.client, Gate::CallKind::kQuick);
    finish(status);
  });
  return reactor;
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_UNARY_CALL_H_
