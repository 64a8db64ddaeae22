// Drives a call with one request and a stream of responses by gRPC's callback API.
//
// Flow: the request is parsed and worked on by one job, on the planning pool unless it can be
// answered at once; it may report progress. Then a ResponseSource is emptied as fast as the client
// reads: in turns on the stream pool, or, if its responses are quick to make (pace.h), on gRPC's
// own threads.
//
// Back-pressure: one response is being written; beside it wait the latest progress, and responses
// of the source until the outbox is full. The source is asked for no more while it is: a peer that
// stops reading stops its own call, holds no thread, and takes no memory beyond that and what the
// source holds. Nor does a call whose source waits.
#ifndef PACKHOUSE_SERVICE_RPC_SERVER_STREAMING_CALL_H_
#define PACKHOUSE_SERVICE_RPC_SERVER_STREAMING_CALL_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "service/admission/call_context.h"
#include "service/base/status_macros.h"
#include "service/rpc/allocation_failure.h"
#include "service/rpc/turn_taking_call.h"
#include "service/rpc/wire_bytes.h"
#include "service/wire/response_source.h"

namespace packhouse::rpc {

template <typename Request, typename Response>
class ServerStreamingCall final : public TurnTakingCall<grpc::ServerWriteReactor<grpc::ByteBuffer>>,
                                  public ProgressSink<Response> {
 public:
  using Source = ResponseSource<Response>;
  // What is done with the request; the sink lives until it returns. Where it plans, the sink's
  // given_up() is where it waits for its turns.
  using Work = std::function<absl::StatusOr<std::unique_ptr<Source>>(const Request&,
                                                                     ProgressSink<Response>&)>;

  // Starts a call, or refuses it if the gate does: it counts as a stream. `work` is done on the
  // planning pool; but first, on the call pool, `at_once`, if given, which does not plan, and gives
  // null if there is no other way. `bytes` is gRPC's and lives as long as the call. The result
  // belongs to gRPC.
  static ServerStreamingCall* Start(const CallContext& server, grpc::CallbackServerContext& peer,
                                    Method method, const grpc::ByteBuffer* bytes, Work work,
                                    Work at_once = nullptr) {
    auto call = std::shared_ptr<ServerStreamingCall>(
        new ServerStreamingCall(server, peer, method, bytes, std::move(work), std::move(at_once)));
    if (!call->Enter(call)) return call.get();
    if (call->at_once_) {
      server.call_pool->Submit(call->context_.client, [call] { call->TryAtOnce(); });
    } else {
      call->SubmitPlanning();
    }
    return call.get();
  }

  void Report(const Response& response) override {
    grpc::ByteBuffer bytes;
    // Progress that is too large to be sent is left out like any that comes too fast.
    if (!WriteBytes(response, context_.max_response_bytes, &bytes).ok()) return;
    absl::MutexLock lock(&mutex_);
    if (outbox_.Replace(&bytes).ok()) WriteLocked(Making::kNobody);
  }

  bool given_up() const override { return is_planning_ ? turn_->GivenUp() : turn_->cancelled(); }

  bool given_up_while_waiting() const override { return turn_->GivenUpWhileWaiting(); }

  std::function<void()> Waker() override {
    return [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) static_cast<ServerStreamingCall&>(*self).Kick();
    };
  }

 private:
  ServerStreamingCall(const CallContext& server, grpc::CallbackServerContext& peer, Method method,
                      const grpc::ByteBuffer* bytes, Work work, Work at_once)
      : TurnTakingCall(server, peer, method),
        bytes_(bytes),
        turn_(std::make_shared<PlanningTurn>(context_.planning_pool, context_.client)),
        work_(std::move(work)),
        at_once_(std::move(at_once)) {}

  void SubmitPlanning() {
    context_.planning_pool->Submit(turn_, [self = this->shared_from_this()] {
      auto& call = static_cast<ServerStreamingCall&>(*self);
      call.is_planning_ = true;
      call.EndWork(EndOnAllocationFailure([&call] { return call.Answer(call.work_); }));
    });
  }

  void TryAtOnce() {
    absl::StatusOr<std::unique_ptr<Source>> source =
        EndOnAllocationFailure([this] { return Answer(at_once_); });
    if (source.ok() && *source == nullptr) {
      SubmitPlanning();
    } else {
      EndWork(std::move(source));
    }
  }

  void EndWork(absl::StatusOr<std::unique_ptr<Source>> source) {
    is_planning_ = false;
    work_ = nullptr;
    at_once_ = nullptr;
    if (source.ok()) {
      source_ = *std::move(source);
    } else {
      end_ = source.status();
    }
    {
      absl::MutexLock lock(&mutex_);
      MovedLocked();
    }
    QueueTurn();
  }

  absl::StatusOr<std::unique_ptr<Source>> Answer(const Work& work) {
    if (turn_->cancelled()) return absl::CancelledError("given up before it was begun");
    Request request;
    grpc::ByteBuffer copy(*bytes_);
    PH_ASSIGN_OR_RETURN(const MemoryHold hold, ParseBytes(&copy, context_.working, &request));
    return work(request, *this);
  }

  Progress Step(bool here) override {
    {
      absl::MutexLock lock(&mutex_);
      if (IsStoppedLocked()) return Progress::kNone;
      if (end_) {
        if (outbox_.is_idle()) FinishLocked(*end_);
        return MoreIf(WriteLocked(Making::kNobody));
      }
      if (!outbox_.has_room()) return MoreIf(WriteLocked(Making::kNobody));
    }
    if (here && source_->MayBlock()) return Progress::kPool;
    pace_.Begin();
    const absl::StatusOr<bool> made = EndOnAllocationFailure([&] { return Make(here); });
    if (!made.ok()) {
      end_ = made.status();
    } else if (*made) {
      return Progress::kMore;
    } else if (source_->IsWaiting()) {
      absl::MutexLock lock(&mutex_);
      WriteLocked(Making::kNobody);
      return Progress::kNone;
    } else {
      end_ = absl::OkStatus();
    }
    return Progress::kMore;
  }

  // The next response of the source. False if it gives none.
  absl::StatusOr<bool> Make(bool here) {
    PH_ASSIGN_OR_RETURN(const std::optional<Response> response, source_->Next());
    if (response) PH_RETURN_IF_ERROR(Add(*response, here));
    return response.has_value();
  }

  absl::Status Add(const Response& response, bool here) {
    grpc::ByteBuffer bytes;
    PH_RETURN_IF_ERROR(WriteBytes(response, context_.max_response_bytes, &bytes));
    pace_.End();
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(outbox_.Add(&bytes));
    WriteLocked(here ? Making::kSender : Making::kOther);
    return absl::OkStatus();
  }

  void GiveUp() override { turn_->Cancel(); }

  void EndIdle(const absl::Status& status) override {
    if (!end_) end_ = status;
  }

  void Release() override { source_.reset(); }

  const grpc::ByteBuffer* const bytes_;
  const std::shared_ptr<PlanningTurn> turn_;
  // Touched only by the thread that advances, first of all the jobs that do the work.
  bool is_planning_ = false;
  Work work_;
  Work at_once_;
  std::unique_ptr<Source> source_;
  std::optional<absl::Status> end_;  // Once all was sent.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_SERVER_STREAMING_CALL_H_
