// The folders of partitions on a disk that fails at every step.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/jobs/partition_check.h"
#include "service/wings/partition/jobs/partition_folder.h"
#include "service/wings/partition/jobs/partition_jobs.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/failing_disk/disk_laws.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/source_graph_world.h"

namespace packhouse {
namespace {

// A graph whose companion folder is `folder`.
std::shared_ptr<const StoredSourceGraph> GraphWith(const std::string& folder) {
  const OneGraphStore store(SmallSourceGraph(6), folder);
  return *store.Open("g");
}

PartitionPlan TwoParts() {
  PartitionPlan plan;
  plan.name = "p";
  plan.options.num_parts = 2;
  return plan;
}

std::string StateOf(const std::string& folder) {
  const auto state = PartitionFolder(*GraphWith(folder), "p").State();
  if (absl::IsNotFound(state.status())) return "none";
  EXPECT_TRUE(state.ok()) << state.status();
  if (!state.ok()) return "damaged";
  EXPECT_EQ(state->owner, "me");
  if (!state->end) return "asked for";
  EXPECT_TRUE(absl::IsCancelled(*state->end));
  return "cancelled";
}

void AskFor(const std::string& folder) {
  EXPECT_TRUE(PartitionFolder(*GraphWith(folder), "p").Create(TwoParts(), "me").ok());
}

TEST(FailingPartitionsTest, APartitionIsAskedForOrNot) {
  DiskChange change;
  change.attempt = [](const std::string& folder) {
    const PartitionFolder partition(*GraphWith(folder), "p");
    // As it is asked for again.
    return partition.State().ok() ? partition.Settle() : partition.Create(TwoParts(), "me");
  };
  change.state = StateOf;
  change.before = "none";
  change.after = "asked for";
  ExpectThreeOutcomes(change);
}

TEST(FailingPartitionsTest, ItEndsOrNot) {
  DiskChange change;
  change.prepare = AskFor;
  change.attempt = [](const std::string& folder) {
    return PartitionFolder(*GraphWith(folder), "p").WriteEnd(absl::CancelledError("enough"));
  };
  change.state = StateOf;
  change.before = "asked for";
  change.after = "cancelled";
  ExpectThreeOutcomes(change);
}

TEST(FailingPartitionsTest, ItGoesOnOrNot) {
  DiskChange change;
  change.prepare = [](const std::string& folder) {
    AskFor(folder);
    const PartitionFolder partition(*GraphWith(folder), "p");
    EXPECT_TRUE(partition.WriteEnd(absl::CancelledError("enough")).ok());
  };
  change.attempt = [](const std::string& folder) {
    return PartitionFolder(*GraphWith(folder), "p").RemoveEnd();
  };
  change.state = StateOf;
  change.before = "cancelled";
  change.after = "asked for";
  ExpectThreeOutcomes(change);
}

TEST(FailingPartitionsTest, ItIsDeletedOrNot) {
  DiskChange change;
  change.prepare = AskFor;
  change.attempt = [](const std::string& folder) {
    return PartitionFolder(*GraphWith(folder), "p").MoveAway().status();
  };
  change.state = StateOf;
  change.before = "asked for";
  change.after = "none";
  ExpectThreeOutcomes(change);
}

// The folder appears with all its files, or not; and the same call goes on from what was done.
TEST(FailingPartitionsTest, APartitionIsWholeOrNone) {
  const auto graph = SmallSourceGraph(12);
  PartitionPlan plan = TwoParts();
  plan.npy = true;
  plan.mapping = true;
  plan.assignment = true;
  const TemporaryFolder whole(TemporaryFolder::InMemory());
  ASSERT_TRUE(RunPartition(*graph, plan, whole.path() + "/p", nullptr, {}).ok());
  const std::map<std::string, std::string> expected = FilesBelow(whole.path() + "/p");
  DiskChange change;
  change.attempt = [&](const std::string& folder) {
    return RunPartition(*graph, plan, folder + "/p", nullptr, {}).status();
  };
  change.state = [&expected](const std::string& folder) -> std::string {
    if (!std::filesystem::exists(folder + "/p")) return "none";
    EXPECT_TRUE(FilesBelow(folder + "/p") == expected);
    return "whole";
  };
  change.before = "none";
  change.after = "whole";
  change.again = absl::StatusCode::kAlreadyExists;
  ExpectThreeOutcomes(change);
}

// A server's partitions of one graph.
class PartitionsOnFailingDisk {
 public:
  explicit PartitionsOnFailingDisk(std::string companion)
      : companion_(std::move(companion)), graphs_(SmallSourceGraph(6), companion_) {}

  void Open() {
    jobs_ = std::make_unique<PartitionJobs>(&graphs_, nullptr, &clock_, nullptr,
                                            PartitionJobs::Options());
    jobs_->AwaitIdle();
  }
  void Close() { jobs_.reset(); }

