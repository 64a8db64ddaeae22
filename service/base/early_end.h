// Ends streams early when the server goes down: their clients can go on elsewhere, or here when it
// is back.
#ifndef PACKHOUSE_SERVICE_BASE_EARLY_END_H_
#define PACKHOUSE_SERVICE_BASE_EARLY_END_H_

#include <functional>
#include <list>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

// Thread-safe.
class EarlyEnd {
  using Wakers = std::list<std::function<void()>>;

 public:
  EarlyEnd() = default;
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;

  // From now on every stream ends with `status`; all are woken, in the order in which they came.
  // May be called once.
  void Begin(absl::Status status) {
    Wakers waiting;
    {
      absl::MutexLock lock(&mutex_);
      status_ = std::move(status);
      waiting = wakers_;
    }
    for (const auto& wake : waiting) wake();
  }

  // OK until it begins.
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  // Registers a stream as long as it lives. The stream asks status() before it makes anything.
  class Stream {
   public:
    // `wake` makes the stream ask again. It may be called from any thread, and once more after the
    // stream has ended. `end` must outlive the stream.
    Stream(EarlyEnd* end, std::function<void()> wake) : end_(end) {
      absl::MutexLock lock(&end_->mutex_);
      place_ = end_->wakers_.insert(end_->wakers_.end(), std::move(wake));
    }
    ~Stream() {
      absl::MutexLock lock(&end_->mutex_);
      end_->wakers_.erase(place_);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    absl::Status status() const { return end_->status(); }

   private:
    EarlyEnd* const end_;
    Wakers::iterator place_;
  };

 private:
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Wakers wakers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_EARLY_END_H_
