// The three outcomes of changes of names, on a disk that fails at every step.
#include "service/base/disk_file.h"

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/base/durable_folder.h"
#include "tests/failing_disk/disk_laws.h"
#include "tests/support/failing_calls.h"

namespace packhouse {
namespace {

// All that is in a folder, in a line.
std::string Contents(const std::string& folder) {
  std::string contents;
  for (const auto& [path, bytes] : FilesBelow(folder)) {
    absl::StrAppend(&contents, path, "=", bytes, " ");
  }
  return contents;
}

void WriteOld(const std::string& folder) { ASSERT_TRUE(WriteWhole(folder, "name", "old").ok()); }

TEST(FailingDiskFileTest, AFileIsPutInItsPlaceOrNot) {
  DiskChange change;
  change.prepare = WriteOld;
  change.attempt = [](const std::string& folder) { return WriteWhole(folder, "name", "new"); };
  change.state = [](const std::string& folder) { return ReadWhole(folder + "/name").value_or(""); };
  change.before = "old";
  change.after = "new";
  ExpectThreeOutcomes(change);
}

TEST(FailingDiskFileTest, AFileIsRenamedOrNot) {
  DiskChange change;
  change.prepare = WriteOld;
  change.attempt = [](const std::string& folder) {
    return RenameDurably(folder + "/name", folder + "/other");
  };
  change.state = Contents;
  change.before = "name=old ";
  change.after = "other=old ";
  change.again = absl::StatusCode::kNotFound;
  ExpectThreeOutcomes(change);
}

TEST(FailingDiskFileTest, AFileIsRemovedOrNot) {
  DiskChange change;
  change.prepare = WriteOld;
  change.attempt = [](const std::string& folder) { return RemoveDurably(folder + "/name"); };
  change.state = Contents;
  change.before = "name=old ";
  ExpectThreeOutcomes(change);
}

TEST(FailingDiskFileTest, FoldersAreMadeOrNot) {
  DiskChange change;
  change.attempt = [](const std::string& folder) { return MakeFolder(folder + "/a/b"); };
  // One of two may be there after an error; its name is durable then.
  change.state = [](const std::string& folder) {
    return std::filesystem::exists(folder + "/a/b") ? "made" : "not made";
  };
  change.before = "not made";
  change.after = "made";
  ExpectThreeOutcomes(change);
}

// After an unknown outcome nothing is changed until the folder can be synced; then the change that
// was made is known to be done.
TEST(FailingDiskFileTest, NothingGoesOnUntilItIsKnown) {
  const TemporaryFolder above(TemporaryFolder::InMemory());
  const std::string folder = above.path() + "/it";
  std::filesystem::create_directory(folder);
  DurableFolder names(folder);
  uint64_t num_unknown = 0;
  ForEachStep([&](uint64_t step) {
    WriteOld(folder);
    {
      FailingCalls calls(folder, FailingCalls::Failure{step, EIO, /*lasts=*/true});
      const absl::Status put = names.Put("name", "new");
      if (!calls.has_failed()) return false;
      const bool is_unknown = DiskOutcomeIsUnknown(put);
      num_unknown += is_unknown ? 1 : 0;
      EXPECT_FALSE(put.ok());
      EXPECT_EQ(names.Settle().ok(), !is_unknown);
      const absl::Status removed = names.Remove("name");
      EXPECT_FALSE(removed.ok());
      EXPECT_FALSE(DiskOutcomeIsUnknown(removed));
      calls.Stop();
      EXPECT_EQ(*ReadWhole(folder + "/name"), is_unknown ? "new" : "old");
    }
    EXPECT_TRUE(names.Settle().ok());
    EXPECT_TRUE(names.Put("name", "newer").ok());
    EXPECT_EQ(Contents(folder), "name=newer ");
    return true;
  });
  EXPECT_EQ(num_unknown, 1U);
}

}  // namespace
}  // namespace packhouse