  void Ask(const std::string& name) {
    PartitionPlan plan = TwoParts();
    plan.name = name;
    plan.options.method = PartMethod::kRandom;
    plan.options.num_parts = 1;
    const absl::Status asked = jobs_->Partition("g", plan, "me").status();
    jobs_->AwaitIdle();
    if (asked.ok()) acknowledged_.insert(name);
    After(name, asked, [](const std::string&) { return std::optional<std::string>("there"); });
  }
  void Delete(const std::string& name) {
    acknowledged_.erase(name);
    After(name, jobs_->Delete("g", name), [](const std::string& before) {
      return before.empty() ? std::nullopt : std::optional<std::string>("");
    });
  }
  // Some are asked for, made, deleted and asked for again.
  void Live() {
    Ask("a");
    Ask("b");
    Delete("a");
    Ask("a");
  }

  // What was answered with OK is in the list, whatever became of the server.
  void ExpectAcknowledgedAreListed() const {
    const auto list = ReadPartitionList(companion_);
    ASSERT_TRUE(list.ok()) << list.status();
    for (const std::string& name : acknowledged_) EXPECT_TRUE(list->contains(name)) << name;
  }

  std::vector<std::string> Damages() const {
    std::vector<std::string> damages;
    CheckPartitions("g", companion_, [&damages](const StoredDamage& damage) {
      damages.push_back(absl::StrCat(damage.file, " ", damage.what));
    });
    return damages;
  }

  // What was answered, and nothing else, is there; all of it reads, and is listed.
  void ExpectAsAnswered() {
    const auto listed = jobs_->List("g");
    ASSERT_TRUE(listed.ok()) << listed.status();
    PartitionList there;
    for (const PartitionJobInfo& info : *listed) {
      there.insert(info.plan.name);
      const auto got = jobs_->Get("g", info.plan.name);
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok() || got->state != PartitionJobState::kDone) continue;
      EXPECT_FALSE(got->files.empty());
      for (const PartitionJobFile& file : got->files) {
        const auto read = jobs_->ReadFile("g", info.plan.name, file.path, 0, file.num_bytes);
        EXPECT_TRUE(read.ok() && read->data.size() == file.num_bytes) << file.path;
      }
    }
    for (const std::string& name : states_.things()) {
      states_.ExpectAndSettle(name, there.contains(name) ? "there" : "");
    }
    EXPECT_EQ(*ReadPartitionList(companion_), there);
  }

  uint64_t num_unknown() const { return num_unknown_; }

 private:
  void After(const std::string& name, const absl::Status& ended,
             absl::FunctionRef<std::optional<std::string>(const std::string&)> next) {
    if (DiskOutcomeIsUnknown(ended)) ++num_unknown_;
    states_.After(name, ended, next);
  }

  const std::string companion_;
  OneGraphStore graphs_;
  SimulatedClock clock_;
  std::unique_ptr<PartitionJobs> jobs_;
  AnsweredStates states_;
  PartitionList acknowledged_;
  uint64_t num_unknown_ = 0;
};

class FailingPartitionJobsTest : public testing::TestWithParam<DiskFault> {};

// The law of `packhoused store check`: it says that the partitions are sound, and a server that is
// started then has all that were answered and reads them.
TEST_P(FailingPartitionJobsTest, WhatWasAnsweredIsThereAndSound) {
  const DiskFault fault = GetParam();
  uint64_t num_unknown = 0;
  // Each step fails once; of the other faults, some of the steps, and those of each kind.
  const bool is_first = fault.error == EIO && !fault.lasts && !fault.loses_power;
  const uint64_t stride = is_first || std::getenv("PACKHOUSE_ALL_CASES") != nullptr ? 1 : 10;
  const auto live = [&](uint64_t step) {
    const TemporaryFolder above(TemporaryFolder::InMemory());
    const std::string companion = above.path() + "/companion";
    PartitionsOnFailingDisk partitions(companion);
    FailingCalls calls(companion, FailingCalls::Failure{step, fault.error, fault.lasts});
    partitions.Open();
    partitions.Live();
    num_unknown += partitions.num_unknown();
    partitions.Close();
    calls.Stop();
    SCOPED_TRACE(testing::Message() << "step " << step << ": " << calls.what());
    if (fault.loses_power) calls.LosePower();
    partitions.ExpectAcknowledgedAreListed();
    EXPECT_THAT(partitions.Damages(), testing::IsEmpty());
    partitions.Open();
    partitions.ExpectAsAnswered();
    EXPECT_THAT(partitions.Damages(), testing::IsEmpty());
    // And goes on.
    partitions.Ask("c");
    partitions.Delete("b");
    partitions.ExpectAsAnswered();
    return calls.kinds();
  };
  const std::vector<std::string> kinds = live(FailingCalls::kNoStep);
  EXPECT_GT(kinds.size(), 10U);
  for (const uint64_t step : StepsToTry(kinds, stride)) {
    live(step);
    if (HasFailure()) return;
  }
  // Folders are synced: some outcomes cannot be known.
  if (fault.error == EIO) {
    EXPECT_GT(num_unknown, 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(Disks, FailingPartitionJobsTest, testing::ValuesIn(DiskFaults()));

}  // namespace
}  // namespace packhouse
