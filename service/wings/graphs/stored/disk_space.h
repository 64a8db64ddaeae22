// How many bytes all source graphs take on the disk, and each of them, and how many they may.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_DISK_SPACE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_DISK_SPACE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace packhouse {

// Of a store. Thread-safe.
class DiskSpace {
 public:
  // Leaves `min_free_bytes` of the disk of `folder` to others.
  DiskSpace(std::string folder, uint64_t max_bytes, uint64_t min_free_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes), min_free_bytes_(min_free_bytes) {}

  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t max_bytes() const { return max_bytes_; }

  // RESOURCE_EXHAUSTED naming the bound. Then nothing is taken.
  absl::Status Take(uint64_t bytes);
  // Without a bound: for what is on the disk already.
  void TakeStored(uint64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void Give(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const std::string folder_;
  const uint64_t max_bytes_;
  const uint64_t min_free_bytes_;
  std::atomic<uint64_t> used_ = 0;
};

// Of one graph; gives all back in the end. Thread-safe. The graph and its readers share it, so that
// the bytes of a deleted graph count until the last reader has gone.
class GraphSpace {
 public:
  // `max_bytes` 0: only the store's bound. `store` is shared, because readers may outlive it.
  GraphSpace(std::shared_ptr<DiskSpace> store, std::string name, uint64_t max_bytes)
      : store_(std::move(store)), name_(std::move(name)), max_bytes_(max_bytes) {}
  ~GraphSpace() { store_->Give(used()); }
  GraphSpace(const GraphSpace&) = delete;
  GraphSpace& operator=(const GraphSpace&) = delete;

  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // RESOURCE_EXHAUSTED naming the graph and the bound. Then nothing is taken.
  absl::Status Take(uint64_t bytes);
  void TakeStored(uint64_t bytes);
  void Give(uint64_t bytes);

 private:
  const std::shared_ptr<DiskSpace> store_;
  const std::string name_;
  const uint64_t max_bytes_;
  std::atomic<uint64_t> used_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_DISK_SPACE_H_
