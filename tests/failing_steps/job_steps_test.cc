// A join of a job, whichever of its steps fails: the worker has a seat, or an error, and the ledger
// has it or not.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/delivery/job_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/failing_steps.h"

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

// A worker joins an epoch, which is new, and leaves.
class JoinWorld final : public StepsWorld {
 public:
  JoinWorld(CountedSteps* log_fails, RefusedMemory* memory)
      : memory_(memory),
        log_(log_fails),
        world_(std::make_unique<JobWorld>(&log_, absl::InfiniteDuration(), 1 << 20,
                                          memory == nullptr ? nullptr : memory->budget())) {}
  absl::Status Attempt() override {
    JoinRequest request;
    request.worker = "a";
    const auto seat = world_->Join(epoch_, request);
    if (!seat.ok()) return seat.status();
    EXPECT_EQ(world_->job().Next(*seat->session, absl::UnixEpoch())->outcome,
              LeaseOutcome::kLeased);
    world_->job().Leave(*seat->session);
    return absl::OkStatus();
  }
  // The ledger, and what a restart would make of the log.
  std::string State() override {
    const std::vector<std::string> records = world_->Ledger().EpochRecords();
    EXPECT_EQ(JobLedger::Replay(*log_.ReadAll())->EpochRecords(), records);
    return absl::StrCat(records.size(), " records");
  }
  // Once nobody asks for the job.
  std::string Held() override { return ""; }

 private:
  const EpochIdentity epoch_ = IdentityOf({6});
  RefusedMemory* const memory_;
  RefusingLog log_;
  std::unique_ptr<JobWorld> world_;
};

TEST(JoinStepsTest, TheLogRefuses) {
  for (const bool lasts : {false, true}) {
    RefusedLog refused(lasts);
    const StepsTold told =
        ExpectDoneOrNot([&] { return std::make_unique<JoinWorld>(&refused, nullptr); }, refused);
    EXPECT_EQ(told.num_done, 0U);
  }
}

TEST(JoinStepsTest, MemoryRefused) {
  RefusedMemory memory;
  ExpectDoneOrNot([&] { return std::make_unique<JoinWorld>(nullptr, &memory); }, memory);
  EXPECT_EQ(memory.held(), 0U);
}

}  // namespace
}  // namespace packhouse
