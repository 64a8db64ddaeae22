// A job's record is committed to a log that servers share, whichever request fails. (Data sets and
// source graphs that they share: object_steps_test.cc.)
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "tests/failing_steps/failing_requests.h"
#include "tests/support/failing_steps.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/simulated_clock.h"

namespace packhouse {
namespace {

// A record is committed to the log of a job in etcd: by who owns the job, and after an error by who
// reads the log again.
class SharedLogWorld final : public StepsWorld {
 public:
  SharedLogWorld(FailingRequests& requests, StoreFault fault) {
    lease_ = connection_.GrantLease(absl::Seconds(10)).value().id;
    EXPECT_TRUE(Open().ok());
    EXPECT_TRUE(log_->Append({{"first"}}).ok());
    connection_.SetFaults(
        [&requests, fault] { return requests.Fails() ? fault : StoreFault::kNone; });
  }
  // Who has the answer does not ask again.
  absl::Status Attempt() override {
    if (is_done_) return absl::OkStatus();
    if (log_ == nullptr) {
      if (absl::Status opened = Open(); !opened.ok()) return opened;
      const auto records = log_->ReadAll();
      if (!records.ok()) return records.status();
      if (records->size() == 2) {
        is_done_ = true;
        return absl::OkStatus();
      }
    }
    absl::Status appended = log_->Append({{"second"}});
    is_done_ = appended.ok();
    if (!is_done_) log_ = nullptr;
    return appended;
  }
  std::string State() override {
    servers_.DoLateRequests();
    FakeConnection reader(&servers_);
    const auto records = EtcdRecordLog::Read(reader, "job");
    EXPECT_TRUE(records.ok()) << records.status();
    return records.ok() ? absl::StrJoin(*records, " ") : "unreadable";
  }

 private:
  absl::Status Open() {
    auto acquired = EtcdRecordLog::Acquire(
        &connection_, {"job", "here:1", absl::StrCat(++num_attempts_), lease_});
    if (!acquired.ok()) return acquired.status();
    EXPECT_NE(acquired->log, nullptr);
    log_ = std::move(acquired->log);
    return absl::OkStatus();
  }

  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  FakeConnection connection_{&servers_};
  LeaseId lease_ = 0;
  uint64_t num_attempts_ = 0;
  std::unique_ptr<RecordLog> log_;
  bool is_done_ = false;
};

TEST(SharedLogStepsTest, ARequestOfACommitFails) {
  for (const StoreFault fault : kKeyFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    StepsOptions options;
    options.may_all_be_survived = true;
    ExpectDoneOrNot([&] { return std::make_unique<SharedLogWorld>(requests, fault); }, requests,
                    options);
  }
}

}  // namespace
}  // namespace packhouse
