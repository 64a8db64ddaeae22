// Finds out when a store that could not be written to can be again.
#ifndef PACKHOUSE_SERVICE_DATASETS_STORE_PROBER_H_
#define PACKHOUSE_SERVICE_DATASETS_STORE_PROBER_H_

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace packhouse {

// A server that is not ready is sent nothing that would commit: somebody has to try. On a thread of
// its own, which a disk that hangs may hold up.
class StoreProber {
 public:
  // Looks at `is_failing` each `interval`, and calls `try_commit` if it is so. Both until it is
  // destroyed.
  StoreProber(std::function<bool()> is_failing, std::function<void()> try_commit,
              absl::Duration interval = absl::Seconds(1));
  // Waits for a `try_commit` that is being made.
  ~StoreProber();
  StoreProber(const StoreProber&) = delete;
  StoreProber& operator=(const StoreProber&) = delete;

 private:
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_STORE_PROBER_H_
