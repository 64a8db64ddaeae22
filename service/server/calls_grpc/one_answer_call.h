// A call with one request and one answer, from its headers until it has gone.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_ONE_ANSWER_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_ONE_ANSWER_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "service/access/fair_bound.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/base/unsent_budget.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/request_rights.h"
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/calls_grpc/status_mapping.h"
#include "service/server/calls_grpc/wire_bytes.h"

namespace packhouse::rpc {

// Three phases. First the call waits for its request; the gate knows it, and ends it if no request
// comes for too long. Then it counts as one of the gate's calls, and is worked on. Then it is
// answered. It may stay for as long as its client does not read; its answer is held in the budget
// of unsent responses. In all phases it is one of the open calls (call_context.h).
//
// gRPC owns it until OnDone; jobs and the gate may hold it for longer.
class OneAnswerCall : public CallReactor,
                      public Abortable,
                      public std::enable_shared_from_this<OneAnswerCall> {
 public:
  void Abort(const absl::Status& status) final { EndWaiting(status); }
  void EndIfIdleSince(absl::Time since) final {
    if (started_ > since) return;
    EndWaiting(absl::UnavailableError(
        "no request has come for as long as --stream-idle-timeout says; call again"));
  }

  void OnReadDone(bool ok) final {
    if (!StopWaiting()) return;
    has_request_ = ok;
    if (ok) context_.OnRequest();
    absl::Status status = absl::OkStatus();
    if (!ok) {
      status = call_.IsCancelled() ? absl::CancelledError("the client cancelled or is gone")
                                   : absl::InvalidArgumentError("the call ended without a request");
    } else if (kind_) {
      status = context_.gate->EnterCall(context_.client, *kind_);
      is_inside_ = status.ok();
    }
    // A call that cannot even be queued has not begun.
    if (status.ok() && !HasMemoryFor([this] { Work(); })) status = OutOfMemory();
    if (!status.ok()) Answer(status);
  }

  void OnDone() final {
    // The thread that has answered may hold the call a little longer.
    answer_hold_.Reset();
    place_.Reset();
    self_.reset();
  }

 protected:
  // `kind`: the call's kind for the gate while it is worked on; nullopt if that takes no time.
  OneAnswerCall(const CallContext& server, grpc::CallbackServerContext& call, Method method,
                std::optional<Gate::CallKind> kind)
      : context_(ContextOf(server, call)),
        call_(call),
        method_(method),
        kind_(kind),
        started_(context_.clock->Now()),
        answer_hold_(context_.unsent_budget) {
    context_.observer->OnStarted(method_);
    context_.ListAs(method_, /*is_stream=*/false);
  }

  // Lets the gate admit `call`, or ends it. gRPC owns the result.
  static CallReactor* Begin(const std::shared_ptr<OneAnswerCall>& call) {
    call->self_ = call;
    CallReactor* const reactor = call.get();
    if (const absl::Status admitted = call->Enter(); admitted.ok()) {
      call->StartRead(&call->request_);
    } else {
      call->Answer(admitted);
    }
    return reactor;
  }

  // Called when the request has come. Must call Answer() once, now or later. If there is no memory
  // to begin, throws std::bad_alloc and does not call it.
  virtual void Work() = 0;

  // The result holds the memory of the request, unless it takes at most `uncounted` bytes.
  // PERMISSION_DENIED if its caller may not make it.
  template <typename Request>
  absl::StatusOr<MemoryHold> Parse(Request& request, uint64_t uncounted = 0) const {
    PH_ASSIGN_OR_RETURN(MemoryHold hold, ParseRequest(ReceivedBytes(request_), context_.working,
                                                      &request, uncounted));
    PH_RETURN_IF_ERROR(Authorize(context_, request));
    return hold;
  }
  template <typename Response>
  absl::Status Write(const Response& response) {
    PH_RETURN_IF_ERROR(answer_hold_.Reserve(response.ByteSizeLong()));
    return WriteBytes(response, context_.max_response_bytes, &answer_);
  }

  const grpc::ByteBuffer& request() const { return request_; }
  bool IsCancelled() const { return call_.IsCancelled(); }

  // Answers with the written response, if `status` is OK.
  void Answer(const absl::Status& status) {
    // Leaves the gate before the answer is sent: a client with the answer finds the call gone.
    if (is_inside_) context_.gate->LeaveCall(context_.client, *kind_);
    const absl::Duration elapsed = context_.clock->Now() - started_;
    HasMemoryFor([&] {
      context_.observer->OnFinished(method_, status.code(), elapsed);
      LogCall(context_.log, context_.client, context_.record.get(), method_, status, elapsed);
    });
    if (has_request_) request_.Clear();
    if (status.ok()) {
      StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
    } else {
      grpc::Status answer(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
      HasMemoryFor([&] { answer = ToGrpc(status); });
      Finish(answer);
    }
  }

  const CallContext context_;

 private:
  absl::Status Enter() {
    PH_RETURN_IF_ERROR(TakePlace(context_, call_, &place_));
    // Whether the server lives is no secret: probes have no credentials.
    if (method_ != Method::kCheck) PH_RETURN_IF_ERROR(context_.refusal);
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(context_.gate->EnterWaiting(shared_from_this()));
    is_waiting_ = true;
    return absl::OkStatus();
  }

  // Whether the call was still waiting: the caller that ends the wait goes on with the call.
  bool StopWaiting() {
    {
      absl::MutexLock lock(&mutex_);
      if (!std::exchange(is_waiting_, false)) return false;
    }
    context_.gate->LeaveWaiting(this);
    return true;
  }

  void EndWaiting(const absl::Status& status) {
    if (StopWaiting()) Answer(status);
  }

  grpc::CallbackServerContext& call_;  // gRPC's, until OnDone.
  const Method method_;
  const std::optional<Gate::CallKind> kind_;
  const absl::Time started_;
  FairBound::Place place_;
  grpc::ByteBuffer request_;  // gRPC uses it until the request has come.
  grpc::ByteBuffer answer_;
  AnswerHold answer_hold_;
  // Used by one phase after the other.
  bool has_request_ = false;
  bool is_inside_ = false;               // It counts as one of the gate's calls.
  std::shared_ptr<OneAnswerCall> self_;  // Until OnDone.

  absl::Mutex mutex_;
  bool is_waiting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_ONE_ANSWER_CALL_H_
