// Bounds the number of something, in all and for each client.
#ifndef PACKHOUSE_SERVICE_ACCESS_FAIR_BOUND_H_
#define PACKHOUSE_SERVICE_ACCESS_FAIR_BOUND_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/access/client_identity.h"

namespace packhouse {

// The last eighth is for clients that have few. A client with few therefore gets in unless there is
// a crowd of such clients. Clients that have none leave nothing behind. Thread-safe; O(1).
class FairBound {
 public:
  // A client with fewer than this has few.
  static constexpr size_t kFew = 4;

  struct Bounds {
    size_t most = 0;
    size_t most_of_client = 0;
  };

  // One counted place, until it is destroyed. Movable; the bound must outlive it.
  class Place {
   public:
    Place() = default;
    ~Place() { Reset(); }
    Place(Place&& other) noexcept
        : bound_(std::exchange(other.bound_, nullptr)), client_(std::move(other.client_)) {}
    Place& operator=(Place&& other) noexcept {
      if (this != &other) {
        Reset();
        bound_ = std::exchange(other.bound_, nullptr);
        client_ = std::move(other.client_);
      }
      return *this;
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    void Reset() {
      if (bound_ != nullptr) std::exchange(bound_, nullptr)->Leave(client_);
    }

   private:
    friend class FairBound;
    Place(FairBound* bound, ClientId client) : bound_(bound), client_(std::move(client)) {}

    FairBound* bound_ = nullptr;
    ClientId client_;
  };

  // `what` is counted, and the `flag` of the bound, are for messages.
  FairBound(std::string what, std::string flag, const Bounds& bounds)
      : what_(std::move(what)), flag_(std::move(flag)), bounds_(bounds) {}
  FairBound(const FairBound&) = delete;
  FairBound& operator=(const FairBound&) = delete;

  // RESOURCE_EXHAUSTED naming the bound, what there is, and the client.
  absl::StatusOr<Place> Enter(const ClientId& client) {
    absl::MutexLock lock(&mutex_);
    const auto found = by_client_.find(client);
    const size_t of_client = found == by_client_.end() ? 0 : found->second;
    if (of_client >= bounds_.most_of_client) {
      return absl::ResourceExhaustedError(absl::StrCat(what_, ": client '", client, "' has ",
                                                       of_client, ", at most ",
                                                       bounds_.most_of_client, " (", flag_, ")"));
    }
    const size_t most = of_client < kFew ? bounds_.most : bounds_.most - bounds_.most / 8;
    if (all_ >= most) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what_, ": there are ", all_, ", at most ", most,
                       of_client < kFew ? "" : " for clients that have some", " (", flag_, ")"));
    }
    ++all_;
    ++by_client_[client];
    return Place(this, client);
  }

  size_t count() const {
    absl::MutexLock lock(&mutex_);
    return all_;
  }
  // Clients with at least one.
  size_t num_clients() const {
    absl::MutexLock lock(&mutex_);
    return by_client_.size();
  }
  const Bounds& bounds() const { return bounds_; }

 private:
  void Leave(const ClientId& client) {
    absl::MutexLock lock(&mutex_);
    --all_;
    const auto found = by_client_.find(client);
    if (--found->second == 0) by_client_.erase(found);
  }

  const std::string what_;
  const std::string flag_;
  const Bounds bounds_;

  mutable absl::Mutex mutex_;
  size_t all_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<ClientId, size_t> by_client_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_FAIR_BOUND_H_
