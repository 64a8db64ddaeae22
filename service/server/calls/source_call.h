// A call with one request and a stream of responses: gets from the request to the source of the
// responses.
//
// Flow: the request is read. One job parses it and works on it, on the planning pool unless it can
// be answered at once; the job may report progress. The job gives a ResponseSource. A StreamingCall
// then empties the source as fast as the client reads. A call whose source waits holds no thread.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_SOURCE_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_SOURCE_CALL_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/access/planning_caller.h"
#include "service/access/planning_pool.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/call_link.h"
#include "service/server/calls/call_work.h"
#include "service/server/calls/message_pieces.h"
#include "service/server/calls/request_bytes.h"
#include "service/server/calls/request_rights.h"
#include "service/server/calls/response_source.h"
#include "service/server/calls/streaming_call.h"

namespace packhouse {

// The job's part of the call. Thread-safe as ProgressSink is.
template <typename Request, typename Response>
class SourceCall final : public ProgressSink<Response>,
                         public std::enable_shared_from_this<SourceCall<Request, Response>> {
 public:
  using Source = ResponseSource<Response>;
  // The work on the request; the sink lives until it returns. If it plans, it waits for its turns
  // in the sink's given_up().
  using Work = std::function<absl::StatusOr<std::unique_ptr<Source>>(const Request&,
                                                                     ProgressSink<Response>&)>;

  // Starts a call, or refuses it if the gate does; it counts as a stream. First `at_once`, if
  // given, runs on the call pool; it must not plan, and gives null if planning is needed. Then
  // `work` runs on the planning pool. `context` is the client's.
  static std::shared_ptr<StreamingCall> Start(const CallContext& context, Method method,
                                              CallLink* link, Work work, Work at_once = nullptr) {
    auto turn = std::make_shared<PlanningTurn>(context.planning_pool, context.client);
    auto call = std::make_shared<StreamingCall>(context, method, link, [turn] { turn->Cancel(); });
    if (!call->Enter()) return call;
    auto self = std::shared_ptr<SourceCall>(
        new SourceCall(call, std::move(turn), std::move(work), std::move(at_once)));
    call->Receive(
        [self](std::unique_ptr<RequestBytes> request) { self->BeginWith(std::move(request)); });
    return call;
  }

  void Report(const Response& response) override {
    absl::StatusOr<MessagePieces> progress =
        PiecesWithin(response, call_->context().max_response_bytes);
    // A progress that is too large to send is left out, like one that is replaced.
    if (progress.ok()) call_->Report(*std::move(progress));
  }

  bool given_up() const override { return is_planning_ ? turn_->GivenUp() : turn_->cancelled(); }

  bool given_up_while_waiting() const override { return turn_->GivenUpWhileWaiting(); }

  std::function<void()> Waker() override { return call_->Waker(); }

  void SetLane(std::shared_ptr<const std::atomic<bool>> uses_lane) override {
    call_->context().ListLane(std::move(uses_lane));
  }

 private:
  SourceCall(std::shared_ptr<StreamingCall> call, std::shared_ptr<PlanningTurn> turn, Work work,
             Work at_once)
      : call_(std::move(call)),
        turn_(std::move(turn)),
        work_(std::move(work)),
        at_once_(std::move(at_once)) {}

  void BeginWith(std::unique_ptr<RequestBytes> request) {
    request_ = std::move(request);
    if (request_ == nullptr) {
      End(turn_->cancelled() ? absl::CancelledError("the client cancelled or is gone")
                             : absl::InvalidArgumentError("the call ended without a request"));
    } else if (at_once_) {
      call_->context().call_pool->Submit(call_->context().client,
                                         [self = this->shared_from_this()] { self->TryAtOnce(); });
    } else {
      SubmitPlanning();
    }
  }

  void TryAtOnce() {
    absl::StatusOr<std::unique_ptr<Source>> source =
        EndOnAllocationFailure([this] { return Answer(at_once_); });
    if (source.ok() && *source == nullptr) {
      SubmitPlanning();
    } else {
      End(std::move(source));
    }
  }

  void SubmitPlanning() {
    call_->context().planning_pool->Submit(turn_, [self = this->shared_from_this()] {
      self->is_planning_ = true;
      self->End(EndOnAllocationFailure([&self] { return self->Answer(self->work_); }));
    });
  }

  absl::StatusOr<std::unique_ptr<Source>> Answer(const Work& work) {
    if (turn_->cancelled()) return absl::CancelledError("given up before it was begun");
    Request request;
    PH_ASSIGN_OR_RETURN(const MemoryHold hold,
                        ParseRequest(*request_, call_->context().working, &request));
    PH_RETURN_IF_ERROR(Authorize(call_->context(), request, RequestKind::kBeginsStream));
    PlanningCaller caller(turn_.get());
    const CallerScope scope(&caller);
    if (is_planning_ && turn_->GivenUpIn(call_->context().ResourceNamespace())) {
      return absl::CancelledError("given up before it was begun");
    }
    return work(request, *this);
  }

  // The call may end as soon as Begin() is called; then the pointees of work and request may be
  // gone.
  void End(absl::StatusOr<std::unique_ptr<Source>> source) {
    work_ = nullptr;
    at_once_ = nullptr;
    request_.reset();
    if (!source.ok()) {
      call_->Begin(source.status());
    } else {
      call_->Begin(std::make_unique<SourceWork<Response>>(call_->context(), *std::move(source)));
    }
  }

  const std::shared_ptr<StreamingCall> call_;
  const std::shared_ptr<PlanningTurn> turn_;
  // Used by one thread after another, on the way from the request to the source.
  std::unique_ptr<RequestBytes> request_;
  Work work_;
  Work at_once_;
  bool is_planning_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_SOURCE_CALL_H_
