#include "service/wings/partition/jobs/durable_files.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

TEST(DurableFilesTest, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/f";
  // Pieces below, at and above the buffer's size.
  std::string want;
  EXPECT_THAT(WriteDurably(path,
                           [&want](ByteSink& sink) {
                             for (const size_t size : {1, 1 << 20, 3, (1 << 20) - 4, 5 << 20, 7}) {
                               const std::string piece(size, static_cast<char>('a' + size % 26));
                               want += piece;
                               EXPECT_THAT(sink.Write(piece), IsOk());
                             }
                             return absl::OkStatus();
                           }),
              IsOk());
  PH_ASSERT_OK_AND_ASSIGN(MappedFile file, MappedFile::Open(path));
  EXPECT_EQ(file.bytes(), want);
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes(), want);
}

TEST(DurableFilesTest, ErrorsNameThePath) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/f";
  EXPECT_THAT(MappedFile::Open(path), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(MappedFile::Open(folder.path()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("is no file")));
  EXPECT_THAT(FileSink::Create(path), IsOk());
  EXPECT_THAT(FileSink::Create(path), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(path)));
  PH_ASSERT_OK_AND_ASSIGN(const MappedFile empty, MappedFile::Open(path));
  EXPECT_EQ(empty.bytes(), "");
}

TEST(DurableFilesTest, AFolderThatIsThereIsNotReplaced) {
  const TemporaryFolder folder;
  const std::string from = folder.path() + "/from";
  const std::string to = folder.path() + "/to";
  ASSERT_THAT(MakeFolder(from + "/below"), IsOk());
  ASSERT_THAT(MakeFolder(to + "/other"), IsOk());
  EXPECT_THAT(RenameDurably(from, to), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(to)));
  EXPECT_TRUE(PathExists(from + "/below"));
  ASSERT_THAT(RemoveFolder(to), IsOk());
  EXPECT_THAT(RemoveFolder(to), IsOk());
  EXPECT_THAT(RenameDurably(from, to), IsOk());
  EXPECT_TRUE(PathExists(to + "/below"));
  EXPECT_FALSE(PathExists(from));
}

}  // namespace
}  // namespace packhouse
