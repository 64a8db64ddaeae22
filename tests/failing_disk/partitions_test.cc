// The folders of partitions on a disk that fails at every step.
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/partition_jobs/partition_folder.h"
#include "service/partition_jobs/partition_run.h"
#include "tests/failing_disk/disk_laws.h"
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
  const PartitionFolder partition(*GraphWith(folder), "p");
  if (!partition.exists()) return "none";
  EXPECT_TRUE(partition.Request().ok());
  EXPECT_EQ(partition.Owner(), "me");
  if (!partition.has_end()) return "asked for";
  const auto end = partition.End();
  EXPECT_TRUE(end.ok() && absl::IsCancelled(*end));
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
    return partition.exists() ? partition.Settle() : partition.Create(TwoParts(), "me");
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
  change.again = absl::StatusCode::kNotFound;
  ExpectThreeOutcomes(change);
}

// The folder appears with all its files, or not; and the same call goes on from what was done.
TEST(FailingPartitionsTest, APartitionIsWholeOrNone) {
  const auto graph = SmallSourceGraph(12);
  const TemporaryFolder whole(TemporaryFolder::InMemory());
  ASSERT_TRUE(RunPartition(*graph, TwoParts(), whole.path() + "/p", nullptr, {}).ok());
  const std::map<std::string, std::string> expected = FilesBelow(whole.path() + "/p");
  DiskChange change;
  change.attempt = [&graph](const std::string& folder) {
    return RunPartition(*graph, TwoParts(), folder + "/p", nullptr, {}).status();
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

}  // namespace
}  // namespace packhouse
