// Logs for tests of the ledger, named for what they do.
#ifndef PACKHOUSE_TESTS_LEDGER_LEDGER_LOGS_H_
#define PACKHOUSE_TESTS_LEDGER_LEDGER_LOGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/engine/jobs/job_ledger.h"

namespace packhouse {

// A log whose disk fails when it is told to.
class FailingLog final : public RecordLog {
 public:
  enum class Failure {
    kNone,
    // The next Append or Replace keeps nothing new, and says so.
    kRefuses,
    // The next Append or Replace fails without telling whether it kept anything; all later ones
    // until Reopen().
    kDiesBefore,
    kDiesAfter,
  };

  absl::Status Append(absl::Span<const std::string> records) override {
    ++num_appends_;
    return Write([&] { Keep(records); });
  }

  absl::StatusOr<std::vector<std::string>> ReadAll() override { return records_; }

  absl::Status Replace(absl::Span<const std::string> records) override {
    return Write([&] { records_.assign(records.begin(), records.end()); });
  }

  void FailNext(Failure failure) { next_failure_ = failure; }
  bool dead() const { return dead_; }
  // The process is about to be killed: nothing is written any more.
  void Die() { dead_ = true; }
  void Reopen() {
    dead_ = false;
    next_failure_ = Failure::kNone;
  }

  // All that was ever appended, compacted or not.
  const std::vector<std::string>& history() const { return history_; }
  size_t num_records() const { return records_.size(); }
  // Each a commit, if the disk had it.
  size_t num_appends() const { return num_appends_; }

 private:
  template <typename Change>
  absl::Status Write(const Change& change) {
    if (dead_) return absl::UnavailableError("log: dead");
    switch (std::exchange(next_failure_, Failure::kNone)) {
      case Failure::kNone:
        change();
        return absl::OkStatus();
      case Failure::kRefuses:
        return absl::ResourceExhaustedError("log: disk full");
      case Failure::kDiesAfter:
        change();
        [[fallthrough]];
      case Failure::kDiesBefore:
        dead_ = true;
        return absl::UnavailableError("log: lost the disk");
    }
    return absl::InternalError("not reached");
  }

  void Keep(absl::Span<const std::string> records) {
    records_.insert(records_.end(), records.begin(), records.end());
    history_.insert(history_.end(), records.begin(), records.end());
  }

  std::vector<std::string> records_;
  std::vector<std::string> history_;
  size_t num_appends_ = 0;
  Failure next_failure_ = Failure::kNone;
  bool dead_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_LEDGER_LEDGER_LOGS_H_
