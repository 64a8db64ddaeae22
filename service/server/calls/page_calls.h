// How the page asks the server: calls like those of every other client.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_PAGE_CALLS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_PAGE_CALLS_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

namespace packhouse::page {

// Who looks at the page.
struct Viewer {
  // As the HTTP port has decided; empty: nobody in particular.
  std::string principal;
};

// Ends calls that nobody waits for any more. Thread-safe.
class StopSwitch {
 public:
  // From now on calls end with CANCELLED.
  void Stop() {
    absl::MutexLock lock(&mutex_);
    is_stopped_ = true;
    if (cancel_) cancel_();
  }
  bool is_stopped() const {
    absl::MutexLock lock(&mutex_);
    return is_stopped_;
  }
  // What Stop() is to do while a call runs; empty after it. Called at once if it is too late.
  void OnStop(std::function<void()> cancel) {
    absl::MutexLock lock(&mutex_);
    cancel_ = std::move(cancel);
    if (is_stopped_ && cancel_) cancel_();
  }

 private:
  mutable absl::Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> cancel_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. Calls block, until the answer or the deadline; their errors are the server's.
class PageCalls {
 public:
  virtual ~PageCalls() = default;

  // A unary call. `method`: "/packhouse.v1.PlanningService/Plan".
  virtual absl::Status Call(const std::string& method, const Viewer& viewer,
                            const google::protobuf::Message& request,
                            google::protobuf::Message& response, StopSwitch& stop) = 0;

  // A call with one request and several responses; `take` gets each response in turn.
  virtual absl::Status CallStreaming(
      const std::string& method, const Viewer& viewer, const google::protobuf::Message& request,
      absl::FunctionRef<absl::Status(const std::string& response)> take, StopSwitch& stop) = 0;
};

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_PAGE_CALLS_H_
