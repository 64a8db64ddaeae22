// A folder of logs in which one job has one.
#ifndef PACKHOUSE_TESTS_LEDGER_LMDB_ONE_LOG_H_
#define PACKHOUSE_TESTS_LEDGER_LMDB_ONE_LOG_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"
#include "service/stores/logs/lmdb_job_logs.h"

namespace packhouse {

class OneLog final : public RecordLog {
 public:
  static absl::StatusOr<std::unique_ptr<OneLog>> Open(const LmdbJobLogs::Options& options) {
    PH_ASSIGN_OR_RETURN(auto logs, LmdbJobLogs::Open(options));
    auto one = std::unique_ptr<OneLog>(new OneLog);
    PH_ASSIGN_OR_RETURN(JobPlace place, logs->Open("job"));
    one->logs_ = std::move(logs);
    one->log_ = std::move(place.log);
    return one;
  }

  absl::Status Append(absl::Span<const std::string> records) override {
    return log_->Append(records);
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return log_->ReadAll(); }
  absl::Status Replace(absl::Span<const std::string> records) override {
    return log_->Replace(records);
  }
  absl::Status Erase(uint64_t mark) override { return log_->Erase(mark); }
  absl::StatusOr<uint64_t> mark() const override { return log_->mark(); }

  LmdbJobLogs& logs() { return *logs_; }
  uint64_t num_records() const { return logs_->num_records(); }
  uint64_t num_bytes() const { return logs_->num_bytes(); }
  uint64_t identity() const { return logs_->identity(); }
  bool is_read_only() const { return logs_->is_read_only(); }
  absl::Status health() const { return logs_->health(); }
  absl::Status TryCommit(uint64_t bytes) { return logs_->TryCommit(bytes); }

 private:
  OneLog() = default;

  std::unique_ptr<LmdbJobLogs> logs_;
  std::unique_ptr<RecordLog> log_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_LEDGER_LMDB_ONE_LOG_H_
