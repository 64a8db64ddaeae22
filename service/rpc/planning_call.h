// Runs a unary call that plans on the planning pool.
#ifndef PACKHOUSE_SERVICE_RPC_PLANNING_CALL_H_
#define PACKHOUSE_SERVICE_RPC_PLANNING_CALL_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/admission/call_context.h"
#include "service/admission/planning_pool.h"
#include "service/admission/unsent_budget.h"
#include "service/base/status_macros.h"
#include "service/rpc/allocation_failure.h"
#include "service/rpc/status_mapping.h"
#include "service/rpc/wire_bytes.h"

namespace packhouse::rpc {

// Belongs to gRPC until OnDone; the job may hold it for longer.
template <typename Request, typename Response>
class PlanningCall final : public grpc::ServerUnaryReactor,
                           public std::enable_shared_from_this<PlanningCall<Request, Response>> {
 public:
  using Respond = std::function<absl::StatusOr<Response>(const Request&, PlanningTurn&)>;
  // What can be answered without planning; nothing if it cannot.
  using AnswerAtOnce = std::function<absl::StatusOr<std::optional<Response>>(const Request&)>;

  // Answers with `respond`, run on the planning pool, which asks its turn whether to go on; but
  // first, on the call pool, with `at_once`, if there is any. `bytes` and `answer` are gRPC's and
  // live until the call has finished. The result belongs to gRPC.
  static grpc::ServerUnaryReactor* Start(const CallContext& server,
                                         const grpc::CallbackServerContext& peer, Method method,
                                         const grpc::ByteBuffer* bytes, grpc::ByteBuffer* answer,
                                         Respond respond, AnswerAtOnce at_once = nullptr) {
    auto call = std::shared_ptr<PlanningCall>(new PlanningCall(
        server, peer, method, bytes, answer, std::move(respond), std::move(at_once)));
    call->self_ = call;
    const CallContext& context = call->context_;
    context.observer->OnStarted(method);
    if (absl::Status admitted = context.gate->EnterCall(context.client, Gate::CallKind::kPlanning);
        !admitted.ok()) {
      call->Answer(admitted);
    } else if (call->at_once_) {
      context.call_pool->Submit(context.client, [call] { call->TryAtOnce(); });
    } else {
      call->SubmitPlanning();
    }
    return call.get();
  }

  void OnCancel() override { turn_->Cancel(); }
  void OnDone() override { self_.reset(); }

 private:
  PlanningCall(const CallContext& server, const grpc::CallbackServerContext& peer, Method method,
               const grpc::ByteBuffer* bytes, grpc::ByteBuffer* answer, Respond respond,
               AnswerAtOnce at_once)
      : context_(server.From(peer.peer())),
        method_(method),
        started_(context_.clock->Now()),
        bytes_(bytes),
        answer_(answer),
        hold_(context_.unsent_budget),
        turn_(std::make_shared<PlanningTurn>(context_.planning_pool, context_.client)),
        respond_(std::move(respond)),
        at_once_(std::move(at_once)) {}

  void SubmitPlanning() {
    context_.planning_pool->Submit(turn_, [self = this->shared_from_this()] {
      self->Leave(EndOnAllocationFailure([&] { return self->Plan(); }));
    });
  }

  void TryAtOnce() {
    const absl::StatusOr<bool> answered =
        EndOnAllocationFailure([this] { return AnsweredAtOnce(); });
    if (answered.ok() && !*answered) {
      SubmitPlanning();
      return;
    }
    Leave(answered.status());
  }

  absl::StatusOr<bool> AnsweredAtOnce() {
    Request request;
    PH_ASSIGN_OR_RETURN(const MemoryHold hold, Parse(request));
    PH_ASSIGN_OR_RETURN(const std::optional<Response> response, at_once_(request));
    if (!response) return false;
    PH_RETURN_IF_ERROR(Write(*response));
    return true;
  }

  absl::Status Plan() {
    Request request;
    PH_ASSIGN_OR_RETURN(const MemoryHold hold, Parse(request));
    PH_ASSIGN_OR_RETURN(const Response response, respond_(request, *turn_));
    return Write(response);
  }

  absl::StatusOr<MemoryHold> Parse(Request& request) const {
    if (turn_->cancelled()) return absl::CancelledError("the client cancelled or is gone");
    grpc::ByteBuffer copy(*bytes_);
    return ParseBytes(&copy, context_.working, &request);
  }

  absl::Status Write(const Response& response) {
    PH_RETURN_IF_ERROR(hold_.Reserve(response.ByteSizeLong()));
    return WriteBytes(response, context_.max_response_bytes, answer_);
  }

  void Leave(const absl::Status& status) {
    // Left before the answer is sent: whoever has the answer finds the call gone.
    context_.gate->LeaveCall(context_.client, Gate::CallKind::kPlanning);
    Answer(status);
  }

  void Answer(const absl::Status& status) {
    const absl::Duration elapsed = context_.clock->Now() - started_;
    context_.observer->OnFinished(method_, status.code(), elapsed);
    LogCall(context_.log, context_.client, method_, status, elapsed);
    Finish(ToGrpc(status));
  }

  const CallContext context_;
  const Method method_;
  const absl::Time started_;
  const grpc::ByteBuffer* const bytes_;
  grpc::ByteBuffer* const answer_;
  AnswerHold hold_;  // Of the answer.
  const std::shared_ptr<PlanningTurn> turn_;
  const Respond respond_;
  const AnswerAtOnce at_once_;
  std::shared_ptr<PlanningCall> self_;  // Until OnDone.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_PLANNING_CALL_H_
