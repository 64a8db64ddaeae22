// Logs for tests of the ledger, named for what they do.
#ifndef PACKHOUSE_TESTS_LEDGER_LEDGER_LOGS_H_
#define PACKHOUSE_TESTS_LEDGER_LEDGER_LOGS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/stores/logs/job_logs.h"
#include "service/stores/logs/record_log.h"

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

// The logs of a server that is alone. That of the job "job" is the test's; those of other jobs are
// in memory. They last as long as this. Thread-safe, if the test's log is.
class LogsOfJobs final : public JobLogs {
 public:
  explicit LogsOfJobs(RecordLog* log) : log_(log) {}

  absl::StatusOr<JobPlace> Open(const std::string& job) override {
    JobPlace place;
    absl::MutexLock lock(&mutex_);
    place.log = std::make_unique<Opened>(this, &LogOf(job), ++revision_);
    return place;
  }
  bool is_alone() const override { return true; }
  absl::StatusOr<std::vector<std::string>> Names() override {
    std::vector<std::string> names;
    absl::MutexLock lock(&mutex_);
    for (auto& [job, log] : others_) {
      if (log.num_records() != 0) names.push_back(job);
    }
    const auto records = log_->ReadAll();
    if (!records.ok()) return records.status();
    if (!records->empty()) names.emplace_back("job");
    return names;
  }
  const std::string& address() const override { return address_; }
  std::vector<std::string> members() const override { return {}; }
  absl::StatusOr<std::vector<std::string>> Read(const std::string& job) override {
    absl::MutexLock lock(&mutex_);
    return LogOf(job).ReadAll();
  }

 private:
  class Opened final : public RecordLog {
   public:
    Opened(LogsOfJobs* logs, RecordLog* log, uint64_t revision)
        : logs_(logs), log_(log), revision_(revision) {}

    absl::Status Append(absl::Span<const std::string> records) override {
      return log_->Append(records);
    }
    absl::StatusOr<std::vector<std::string>> ReadAll() override { return log_->ReadAll(); }
    absl::Status Replace(absl::Span<const std::string> records) override {
      return log_->Replace(records);
    }
    uint64_t owner_revision() const override { return revision_; }
    absl::Status Erase(uint64_t mark) override {
      const absl::Status erased = log_->Replace({});
      if (erased.ok()) logs_->Raise(mark);
      return erased;
    }
    absl::StatusOr<uint64_t> mark() const override {
      absl::MutexLock lock(&logs_->mutex_);
      return logs_->mark_;
    }

   private:
    LogsOfJobs* const logs_;
    RecordLog* const log_;
    const uint64_t revision_;
  };

  RecordLog& LogOf(const std::string& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return job == "job" ? *log_ : others_[job];
  }
  void Raise(uint64_t mark) {
    absl::MutexLock lock(&mutex_);
    mark_ = std::max(mark_, mark);
  }

  RecordLog* const log_;
  const std::string address_;
  absl::Mutex mutex_;
  std::map<std::string, FailingLog> others_ ABSL_GUARDED_BY(mutex_);
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t mark_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_LEDGER_LEDGER_LOGS_H_
