#include "service/rpc/gate.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace packhouse::rpc {

absl::Status Gate::CheckOpen() const {
  if (!closed_) return absl::OkStatus();
  return absl::UnavailableError("the server is draining; try another");
}

absl::Status Gate::EnterStream(const std::shared_ptr<Abortable>& stream) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status open = CheckOpen(); !open.ok()) return open;
  if (streams_.size() >= bounds_.max_streams) {
    return absl::ResourceExhaustedError(
        absl::StrCat("streams: ", streams_.size(), " are open, at most ", bounds_.max_streams));
  }
  streams_.emplace(stream.get(), stream);
  return absl::OkStatus();
}

void Gate::LeaveStream(const Abortable* stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(stream);
}

absl::Status Gate::EnterCall() {
  absl::MutexLock lock(&mutex_);
  if (absl::Status open = CheckOpen(); !open.ok()) return open;
  if (num_calls_ >= bounds_.max_calls) {
    return absl::ResourceExhaustedError(
        absl::StrCat("calls: ", num_calls_, " are waiting, at most ", bounds_.max_calls));
  }
  ++num_calls_;
  return absl::OkStatus();
}

void Gate::LeaveCall() {
  absl::MutexLock lock(&mutex_);
  --num_calls_;
}

void Gate::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

bool Gate::is_closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

bool Gate::WaitUntilEmpty(absl::Time deadline) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(this, &Gate::IsEmpty), deadline);
}

void Gate::AbortStreams(const absl::Status& status) {
  std::vector<std::shared_ptr<Abortable>> open;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, weak] : streams_) {
      if (auto stream = weak.lock()) open.push_back(std::move(stream));
    }
  }
  for (const auto& stream : open) stream->Abort(status);
}

}  // namespace packhouse::rpc
