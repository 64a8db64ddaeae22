// A disk with one log, whose changes fail when a test says so.
#ifndef PACKHOUSE_TESTS_LEDGER_TEST_DISK_H_
#define PACKHOUSE_TESTS_LEDGER_TEST_DISK_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/stores/logs/record_log.h"

namespace packhouse {

// What a log of a process has on the disk, and what happens to its next change.
struct TestDisk {
  enum class Fault { kNone, kRefused, kUnknown, kUnknownButDone };
  std::vector<std::string> records;
  Fault fault = Fault::kNone;
  // Appends are refused, replacements are not.
  bool is_full = false;
  // A change may be on it, or not.
  bool is_lost = false;
};

class TestLog final : public RecordLog {
 public:
  explicit TestLog(TestDisk* disk) : disk_(disk) {}

  absl::Status Append(absl::Span<const std::string> records) override {
    if (disk_->is_full) return absl::ResourceExhaustedError("log: full");
    std::vector<std::string> all = disk_->records;
    all.insert(all.end(), records.begin(), records.end());
    return Replace(all);
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override {
    if (is_dead_) return absl::UnavailableError("log: dead");
    return disk_->records;
  }
  absl::Status Replace(absl::Span<const std::string> records) override {
    if (is_dead_) return absl::UnavailableError("log: dead");
    const TestDisk::Fault fault = std::exchange(disk_->fault, TestDisk::Fault::kNone);
    if (fault == TestDisk::Fault::kRefused) return absl::UnavailableError("log: refused");
    is_dead_ = fault != TestDisk::Fault::kNone;
    if (fault != TestDisk::Fault::kUnknown) disk_->records.assign(records.begin(), records.end());
    disk_->is_lost = is_dead_;
    return is_dead_ ? absl::UnavailableError("log: lost the disk") : absl::OkStatus();
  }

 private:
  TestDisk* const disk_;
  bool is_dead_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_LEDGER_TEST_DISK_H_
