#include "client/graph/tfgnn/tfrecord_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::StartsWith;

class TfrecordFilesTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  absl::Status WriteRecords(const std::string& name,
                            const std::vector<std::string>& records) const {
    const absl::StatusOr<std::vector<std::string>> paths = FilesToWrite(Path(name));
    if (!paths.ok()) return paths.status();
    const absl::StatusOr<std::unique_ptr<TfrecordWriter>> writer = TfrecordWriter::Create(*paths);
    if (!writer.ok()) return writer.status();
    for (const std::string& record : records) {
      if (absl::Status status = (*writer)->Write(record); !status.ok()) return status;
    }
    return (*writer)->Finish();
  }
  // As `file number record`, and last the status.
  std::vector<std::string> Read(const std::vector<std::string>& names) const {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(Path(name));
    TfrecordReader reader(paths);
    std::vector<std::string> read;
    while (true) {
      const absl::StatusOr<std::optional<absl::string_view>> record = reader.Next();
      if (!record.ok()) read.push_back(record.status().ToString());
      if (!record.ok() || !*record) return read;
      read.push_back(absl::StrCat(reader.file().substr(folder_.path().size() + 1), " ",
                                  reader.record_of_file(), " ", **record));
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(TfrecordFilesTest, ShardsTakeTurnsAndRecordsKnowTheirFile) {
  ASSERT_THAT(WriteRecords("f@2", {"a", "b", "c"}), IsOk());
  ASSERT_THAT(WriteRecords("g.gz", {"d", "e"}), IsOk());
  ASSERT_THAT(WriteRecords("h.gz@1", {}), IsOk());
  EXPECT_THAT(Names(),
              ElementsAre("f-00000-of-00002", "f-00001-of-00002", "g.gz", "h.gz-00000-of-00001"));
  EXPECT_THAT(Read({"f-00000-of-00002", "h.gz-00000-of-00001", "g.gz", "f-00001-of-00002"}),
              ElementsAre("f-00000-of-00002 0 a", "f-00000-of-00002 1 c", "g.gz 0 d", "g.gz 1 e",
                          "f-00001-of-00002 0 b"));
  // By the ending, before the number of the shard.
  EXPECT_EQ(Content("f-00001-of-00002").substr(0, 1), "\x01");
  for (const char* name : {"g.gz", "h.gz-00000-of-00001"}) {
    EXPECT_EQ(Content(name).substr(0, 2), "\x1f\x8b") << name;
  }
}

TEST_F(TfrecordFilesTest, RecordsMayBeLongerThanABuffer) {
  const std::string most(3 << 20, 'x');
  ASSERT_THAT(WriteRecords("f.gz", {"a", most, "b"}), IsOk());
  EXPECT_THAT(Read({"f.gz"}), ElementsAre("f.gz 0 a", absl::StrCat("f.gz 1 ", most), "f.gz 2 b"));
}

TEST_F(TfrecordFilesTest, PatternsAreFilesShardsOrGlobs) {
  const std::string odd = Write("x@y", "");
  EXPECT_THAT(FilesOf(odd), IsOkAndHolds(std::vector<std::string>{odd}));
  const std::string first = Write("s-00000-of-00002", "");
  EXPECT_EQ(FilesOf(Path("s@2")).status(),
            absl::NotFoundError(
                absl::StrCat("'", Path("s@2"), "': ", Path("s-00001-of-00002"), " is not there")));
  const std::string second = Write("s-00001-of-00002", "");
  const std::vector<std::string> both = {first, second};
  EXPECT_THAT(FilesOf(Path("s@2")), IsOkAndHolds(both));
  EXPECT_THAT(FilesOf(Path("s-*")), IsOkAndHolds(both));
  EXPECT_THAT(FilesToWrite(Path("s@2")), IsOkAndHolds(both));
  EXPECT_EQ(FilesOf(Path("t-*")).status(),
            absl::NotFoundError(absl::StrCat("'", Path("t-*"), "': no such file")));
  // A folder may have any name.
  EXPECT_THAT(FilesToWrite("a@b/c"), IsOkAndHolds(std::vector<std::string>{"a@b/c"}));
  EXPECT_EQ(FilesToWrite("x@99999")->back(), "x-99998-of-99999");
  for (const char* name : {"x@0", "x@100000", "x@two", "x@", "x@-1"}) {
    const absl::Status refused = absl::InvalidArgumentError(absl::StrCat(
        "'", name, "': after the @ there must be the number of shards, from 1 to 99999"));
    EXPECT_EQ(FilesToWrite(name).status(), refused);
    EXPECT_EQ(FilesOf(name).status(), refused);
  }
}

TEST_F(TfrecordFilesTest, DamageIsNamedWhereItIs) {
  ASSERT_THAT(WriteRecords("plain", {"first", "second"}), IsOk());
  ASSERT_THAT(WriteRecords("packed.gz", {"first", std::string(1000, 'x')}), IsOk());
  const std::string plain = Content("plain");
  Write("plain", plain.substr(0, plain.size() - 1));
  const std::vector<std::string> read = Read({"plain"});
  ASSERT_EQ(read.size(), 2U);
  EXPECT_THAT(read[1], StartsWith(absl::StrCat("DATA_LOSS: ", Path("plain"), ": record 1 at ")));
  const std::string packed = Content("packed.gz");
  Write("packed.gz", packed.substr(0, packed.size() - 4));
  EXPECT_THAT(Read({"packed.gz"}).back(),
              AllOf(StartsWith(absl::StrCat("DATA_LOSS: ", Path("packed.gz"), ": ")),
                    EndsWith("unexpected end of file")));
  EXPECT_THAT(Read({"none"}), ElementsAre(absl::StrCat("NOT_FOUND: ", Path("none"),
                                                       ": No such file or directory")));
}

TEST_F(TfrecordFilesTest, WhatCannotBeWrittenIsNamedAndLeavesNothing) {
  // Folders stand in the way of the second shard.
  std::filesystem::create_directories(Path("f-00001-of-00002.part"));
  EXPECT_EQ(WriteRecords("f@2", {"a"}), absl::UnavailableError(absl::StrCat(
                                            Path("f-00001-of-00002.part"), ": Is a directory")));
  EXPECT_THAT(Names(), ElementsAre("f-00001-of-00002.part"));
  std::filesystem::create_directories(Path("g-00000-of-00002/x"));
  EXPECT_THAT(WriteRecords("g@2", {"a"}),
              StatusIs(absl::StatusCode::kUnavailable,
                       StartsWith(absl::StrCat(Path("g-00000-of-00002"), ": "))));
  EXPECT_THAT(Names(), ElementsAre("f-00001-of-00002.part", "g-00000-of-00002"));
}

}  // namespace
}  // namespace packhouse::client
