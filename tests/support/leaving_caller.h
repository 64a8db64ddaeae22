// A caller that leaves, for tests.
#ifndef PACKHOUSE_TESTS_SUPPORT_LEAVING_CALLER_H_
#define PACKHOUSE_TESTS_SUPPORT_LEAVING_CALLER_H_

#include <atomic>

#include "service/base/caller.h"

namespace packhouse {

// Thread-safe.
class LeavingCaller final : public Caller {
 public:
  void Leave() { is_gone_ = true; }

  bool IsGone() const override {
    ++num_asked_;
    return is_gone_;
  }
  void OnWait() override { ++num_waits_; }

  int num_asked() const { return num_asked_; }
  int num_waits() const { return num_waits_; }

 private:
  std::atomic<bool> is_gone_ = false;
  mutable std::atomic<int> num_asked_ = 0;
  std::atomic<int> num_waits_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_LEAVING_CALLER_H_
