// Finds out when a store can be written to again.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_STORE_PROBER_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_STORE_PROBER_H_

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace packhouse {

// A server that is not ready gets no calls that would commit, so this class tries a commit. It has
// a thread of its own, since a hanging disk may block it.
class StoreProber {
 public:
  // Calls `is_failing` every `interval`, and `try_commit` if it returns true, until it is
  // destroyed.
  StoreProber(std::function<bool()> is_failing, std::function<void()> try_commit,
              absl::Duration interval = absl::Seconds(1));
  // Waits for a running `try_commit`.
  ~StoreProber();
  StoreProber(const StoreProber&) = delete;
  StoreProber& operator=(const StoreProber&) = delete;

 private:
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_STORE_PROBER_H_
