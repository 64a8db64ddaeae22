// Runs a unary call that plans on the planning pool.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_PLANNING_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_PLANNING_CALL_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "service/access/planning_caller.h"
#include "service/access/planning_pool.h"
#include "service/base/status_macros.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/one_answer_call.h"

namespace packhouse::rpc {

template <typename Request, typename Response>
class PlanningCall final : public OneAnswerCall {
 public:
  using Respond = std::function<absl::StatusOr<Response>(const Request&, PlanningTurn&)>;
  // The answer if it needs no planning; nullopt otherwise.
  using AnswerAtOnce = std::function<absl::StatusOr<std::optional<Response>>(const Request&)>;

  // Answers a call. First `at_once`, if given, runs on the call pool. If it has no answer,
  // `respond` runs on the planning pool and asks its turn whether to go on. The gate counts the
  // call as `kind`. gRPC owns the result.
  static CallReactor* Start(const CallContext& server, grpc::CallbackServerContext& call,
                            Method method, Respond respond, AnswerAtOnce at_once = nullptr,
                            Gate::CallKind kind = Gate::CallKind::kPlanning) {
    return Begin(std::shared_ptr<PlanningCall>(
        new PlanningCall(server, call, method, std::move(respond), std::move(at_once), kind)));
  }

  void OnCancel() override { turn_->Cancel(); }

 private:
  PlanningCall(const CallContext& server, grpc::CallbackServerContext& call, Method method,
               Respond respond, AnswerAtOnce at_once, Gate::CallKind kind)
      : OneAnswerCall(server, call, method, kind),
        turn_(std::make_shared<PlanningTurn>(context_.planning_pool, context_.client)),
        respond_(std::move(respond)),
        at_once_(std::move(at_once)) {}

  void Work() override {
    if (at_once_) {
      context_.call_pool->Submit(context_.client,
                                 [this, self = shared_from_this()] { TryAtOnce(); });
    } else {
      SubmitPlanning();
    }
  }

  void SubmitPlanning() {
    context_.planning_pool->Submit(turn_, [this, self = shared_from_this()] {
      PlanningCaller caller(turn_.get());
      const CallerScope scope(&caller);
      Answer(EndOnAllocationFailure([this] { return Plan(); }));
    });
  }

  void TryAtOnce() {
    const absl::StatusOr<bool> answered = EndOnAllocationFailure([this] {
      PlanningCaller caller(turn_.get());
      const CallerScope scope(&caller);
      return AnsweredAtOnce();
    });
    if (answered.ok() && !*answered) {
      SubmitPlanning();
      return;
    }
    Answer(answered.status());
  }

  absl::StatusOr<bool> AnsweredAtOnce() {
    Request request;
    PH_ASSIGN_OR_RETURN(const MemoryHold hold, ParseUnlessCancelled(request));
    PH_ASSIGN_OR_RETURN(const std::optional<Response> response, at_once_(request));
    if (!response) return false;
    PH_RETURN_IF_ERROR(Write(*response));
    return true;
  }

  absl::Status Plan() {
    Request request;
    PH_ASSIGN_OR_RETURN(const MemoryHold hold, ParseUnlessCancelled(request));
    if (turn_->GivenUpIn(context_.ResourceNamespace())) {
      return absl::CancelledError("the client cancelled or is gone");
    }
    PH_ASSIGN_OR_RETURN(const Response response, respond_(request, *turn_));
    return Write(response);
  }

  absl::StatusOr<MemoryHold> ParseUnlessCancelled(Request& request) const {
    if (turn_->cancelled()) return absl::CancelledError("the client cancelled or is gone");
    return Parse(request);
  }

  const std::shared_ptr<PlanningTurn> turn_;
  const Respond respond_;
  const AnswerAtOnce at_once_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_PLANNING_CALL_H_
