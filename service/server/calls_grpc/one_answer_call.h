// A call with one request and one answer, from its headers until it has gone.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_ONE_ANSWER_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_ONE_ANSWER_CALL_H_

#include <memory>
#include <utility>
#include <variant>

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
#include "service/server/calls/call_context.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/method_table.h"
#include "service/server/calls/request_call.h"
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/call_reactor.h"
#include "service/server/calls_grpc/status_mapping.h"
#include "service/server/calls_grpc/wire_bytes.h"

namespace packhouse::rpc {

// Three phases. First the call waits for its request; the gate knows it, and ends it if no request
// comes for too long. Then it counts as one of the gate's calls, and is worked on as its row says
// (request_call.h). Then it is answered. It may stay for as long as its client does not read; its
// answer is held in the budget of unsent responses. In all phases it is one of the open calls
// (call_context.h).
//
// gRPC owns it until OnDone; jobs and the gate may hold it for longer.
class OneAnswerCall final : private GrpcHeaders,
                            public RequestCall,
                            public CallReactor,
                            public Abortable {
 public:
  // Lets the gate admit the call, or ends it. gRPC owns the result.
  static CallReactor* Start(const CallContext& server, grpc::CallbackServerContext& peer,
                            const MethodRow& row) {
    const std::shared_ptr<OneAnswerCall> call(new OneAnswerCall(server, peer, row));
    call->self_ = call;
    if (const absl::Status admitted = call->Enter(); admitted.ok()) {
      call->StartRead(&call->request_);
    } else {
      call->End(admitted);
    }
    return call.get();
  }

  void Abort(const absl::Status& status) override { EndWaiting(status); }
  void EndIfIdleSince(absl::Time since) override {
    if (started_ > since) return;
    EndWaiting(absl::UnavailableError(
        "no request has come for as long as --stream-idle-timeout says; call again"));
  }

  void OnReadDone(bool ok) override {
    if (!StopWaiting()) return;
    std::unique_ptr<RequestBytes> request;
    absl::Status status;
    if (!ok) {
      status = peer().IsCancelled()
                   ? absl::CancelledError("the client cancelled or is gone")
                   : absl::InvalidArgumentError("the call ended without a request");
    } else {
      context().OnRequest();
      if (!RunWithinMemory([&] { request = std::make_unique<ReceivedBytes>(&request_); })) {
        status = OutOfMemory();
      } else if (kind_) {
        status = context().gate->EnterCall(context().client, *kind_);
        is_inside_ = status.ok();
      }
    }
    // A call that cannot even be queued has not begun.
    if (status.ok()) {
      Begin(std::move(request));
    } else {
      End(status);
    }
  }

  void OnCancel() override { Cancel(); }

  void OnDone() override {
    // The thread that has answered may hold the call a little longer.
    ReleaseAnswer();
    place_.Reset();
    self_.reset();
  }

 private:
  OneAnswerCall(const CallContext& server, grpc::CallbackServerContext& peer, const MethodRow& row)
      : GrpcHeaders(&peer),
        RequestCall(ContextOf(server, peer), row, static_cast<GrpcHeaders&>(*this)),
        kind_(row.CountsAs()),
        started_(context().clock->Now()) {
    context().OnStarted(row.method);
  }

  absl::Status Enter() {
    if (absl::Status taken = context().TakePlace(place_); !taken.ok()) {
      peer().TryCancel();
      return taken;
    }
    if (row().waits != Waits::kNothing) PH_RETURN_IF_ERROR(context().refusal);
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(context().gate->EnterWaiting(self_));
    is_waiting_ = true;
    return absl::OkStatus();
  }

  // Whether the call was still waiting: the caller that ends the wait goes on with the call.
  bool StopWaiting() {
    {
      absl::MutexLock lock(&mutex_);
      if (!std::exchange(is_waiting_, false)) return false;
    }
    context().gate->LeaveWaiting(this);
    return true;
  }

  void EndWaiting(const absl::Status& status) {
    if (StopWaiting()) End(status);
  }

  void End(absl::StatusOr<Given> given) override {
    absl::Status status = given.status();
    if (status.ok() &&
        !RunWithinMemory([&] { ToBytes(std::get<MessagePieces>(*std::move(given)), &answer_); })) {
      status = OutOfMemory();
    }
    // Leaves the gate before the answer is sent: a client with the answer finds the call gone.
    if (is_inside_) context().gate->LeaveCall(context().client, *kind_);
    RunWithinMemory([&] { context().OnFinished(row().method, status, started_); });
    if (status.ok()) {
      StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
    } else {
      grpc::Status answer(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
      RunWithinMemory([&] { answer = ToGrpc(status); });
      Finish(answer);
    }
  }

  const std::optional<Gate::CallKind> kind_;  // While it is worked on.
  const absl::Time started_;
  FairBound::Place place_;
  grpc::ByteBuffer request_;  // gRPC's until the request has come.
  grpc::ByteBuffer answer_;
  bool is_inside_ = false;               // It counts as one of the gate's calls.
  std::shared_ptr<OneAnswerCall> self_;  // Until OnDone.

  absl::Mutex mutex_;
  bool is_waiting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_ONE_ANSWER_CALL_H_
