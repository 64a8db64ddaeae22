// What a test program allocates by operator new, against what was reserved for it. Replaces
// operator new of the whole program: include it in one file of a program of its own.
#ifndef PACKHOUSE_TESTS_SUPPORT_ALLOCATED_BYTES_H_
#define PACKHOUSE_TESTS_SUPPORT_ALLOCATED_BYTES_H_

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "service/base/memory_budget.h"

namespace packhouse {

// Watches what its thread allocates while it lives. `budget` must already hold all of it, except
// for `slack` bytes.
class AllocatedBytes {
 public:
  AllocatedBytes(const MemoryBudget* budget, int64_t slack) : budget_(budget), slack_(slack) {
    current_ = this;
  }
  ~AllocatedBytes() { current_ = nullptr; }
  AllocatedBytes(const AllocatedBytes&) = delete;
  AllocatedBytes& operator=(const AllocatedBytes&) = delete;

  // Now, and at most so far.
  int64_t bytes() const { return bytes_; }
  int64_t most() const { return most_; }
  // By how much more was allocated, at worst, than was held and the slack.
  int64_t excess() const { return excess_; }

  static void Add(void* block) {
    if (current_ == nullptr || block == nullptr) return;
    AllocatedBytes& self = *current_;
    self.bytes_ += static_cast<int64_t>(malloc_usable_size(block));
    self.most_ = std::max(self.most_, self.bytes_);
    const auto held = static_cast<int64_t>(self.budget_->held());
    self.excess_ = std::max(self.excess_, self.bytes_ - held - self.slack_);
  }
  static void Remove(void* block) {
    if (current_ == nullptr || block == nullptr) return;
    current_->bytes_ -= static_cast<int64_t>(malloc_usable_size(block));
  }

 private:
  static inline thread_local AllocatedBytes* current_ = nullptr;

  const MemoryBudget* const budget_;
  const int64_t slack_;
  int64_t bytes_ = 0;
  int64_t most_ = 0;
  int64_t excess_ = 0;
};

}  // namespace packhouse

void* operator new(size_t size) {
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  packhouse::AllocatedBytes::Add(block);
  return block;
}
void operator delete(void* block) noexcept {
  packhouse::AllocatedBytes::Remove(block);
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }

#endif  // PACKHOUSE_TESTS_SUPPORT_ALLOCATED_BYTES_H_
