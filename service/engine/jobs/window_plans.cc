#include "service/engine/jobs/window_plans.h"

namespace packhouse {

bool WindowPlans::MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<bool> WindowPlans::Need(uint64_t window, AwaitedWindow& awaited) {
  if (const auto failed = failures_.find(window); failed != failures_.end()) {
    if (!MayPass(failed->second) || awaited == window) {
      awaited.reset();
      return failed->second;
    }
    failures_.erase(failed);
  }
  awaited = window;
  return under_way_.insert(window).second;
}

bool WindowPlans::BeginAhead(uint64_t window) {
  return !failures_.contains(window) && under_way_.insert(window).second;
}

void WindowPlans::Ended(uint64_t window, const absl::Status& status) {
  under_way_.erase(window);
  if (status.ok()) {
    failures_.erase(window);
  } else {
    failures_.insert_or_assign(window, status);
  }
}

}  // namespace packhouse
