// A trace for each bucket of the calls' durations.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_CALL_EXEMPLARS_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_CALL_EXEMPLARS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse::metrics {

struct Exemplar {
  std::string trace_id;
  double value = 0;
  absl::Time time;
};

// The trace of a `traceparent` (W3C Trace Context) that somebody records: 32 hexadecimal digits.
// Empty if it is malformed, or if its sampled flag is not set.
std::string SampledTrace(absl::string_view traceparent);

// Keeps the last call of each method and bucket that is part of a recorded trace. Thread-safe;
// takes some 100 ns for such a call, and a few for another one. Memory: 100 bytes for each bucket.
class CallExemplars {
 public:
  // `bounds`: of each method the buckets, as EventMetrics::AddHistogram(). They must outlive this.
  explicit CallExemplars(std::vector<absl::Span<const double>> bounds);

  // The call has ended now.
  void OnEnded(Method method, absl::string_view traceparent, absl::Duration elapsed);

  // Of a method's buckets in their order, the last one for what is above all bounds; nullopt if
  // there was no such call. Empty if there is no such method.
  std::vector<std::optional<Exemplar>> Of(absl::string_view method) const;

 private:
  const std::vector<absl::Span<const double>> bounds_;
  mutable absl::Mutex mutex_;
  std::vector<std::vector<std::optional<Exemplar>>> exemplars_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_CALL_EXEMPLARS_H_
