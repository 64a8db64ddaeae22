// A call of a job, whichever of its steps fails: it is done, or an error, and the ledger has it or
// not; and so a join where servers share the job, with the plan of its epoch.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/jobs/loader.h"
#include "service/stores/keys/replica_lease.h"
#include "service/wings/cluster/jobs/etcd_job_logs.h"
#include "tests/delivery/job_worlds.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/failing_steps/failing_requests.h"
#include "tests/support/failing_steps.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/simulated_clock.h"

namespace packhouse {
namespace {

// Each change is a step: it is kept, or the log refuses it and has nothing of it.
class RefusingLog final : public RecordLog {
 public:
  explicit RefusingLog(CountedSteps* steps) : steps_(steps) {}

  absl::Status Append(absl::Span<const std::string> records) override {
    if (steps_ != nullptr && steps_->Fails()) return absl::ResourceExhaustedError("log: full");
    records_.insert(records_.end(), records.begin(), records.end());
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return records_; }
  absl::Status Replace(absl::Span<const std::string> records) override {
    if (steps_ != nullptr && steps_->Fails()) return absl::ResourceExhaustedError("log: full");
    records_.assign(records.begin(), records.end());
    return absl::OkStatus();
  }

 private:
  CountedSteps* const steps_;
  std::vector<std::string> records_;
};

class RefusedLog final : public CountedSteps {
 public:
  explicit RefusedLog(bool lasts) : CountedSteps(lasts) {}
  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kResourceExhausted};
  }
};

enum class JobCall { kJoin, kAcknowledge, kForget, kForgetUnused };

// A worker joins an epoch, which is new, and leaves. Or it has a batch and has left, and then the
// batch is acknowledged, or the epoch is forgotten.
class JobStepsWorld final : public StepsWorld {
 public:
  JobStepsWorld(JobCall call, CountedSteps* log_fails, RefusedMemory* memory)
      : call_(call),
        log_(log_fails),
        world_(std::make_unique<JobWorld>(&log_, absl::Hours(1), 1 << 20,
                                          memory == nullptr ? nullptr : memory->budget())) {
    if (call_ == JobCall::kJoin) return;
    EXPECT_TRUE(Join().ok());
    EXPECT_TRUE(world_->job().ForgetUnused(kUsed).ok());
  }
  absl::Status Attempt() override {
    switch (call_) {
      case JobCall::kJoin:
        return Join();
      case JobCall::kAcknowledge:
        return world_->job()
            .Acknowledge(0, 1, generation_, std::vector<uint64_t>{batch_}, kUsed)
            .status();
      case JobCall::kForget:
        return world_->job().Forget();
      case JobCall::kForgetUnused:
        return world_->job().ForgetUnused(kUsed + absl::Hours(2)).status();
    }
    return absl::InternalError("not reached");
  }
  // The ledger, and what a restart would make of the log.
  std::string State() override {
    const std::vector<std::string> records = world_->Ledger().EpochRecords();
    EXPECT_EQ(JobLedger::Replay(*log_.ReadAll())->EpochRecords(), records);
    // Whoever joins again has another generation.
    return call_ == JobCall::kJoin ? absl::StrCat(records.size()) : absl::StrJoin(records, "\n");
  }

 private:
  static constexpr absl::Time kUsed = absl::FromUnixSeconds(1000);

  absl::Status Join() {
    JoinRequest request;
    request.worker = "a";
    const auto seat = world_->Join(epoch_, request);
    if (!seat.ok()) return seat.status();
    const auto offer = world_->job().Next(*seat->session, absl::UnixEpoch());
    EXPECT_EQ(offer->outcome, LeaseOutcome::kLeased);
    batch_ = offer->batch;
    generation_ = seat->start.join.generation;
    world_->job().Leave(*seat->session);
    return absl::OkStatus();
  }

  const EpochIdentity epoch_ = IdentityOf({6});
  const JobCall call_;
  RefusingLog log_;
  std::unique_ptr<JobWorld> world_;
  uint64_t batch_ = 0;
  uint64_t generation_ = 0;
};

constexpr JobCall kJobCalls[] = {JobCall::kJoin, JobCall::kAcknowledge, JobCall::kForget,
                                 JobCall::kForgetUnused};

StepsOptions OptionsOf(JobCall call) {
  StepsOptions options;
  if (call == JobCall::kForget) options.again = absl::StatusCode::kNotFound;
  return options;
}

TEST(JobStepsTest, TheLogRefuses) {
  for (const JobCall call : kJobCalls) {
    for (const bool lasts : {false, true}) {
      SCOPED_TRACE(static_cast<int>(call));
      RefusedLog refused(lasts);
      const StepsTold told =
          ExpectDoneOrNot([&] { return std::make_unique<JobStepsWorld>(call, &refused, nullptr); },
                          refused, OptionsOf(call));
      EXPECT_EQ(told.num_done, 0U);
    }
  }
}

TEST(JobStepsTest, MemoryRefused) {
  // To forget takes none.
  for (const JobCall call : {JobCall::kJoin, JobCall::kAcknowledge}) {
    SCOPED_TRACE(static_cast<int>(call));
    RefusedMemory memory;
    ExpectDoneOrNot([&] { return std::make_unique<JobStepsWorld>(call, nullptr, &memory); },
                    memory);
    EXPECT_EQ(memory.held(), 0U);
  }
}

