// A call with one request: gets from the request to its answer, or to the source of its answers.
//
// Flow: its link gives it the request, whose row (method_table.h) says what the call waits for, and
// so on which pool the method's function works. Rights, needs and the memory of the request are
// looked at first. What the function gives goes to the end of the call: one answer, or a stream of
// them (source_call.h). In between the function asks the call whether anybody still waits.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_CALL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "service/access/planning_pool.h"
#include "service/base/caller.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/base/unsent_budget.h"
#include "service/engine/epochs/cancellation.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/call_headers.h"
#include "service/server/calls/call_work.h"
#include "service/server/calls/message_pieces.h"
#include "service/server/calls/request_bytes.h"

namespace packhouse {

struct MethodRow;

// Owned by whoever works on it, and by its end. A function may use its call until it returns.
class RequestCall : public std::enable_shared_from_this<RequestCall>, private Caller {
 public:
  // The one answer, or the work of the stream of answers.
  using Given = std::variant<MessagePieces, std::unique_ptr<CallWork>>;

  const CallContext& context() const { return context_; }
  CallHeaders& headers() { return headers_; }

  // Whether nobody waits for the answer any more. Cheap enough to be asked now and then. A call
  // that plans may block here while it is another call's turn, so do not ask under a lock that
  // others need. Thread-safe.
  bool YieldTurn() const;
  // The same, for work that is about to wait for another call's result. Never blocks, and lets
  // others plan until YieldTurn() is asked again.
  bool LeaveTurn() const;
  Cancellation cancellation() const {
    return {[this] { return YieldTurn(); }, [this] { return LeaveTurn(); }};
  }

  // Whether the answer is wanted only if it is ready (Waits::kPlansUnlessReady). Then the call says
  // that it is given up; if the function ends with CANCELLED, it is called again, where it may
  // plan.
  bool is_trial() const { return is_trial_; }

  // Memory of the answer, until it is sent.
  MemoryHold& answer_memory() { return answer_memory_; }

  // Reads the request into the empty `request`, and checks that the caller may ask it, and that the
  // server has what the method needs. Errors as ParseRequest(), Authorize() and MethodRow::lacks.
  template <typename Request>
  absl::StatusOr<MemoryHold> Read(const RequestBytes& bytes, Request& request) {
    PH_ASSIGN_OR_RETURN(MemoryHold hold,
                        ParseRequest(bytes, context_.working, &request, uncounted_bytes()));
    PH_RETURN_IF_ERROR(Admit(request));
    return hold;
  }
  // The same for a request that has been read.
  absl::Status Admit(const google::protobuf::Message& request);

  // The bytes of the one answer. To be called once. Errors as AnswerHold and PiecesWithin().
  template <typename Response>
  absl::StatusOr<Given> Write(const Response& response) {
    PH_RETURN_IF_ERROR(answer_room_.Reserve(response.ByteSizeLong()));
    return PiecesWithin(response, context_.max_response_bytes);
  }

  // Nobody waits for the answer any more.
  void Cancel();

  // For calls that stream; ProgressSink says more.
  virtual void Report(MessagePieces /*progress*/) {}
  virtual std::function<void()> Waker() { return nullptr; }

 protected:
  // The row must outlive the call, and so must the headers while the call is worked on.
  RequestCall(CallContext context, const MethodRow& row, CallHeaders& headers);
  ~RequestCall() override = default;

  const MethodRow& row() const { return row_; }

  // Works on the request, here or on a pool. May be called once.
  void Begin(std::unique_ptr<RequestBytes> request);

  // Called once after Begin(): the call ends with it.
  virtual void End(absl::StatusOr<Given> given) = 0;

  void ReleaseAnswer() { answer_room_.Reset(); }

  bool IsGone() const override { return is_cancelled_.load(std::memory_order_relaxed); }

 private:
  // There are no more of small requests at a time than the pools have threads.
  static constexpr uint64_t kUncountedBytes = uint64_t{16} << 10;

  void OnWait() override { LeaveTurn(); }
  uint64_t uncounted_bytes() const;

  // The three may throw std::bad_alloc; then nothing has begun.
  void Submit();
  void SubmitTo(JobPool* pool);
  void SubmitPlanning();
  void Run();
  absl::StatusOr<Given> Work();

  const CallContext context_;
  const MethodRow& row_;
  CallHeaders& headers_;
  std::atomic<bool> is_cancelled_ = false;
  const std::shared_ptr<PlanningTurn> turn_;  // Null: it does not plan.
  // Used by one thread after another, on the way from the request to the end.
  std::unique_ptr<RequestBytes> request_;
  bool is_trial_ = false;
  bool is_planning_ = false;
  MemoryHold answer_memory_;
  AnswerHold answer_room_;
};

// For the work before the first response: reports its progress, and asks whether to go on.
// Thread-safe.
template <typename Response>
class ProgressSink {
 public:
  explicit ProgressSink(RequestCall* call) : call_(call) {}

  // Sends `response` as soon as the client has taken the earlier ones, unless a later report
  // replaces it before, or it is too large to be sent. At most one is kept, however slow the client
  // is. Never blocks.
  void Report(const Response& response) {
    absl::StatusOr<MessagePieces> progress =
        PiecesWithin(response, call_->context().max_response_bytes);
    if (progress.ok()) call_->Report(*std::move(progress));
  }

  // As RequestCall says.
  RequestCall& call() { return *call_; }
  bool YieldTurn() const { return call_->YieldTurn(); }
  bool LeaveTurn() const { return call_->LeaveTurn(); }

  // The result makes the call ask a waiting source again. Any thread may call it at any time, even
  // after the sink and the call are gone. Never blocks.
  std::function<void()> Waker() { return call_->Waker(); }

 private:
  RequestCall* const call_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_CALL_H_
