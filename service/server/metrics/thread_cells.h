// Numbers that many threads add to all the time, and that are rarely read.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_THREAD_CELLS_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_THREAD_CELLS_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/optimization.h"

namespace packhouse::metrics {

// kNumCells numbers, 0 at first, each a sum of integers or of reals. Every thread adds to cells of
// its own, in cache lines that nobody else writes: an addition is a load and a store, about 1 ns.
// Reading sums the cells of all threads.
//
// Thread-safe. An addition that happens while a sum is read may be in the sum or not. A sum of
// positive and negative numbers may therefore briefly have a value that it never had; a sum of
// positive numbers only grows. Memory: kNumCells * 8 bytes for each thread that added something,
// for the most of them that were alive at the same time; a new thread goes on with the cells of an
// ended one.
class ThreadCells {
 public:
  static constexpr size_t kNumCells = 512;

  ThreadCells();
  // No thread may be adding.
  ~ThreadCells();
  ThreadCells(const ThreadCells&) = delete;
  ThreadCells& operator=(const ThreadCells&) = delete;

  // Modulo 2^64, so that integers may be negative.
  void Add(size_t cell, uint64_t amount) {
    std::atomic<uint64_t>& own = OwnCells()[cell];
    own.store(own.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void AddReal(size_t cell, double amount) {
    std::atomic<uint64_t>& own = OwnCells()[cell];
    const auto sum = std::bit_cast<double>(own.load(std::memory_order_relaxed)) + amount;
    own.store(std::bit_cast<uint64_t>(sum), std::memory_order_relaxed);
  }

  // O(threads).
  uint64_t Sum(size_t cell) const;
  double SumReal(size_t cell) const;

 private:
  using Cells = std::array<std::atomic<uint64_t>, kNumCells>;
  struct Shared;
  struct ThreadEnd;

  // The calling thread's cells of a few ThreadCells. Those of each are at its id modulo kNumKnown.
  struct Known {
    uint64_t id;  // 0: none.
    Cells* cells;
  };
  static constexpr size_t kNumKnown = 16;

  Cells& OwnCells() {
    const Known& known = known_[id_ % kNumKnown];
    return ABSL_PREDICT_TRUE(known.id == id_) ? *known.cells : FindOwnCells();
  }
  Cells& FindOwnCells();

  static inline constinit thread_local std::array<Known, kNumKnown> known_ = {};

  const uint64_t id_;  // Never used by another in this process.
  // Shared with the threads that hold cells, which may end later.
  const std::shared_ptr<Shared> shared_;
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_THREAD_CELLS_H_
