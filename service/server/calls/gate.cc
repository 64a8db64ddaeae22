#include "service/server/calls/gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/base/steady_waits.h"

namespace packhouse {
namespace {

size_t HalfOf(size_t bound) { return std::max<size_t>(1, bound / 2); }

absl::Status CheckClient(absl::string_view what, const ClientId& client, size_t value, size_t bound,
                         absl::string_view flag) {
  if (value < bound) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(what, ": client '", client, "' has ", value,
                                                   ", at most ", bound, " (", flag, ")"));
}

}  // namespace

Gate::Gate(const Bounds& bounds)
    : bounds_(bounds),
      max_streams_per_client_(bounds.max_streams_per_client.value_or(HalfOf(bounds.max_streams))),
      max_calls_per_client_(bounds.max_calls_per_client.value_or(HalfOf(bounds.max_calls))) {}

absl::Status Gate::CheckOpen() const {
  if (!closed_) return absl::OkStatus();
  return absl::UnavailableError("the server is draining; try another");
}

Gate::Counts Gate::CountsOf(const ClientId& client) const {
  const auto found = by_client_.find(client);
  return found == by_client_.end() ? Counts() : found->second;
}

void Gate::RemoveIfNone(const ClientId& client) {
  const auto found = by_client_.find(client);
  if (found->second.streams == 0 && found->second.calls == 0) by_client_.erase(found);
}

absl::Status Gate::EnterStream(const ClientId& client, const std::shared_ptr<Abortable>& stream) {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(CheckOpen());
  if (streams_.size() >= bounds_.max_streams) {
    return absl::ResourceExhaustedError(absl::StrCat("streams: ", streams_.size(),
                                                     " are open, at most ", bounds_.max_streams,
                                                     " (--max-streams)"));
  }
  PH_RETURN_IF_ERROR(CheckClient("streams", client, CountsOf(client).streams,
                                 max_streams_per_client_, "--max-streams-per-client"));
  ++by_client_[client].streams;
  streams_.emplace(stream.get(), Stream{stream, client});
  return absl::OkStatus();
}

void Gate::LeaveStream(const Abortable* stream) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;  // It was not let in.
  --by_client_[found->second.client].streams;
  RemoveIfNone(found->second.client);
  streams_.erase(found);
}

absl::Status Gate::EnterCall(const ClientId& client, CallKind kind) {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(CheckOpen());
  if (all_.calls >= bounds_.max_calls) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "calls: ", all_.calls, " are waiting, at most ", bounds_.max_calls, " (--max-calls)"));
  }
  const Counts counts = CountsOf(client);
  PH_RETURN_IF_ERROR(
      CheckClient("calls", client, counts.calls, max_calls_per_client_, "--max-calls-per-client"));
  if (kind == CallKind::kPlanning) {
    if (const size_t most = HalfOf(bounds_.max_calls); all_.planning >= most) {
      return absl::ResourceExhaustedError(absl::StrCat("calls that plan: ", all_.planning,
                                                       " are waiting, at most ", most,
                                                       " (half of --max-calls)"));
    }
    PH_RETURN_IF_ERROR(CheckClient("calls that plan", client, counts.planning,
                                   HalfOf(max_calls_per_client_),
                                   "half of --max-calls-per-client"));
  }
  for (Counts* const entered : {&all_, &by_client_[client]}) {
    ++entered->calls;
    if (kind == CallKind::kPlanning) ++entered->planning;
  }
  return absl::OkStatus();
}

void Gate::LeaveCall(const ClientId& client, CallKind kind) {
  absl::MutexLock lock(&mutex_);
  for (Counts* const left : {&all_, &by_client_[client]}) {
    --left->calls;
    if (kind == CallKind::kPlanning) --left->planning;
  }
  RemoveIfNone(client);
}

absl::Status Gate::EnterWaiting(const std::shared_ptr<Abortable>& call) {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(CheckOpen());
  waiting_.emplace(call.get(), call);
  return absl::OkStatus();
}

void Gate::LeaveWaiting(const Abortable* call) {
  absl::MutexLock lock(&mutex_);
  waiting_.erase(call);
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
  return mutex_.AwaitWithTimeout(absl::Condition(this, &Gate::IsEmpty), deadline - SteadyTime());
}

std::vector<std::shared_ptr<Abortable>> Gate::OpenStreams() const {
  std::vector<std::shared_ptr<Abortable>> open;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, entered] : streams_) {
    if (auto stream = entered.stream.lock()) open.push_back(std::move(stream));
  }
  for (const auto& [key, waiting] : waiting_) {
    if (auto call = waiting.lock()) open.push_back(std::move(call));
  }
  return open;
}

void Gate::AbortStreams(const absl::Status& status) {
  for (const auto& stream : OpenStreams()) stream->Abort(status);
}

void Gate::EndIdleStreams(absl::Time since) {
  for (const auto& stream : OpenStreams()) stream->EndIfIdleSince(since);
}

}  // namespace packhouse
