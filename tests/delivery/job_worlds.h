// Jobs over a log, without a data set: what the ledger and the leases do.
#ifndef PACKHOUSE_TESTS_DELIVERY_JOB_WORLDS_H_
#define PACKHOUSE_TESTS_DELIVERY_JOB_WORLDS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "service/engine/jobs/job.h"
#include "service/stores/logs/record_log.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

// A worker's stream that has joined.
struct Seat {
  std::shared_ptr<Job::Session> session;
  LoadStart start;
};

// The jobs of a server, whose logs outlive it. What is done in the background is done when the test
// says so, or at once.
class JobWorld {
 public:
  explicit JobWorld(JobLogs* logs, absl::Duration retention = absl::InfiniteDuration(),
                    size_t max_records = 1 << 20, MemoryBudget* memory = nullptr)
      : logs_(logs) {
    environment_.quota = &quota_;
    environment_.memory = memory;
    environment_.lease_duration = absl::Seconds(10);
    environment_.epoch_retention = retention;
    environment_.gathering = &gathering_;
    environment_.max_log_records = max_records;
    environment_.executor = [this](std::function<void()> work) {
      if (is_deferring) {
        deferred.push_back(std::move(work));
      } else {
        work();
      }
    };
    const std::vector<std::string> names = logs_->Names().value();
    for (const std::string& name : names) job(name);
  }
  // With the log of the job "job".
  explicit JobWorld(RecordLog* log, absl::Duration retention = absl::InfiniteDuration(),
                    size_t max_records = 1 << 20, MemoryBudget* memory = nullptr)
      : JobWorld(new LogsOfJobs(log), retention, max_records, memory) {
    own_logs_.reset(logs_);
  }

  ~JobWorld() { deferred.clear(); }  // It may keep jobs.
  JobWorld(const JobWorld&) = delete;
  JobWorld& operator=(const JobWorld&) = delete;

  Job& job(const std::string& name = "job") {
    std::shared_ptr<Job>& job = jobs_[name];
    if (job == nullptr) {
      std::shared_ptr<RecordLog> log = logs_->Open(name).value().log;
      const std::vector<std::string> records = log->ReadAll().value();
      job = std::make_shared<Job>(name, JobLedger::Replay(records).value(), std::move(log),
                                  records.size(), &environment_);
    }
    return *job;
  }

  std::shared_ptr<Job::Session> StartJoin(
      const EpochIdentity& identity, JoinRequest request, size_t max_in_flight = 100,
      std::function<void()> wake = [] {}) {
    return job(identity.key.job)
        .StartJoin(identity, std::move(request), ++last_session_, max_in_flight, std::move(wake),
                   nullptr);
  }
  absl::StatusOr<Seat> Join(
      const EpochIdentity& identity, JoinRequest request, size_t max_in_flight = 100,
      std::function<void()> wake = [] {}) {
    Seat seat;
    seat.session = StartJoin(identity, std::move(request), max_in_flight, std::move(wake));
    auto start = job(identity.key.job).Started(*seat.session, /*may_wait=*/false);
    if (!start.ok()) return start.status();
    if (!*start) return absl::UnavailableError("is still joining");
    seat.start = **std::move(start);
    return seat;
  }

  // All jobs together, as a reader of the logs should see them.
  JobLedger Ledger() {
    std::vector<std::string> records;
    for (auto& [name, job] : jobs_) {
      for (std::string& record : job->ForkLedger().EpochRecords()) {
        records.push_back(std::move(record));
      }
    }
    return JobLedger::Replay(records).value();
  }
  void Compact() {
    for (auto& [name, job] : jobs_) job->Compact();
  }

  void GatherJoins(absl::Duration longest) { environment_.gather_joins = longest; }

  void RunDeferred() {
    for (const auto& work : std::exchange(deferred, {})) work();
  }

  EpochQuota& quota() { return quota_; }
  GatheringPlaces& gathering() { return gathering_; }

  bool is_deferring = false;
  std::vector<std::function<void()>> deferred;

 private:
  std::unique_ptr<JobLogs> own_logs_;
  JobLogs* const logs_;
  EpochQuota quota_{4096, 4096};
  GatheringPlaces gathering_{2};
  Job::Environment environment_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  SessionId last_session_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DELIVERY_JOB_WORLDS_H_