// A worker opens an epoch of a job that servers share: its plan is made and kept, and it joins.
class SharedLoadWorld final : public StepsWorld {
 public:
  SharedLoadWorld(DatasetWorld& data, FailingRequests& requests, StoreFault fault)
      : catalog_(&data.store(), EpochBounds()) {
    servers_.SetForgetful(false);
    EXPECT_TRUE(lease_.Tick().ok());
    jobs_ = Jobs::Create(&loader_, &logs_, JobsOptions(), /*memory=*/nullptr).value();
    connection_.SetFaults(
        [&requests, fault] { return requests.Fails() ? fault : StoreFault::kNone; });
  }
  absl::Status Attempt() override {
    PH_ASSIGN_OR_RETURN(const Jobs::Place place, jobs_->Open("job"));
    if (place.job == nullptr) return absl::UnavailableError("another server has it");
    JoinRequest join;
    join.worker = "a";
    return loader_.Load(place.job, DatasetWorld::Request(), join, /*max_in_flight=*/1, [] {})
        .status();
  }
  // What another server would read.
  std::string State() override {
    servers_.DoLateRequests();
    FakeConnection reader(&servers_);
    const auto records = EtcdRecordLog::Read(reader, "job");
    EXPECT_TRUE(records.ok()) << records.status();
    if (!records.ok()) return "unreadable";
    const auto ledger = JobLedger::Replay(*records);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    return ledger.ok() ? absl::StrCat(ledger->EpochRecords().size(), " records") : "damaged";
  }

 private:
  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  FakeConnection connection_{&servers_};
  ReplicaLease lease_{&connection_, {"r", "here:1"}, [this] { return clock_.Now(); }};
  EtcdJobLogs logs_{&connection_, &lease_, "r", uint64_t{4} << 20};
  EpochCatalog catalog_;
  Loader loader_{&catalog_};
  std::unique_ptr<Jobs> jobs_;
};

TEST(SharedLoadStepsTest, ARequestOfAPlanAndAJoinFails) {
  DatasetWorld data(40);
  data.Seal();
  for (const StoreFault fault : kKeyFaults) {
    for (const bool lasts : {false, true}) {
      SCOPED_TRACE(absl::StrCat("fault ", static_cast<int>(fault), ", lasts ", lasts));
      FailingRequests requests(lasts);
      ExpectDoneOrNot([&] { return std::make_unique<SharedLoadWorld>(data, requests, fault); },
                      requests);
    }
  }
}

// The logs of a server that is alone, with one job; each call is a step. They were restored.
class RefusingLogs final : public JobLogs {
 public:
  RefusingLogs(std::vector<std::string> records, CountedSteps* steps)
      : records_(std::move(records)), steps_(steps) {}

  absl::StatusOr<JobPlace> Open(const std::string& /*job*/) override {
    PH_RETURN_IF_ERROR(Next());
    JobPlace place;
    place.log = std::make_unique<Opened>(this);
    return place;
  }
  bool is_alone() const override { return true; }
  absl::StatusOr<std::vector<std::string>> Names() override {
    PH_RETURN_IF_ERROR(Next());
    return std::vector<std::string>{"job"};
  }
  const std::string& address() const override { return address_; }
  std::vector<std::string> members() const override { return {}; }
  absl::StatusOr<std::vector<std::string>> Read(const std::string& /*job*/) override {
    return records_;
  }
  uint64_t restored_seconds() const override { return 1'700'000'000; }

 private:
  class Opened final : public RecordLog {
   public:
    explicit Opened(RefusingLogs* logs) : logs_(logs) {}
    absl::Status Append(absl::Span<const std::string> records) override {
      PH_RETURN_IF_ERROR(logs_->Next());
      logs_->records_.insert(logs_->records_.end(), records.begin(), records.end());
      return absl::OkStatus();
    }
    absl::StatusOr<std::vector<std::string>> ReadAll() override {
      PH_RETURN_IF_ERROR(logs_->Next());
      return logs_->records_;
    }
    absl::Status Replace(absl::Span<const std::string> /*records*/) override {
      return absl::UnimplementedError("nothing is rewritten");
    }
    absl::StatusOr<uint64_t> mark() const override {
      PH_RETURN_IF_ERROR(logs_->Next());
      return 0;
    }

   private:
    RefusingLogs* const logs_;
  };

  absl::Status Next() {
    return steps_->Fails() ? absl::UnavailableError("log: no answer") : absl::OkStatus();
  }

  std::vector<std::string> records_;
  CountedSteps* const steps_;
  const std::string address_;
};

// A server that is alone opens all its jobs, whose epochs begin new generations.
class AllJobsWorld final : public StepsWorld {
 public:
  AllJobsWorld(const std::vector<std::string>& records, CountedSteps* steps)
      : logs_(records, steps) {}
  absl::Status Attempt() override {
    auto jobs = Jobs::Create(&loader_, &logs_, JobsOptions(), /*memory=*/nullptr);
    if (jobs.ok()) jobs_ = *std::move(jobs);
    return jobs.status();
  }
  std::string State() override {
    if (jobs_ == nullptr) return "none";
    return absl::StrJoin(jobs_->Find("job")->ForkLedger().EpochRecords(), "\n");
  }

 private:
  DatasetWorld dataset_{1};
  EpochCatalog catalog_{&dataset_.store(), EpochBounds()};
  Loader loader_{&catalog_};
  RefusingLogs logs_;
  std::unique_ptr<Jobs> jobs_;
};

TEST(JobStepsTest, AllJobsAreOpened) {
  RefusingLog log(nullptr);
  {
    JobWorld world(&log);
    JoinRequest request;
    request.worker = "a";
    ASSERT_TRUE(world.Join(IdentityOf({6}), request).ok());
  }
  CountedSteps refused;
  const StepsTold told = ExpectDoneOrNot(
      [&] { return std::make_unique<AllJobsWorld>(*log.ReadAll(), &refused); }, refused);
  // The names, the log, its records, another generation, the mark.
  EXPECT_EQ(told.num_not_done, 5U);
}

}  // namespace
}  // namespace packhouse
