// How many threads may wait for joins that share a commit (join_burst.h).
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_GATHERING_PLACES_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_GATHERING_PLACES_H_

#include <atomic>
#include <cstddef>

namespace packhouse {

// Committers that wait hold threads on which others would write to the disk, so only a few may.
// Loaders whose committers are on the same threads have the places in common. Thread-safe.
class GatheringPlaces {
 public:
  explicit GatheringPlaces(size_t most) : most_(most) {}

  // Whether there was a place, which must be given back then.
  bool Take() {
    if (num_taken_.fetch_add(1, std::memory_order_relaxed) < most_) return true;
    GiveBack();
    return false;
  }
  void GiveBack() { num_taken_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const size_t most_;
  std::atomic<size_t> num_taken_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_GATHERING_PLACES_H_
