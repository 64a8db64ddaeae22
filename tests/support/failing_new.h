// Allocations that fail when a test says so. Replaces operator new of the whole program: include it
// in one file of a program of its own.
#ifndef PACKHOUSE_TESTS_SUPPORT_FAILING_NEW_H_
#define PACKHOUSE_TESTS_SUPPORT_FAILING_NEW_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace packhouse {

// While one lives, on its thread: `first` allocations succeed, then `count` fail, and then they
// succeed again.
class FailingNew {
 public:
  FailingNew(uint64_t first, uint64_t count) : first_(first), count_(count) { current_ = this; }
  ~FailingNew() { current_ = nullptr; }
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  // That failed so far, and that were asked for.
  uint64_t num_failed() const { return num_failed_; }
  uint64_t num_seen() const { return num_seen_; }

  static bool Fails() {
    if (current_ == nullptr) return false;
    const uint64_t number = current_->num_seen_++;
    if (number < current_->first_ || number - current_->first_ >= current_->count_) return false;
    ++current_->num_failed_;
    return true;
  }

 private:
  static inline thread_local FailingNew* current_ = nullptr;

  const uint64_t first_;
  const uint64_t count_;
  uint64_t num_seen_ = 0;
  uint64_t num_failed_ = 0;
};

}  // namespace packhouse

// Inlined into callers, malloc() and free() would be a mismatch to GCC.
[[gnu::noinline]] void* operator new(size_t size) {
  void* const block = packhouse::FailingNew::Fails() ? nullptr : std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

#endif  // PACKHOUSE_TESTS_SUPPORT_FAILING_NEW_H_
