// Runs a unary call that is quick, or waits for the disk, on the call pool.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_UNARY_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_UNARY_CALL_H_

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "service/base/caller.h"
#include "service/base/status_macros.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/one_answer_call.h"

namespace packhouse::rpc {

// Answers with respond(const Request&) -> absl::StatusOr<Response>, or with
// respond(const Request&, const CallContext&) if what it does depends on whose call it is.
template <typename Request, typename Respond>
class UnaryCall final : public OneAnswerCall, private Caller {
  // There are no more of these at a time than the pool has threads.
  static constexpr uint64_t kUncountedBytes = 16 << 10;

 public:
  static CallReactor* Start(const CallContext& server, grpc::CallbackServerContext& call,
                            Method method, Respond respond) {
    return Begin(
        std::shared_ptr<UnaryCall>(new UnaryCall(server, call, method, std::move(respond))));
  }

 private:
  UnaryCall(const CallContext& server, grpc::CallbackServerContext& call, Method method,
            Respond respond)
      : OneAnswerCall(server, call, method, Gate::CallKind::kQuick), respond_(std::move(respond)) {}

  void Work() override {
    context_.call_pool->Submit(context_.client, [this, self = shared_from_this()] {
      Answer(EndOnAllocationFailure([this]() -> absl::Status {
        const CallerScope scope(this);
        // The client no longer waits for it.
        if (IsCancelled()) return absl::CancelledError("the client cancelled or is gone");
        Request request;
        PH_ASSIGN_OR_RETURN(const MemoryHold hold, Parse(request, kUncountedBytes));
        PH_ASSIGN_OR_RETURN(const auto response, RespondTo(request));
        return Write(response);
      }));
    });
  }

  bool IsGone() const override { return IsCancelled(); }

  auto RespondTo(const Request& request) const {
    if constexpr (std::is_invocable_v<const Respond&, const Request&, const CallContext&>) {
      return respond_(request, context_);
    } else {
      return respond_(request);
    }
  }

  const Respond respond_;
};

// The reactor of a unary call. gRPC owns the result.
template <typename Request, typename Respond>
CallReactor* RunUnary(const CallContext& server, Method method, grpc::CallbackServerContext* call,
                      Respond respond) {
  return UnaryCall<Request, Respond>::Start(server, *call, method, std::move(respond));
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_UNARY_CALL_H_
