// Whether a server should be sent work now, and if not, why: the one place that /readyz, gRPC
// health, the metrics and the page ask.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_READINESS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_READINESS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

// Thread-safe.
class Readiness {
 public:
  // Says why the server is not ready; empty while it is, as far as this one knows. Is called on any
  // thread, often: it must be thread-safe and must not wait.
  using WhyNot = std::function<std::string()>;

  struct Reading {
    // What may keep the server from work, as the label `reason` of packhouse_ready.
    std::string reason;
    // Empty: it does not.
    std::string why_not;
  };

  // `reason`: one word, not yet added. `why_not` must be valid for as long as anybody asks.
  void Add(std::string reason, WhyNot why_not);

  // All that were added, in that order. O(reasons).
  std::vector<Reading> Read() const;

  bool is_ready() const { return why_not().empty(); }
  // Of each that keeps the server from work now, a line; empty if it is ready.
  std::string why_not() const;

 private:
  struct Reason {
    std::string name;
    WhyNot why_not;
  };

  mutable absl::Mutex mutex_;
  std::vector<Reason> reasons_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_READINESS_H_
