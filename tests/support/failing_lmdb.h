// Calls of LMDB that fail when a test says so: which the system's calls, of which each does many,
// do not make it do. Replaces LMDB's functions for the whole program: link failing_lmdb.cc into a
// program of its own.
#ifndef PACKHOUSE_TESTS_SUPPORT_FAILING_LMDB_H_
#define PACKHOUSE_TESTS_SUPPORT_FAILING_LMDB_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/failing_steps.h"

namespace packhouse {

// Each call that may fail, of any environment and thread, is a step; it ends with an error of the
// system, and what it would have done is not done. One lives at a time. Thread-safe.
class FailingLmdb final : public CountedSteps {
 public:
  FailingLmdb();
  ~FailingLmdb() override;

  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kUnavailable};
  }

  // Of the functions that take the place of LMDB's: 0, or the error that the call ends with.
  static int ErrorOf(const char* function);
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FAILING_LMDB_H_
