#include "service/server/metrics/namespace_calls.h"

#include "service/access/policy.h"
#include "service/server/metrics/store_collector.h"

namespace packhouse::metrics {

void NamespaceCalls::OnEnded(const EndedCall& call) {
  if (!call.record.resource.empty()) {
    CounterOf(NamespaceOf(call.record.resource), call.status.code()).Increment();
  }
  exemplars_->OnEnded(call.method, call.record.trace, call.elapsed);
  if (next_ != nullptr) next_->OnEnded(call);
}

EventMetrics::Counter NamespaceCalls::CounterOf(absl::string_view where, absl::StatusCode code) {
  absl::MutexLock lock(&mutex_);
  Key key(where, code);
  if (!labels_.contains(where)) {
    // One place is kept for "other".
    const bool is_new = code == absl::StatusCode::kOk && labels_.size() + 1 < kMaxNamespaceLabels;
    if (is_new) {
      labels_.emplace(where);
    } else {
      key.first = "other";
    }
  }
  const auto found = counters_.find(key);
  if (found != counters_.end()) return found->second;
  const EventMetrics::Counter counter = events_->AddCounter(
      "packhouse_namespace_calls_total",
      "Calls and streams that ended, by the namespace of what they name and by status code.",
      {{"namespace", key.first}, {"code", absl::StatusCodeToString(code)}});
  counters_.emplace(std::move(key), counter);
  return counter;
}

}  // namespace packhouse::metrics
