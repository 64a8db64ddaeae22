#include "service/server/calls/request_call.h"

#include <utility>

#include "service/base/out_of_memory.h"
#include "service/server/calls/allocation_failure.h"
#include "service/server/calls/method_table.h"
#include "service/server/calls/request_rights.h"

namespace packhouse {
namespace {

absl::Status Gone() { return absl::CancelledError("the client cancelled or is gone"); }

}  // namespace

RequestCall::RequestCall(CallContext context, const MethodRow& row, CallHeaders& headers)
    : context_(std::move(context)),
      row_(row),
      headers_(headers),
      turn_(row.Plans() ? std::make_shared<PlanningTurn>(context_.planning_pool, context_.client)
                        : nullptr),
      answer_room_(row.IsSource() ? nullptr : context_.unsent_budget) {}

bool RequestCall::YieldTurn() const {
  if (is_trial_) return true;
  return is_planning_ ? turn_->YieldTurn() : IsGone();
}

bool RequestCall::LeaveTurn() const {
  if (is_trial_) return true;
  return turn_ != nullptr ? turn_->LeaveTurn() : IsGone();
}

uint64_t RequestCall::uncounted_bytes() const {
  return turn_ != nullptr || row_.IsSource() ? 0 : kUncountedBytes;
}

absl::Status RequestCall::Admit(const google::protobuf::Message& request) {
  PH_RETURN_IF_ERROR(Authorize(
      context_, request, row_.IsSource() ? RequestKind::kBeginsStream : RequestKind::kOnlyOne));
  PH_RETURN_IF_ERROR(row_.lacks);
  return is_planning_ && turn_->YieldTurnIn(context_.ResourceNamespace()) ? Gone()
                                                                          : absl::OkStatus();
}

void RequestCall::Cancel() {
  is_cancelled_.store(true, std::memory_order_relaxed);
  if (turn_ != nullptr) turn_->Cancel();
}

void RequestCall::Begin(std::unique_ptr<RequestBytes> request) {
  request_ = std::move(request);
  if (row_.waits == Waits::kNothing) {
    Run();
  } else if (!RunWithinMemory([this] { Submit(); })) {
    End(OutOfMemory());
  }
}

void RequestCall::Submit() {
  switch (row_.waits) {
    case Waits::kPlans:
      return SubmitPlanning();
    case Waits::kStore:
      return SubmitTo(context_.append_pool);
    case Waits::kPlansUnlessReady:
      is_trial_ = true;
      [[fallthrough]];
    default:
      return SubmitTo(context_.call_pool);
  }
}

void RequestCall::SubmitTo(JobPool* pool) {
  pool->Submit(context_.client, [self = shared_from_this()] { self->Run(); });
}

void RequestCall::SubmitPlanning() {
  context_.planning_pool->Submit(turn_, [self = shared_from_this()] {
    self->is_planning_ = true;
    self->Run();
  });
}

void RequestCall::Run() {
  absl::StatusOr<Given> given = EndOnAllocationFailure([this] { return Work(); });
  if (is_trial_ && absl::IsCancelled(given.status()) && !IsGone()) {
    is_trial_ = false;
    if (RunWithinMemory([this] { SubmitPlanning(); })) return;
    given = OutOfMemory();
  }
  request_.reset();
  End(std::move(given));
}

absl::StatusOr<RequestCall::Given> RequestCall::Work() {
  if (IsGone()) return Gone();
  const CallerScope scope(this);
  return row_.answer(*request_, *this);
}

}  // namespace packhouse
