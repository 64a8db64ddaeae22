#include "service/base/file_name.h"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"
#include "service/base/disk_file.h"
#include "service/base/seeded_random.h"
#include "service/base/shared_memory.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

TEST(FileNameTest, PlainNamesAreTheirOwn) {
  for (const std::string name :
       {"item", "user:buys:item", "a.b", "x y", "#weight", "Größe", "日本", "-rf", "~", "a,b=c"}) {
    EXPECT_EQ(FileNameOf(name), name);
  }
  EXPECT_EQ(FileNameOf(std::string(kMaxFileNameBytes, 'x')), std::string(kMaxFileNameBytes, 'x'));
}

TEST(FileNameTest, OthersAreEscaped) {
  EXPECT_EQ(FileNameOf(""), "%");
  EXPECT_EQ(FileNameOf("."), "%2E");
  EXPECT_EQ(FileNameOf(".."), "%2E.");
  EXPECT_EQ(FileNameOf("../../x"), "%2E.%2F..%2Fx");
  EXPECT_EQ(FileNameOf("entity:/film/film/genre:entity"), "entity:%2Ffilm%2Ffilm%2Fgenre:entity");
  EXPECT_EQ(FileNameOf("100%"), "100%25");
  EXPECT_EQ(FileNameOf(std::string("a\0b\n", 4)), "a%00b%0A");
  EXPECT_EQ(FileNameOf("*?[]\\@3"), "%2A%3F%5B%5D%5C%403");
  // Python's test has the same.
  EXPECT_EQ(FileNameOf(std::string(300, '/')), [] {
    std::string begin;
    for (int i = 0; i < 55; ++i) begin += "%2F";
    return begin + "%-" + "094f3ce33c025998d1d35158af98bf66";
  }());
}

// Any two names of a world in which escapes, points and long texts meet.
TEST(FileNameTest, DifferentNamesHaveDifferentFilesOfOneComponent) {
  absl::flat_hash_map<std::string, std::string> name_of;
  const std::vector<std::string> pieces = {".",  "..", "/",    "%",    "%2F", "2F", "%-",
                                           "ab", "\\", "\xc3", "\xbc", "*",   "-",  "x"};
  SeededRandom random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string name;
    const uint64_t length = i % 10 == 0 ? 60 + random.Below(100) : random.Below(6);
    for (uint64_t p = 0; p < length; ++p) name += pieces[random.Below(pieces.size())];
    const std::string file = FileNameOf(name);
    ASSERT_TRUE(IsPathBelow(file)) << name;
    ASSERT_EQ(file.find('/'), std::string::npos);
    ASSERT_NE(file[0], '.');
    ASSERT_LE(file.size(), kMaxFileNameBytes);
    const auto [found, is_new] = name_of.emplace(file, name);
    ASSERT_EQ(found->second, name) << file;
  }
}

TEST(FileNameTest, PathsBelowAFolder) {
  for (const char* const path : {"a", "a/b", "..a/b..", "a/.b"}) EXPECT_TRUE(IsPathBelow(path));
  for (const char* const path : {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b"}) {
    EXPECT_FALSE(IsPathBelow(path)) << path;
  }
  EXPECT_FALSE(IsPathBelow(absl::string_view("a\0b", 3)));
}

TEST(DiskFileTest, FoldersAreThoseOfTheirPaths) {
  EXPECT_EQ(FolderOf("name"), ".");
  EXPECT_EQ(FolderOf("/name"), "/");
  EXPECT_EQ(FolderOf("/a/b/name"), "/a/b");
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  EXPECT_TRUE(MakeFolder("/").ok());
  for (const char* const name : {"/from", "/to"}) {
    EXPECT_TRUE(MakeFolder(folder.path() + name).ok());
  }
  EXPECT_TRUE(WriteWhole(folder.path() + "/from", "a", "it").ok());
  EXPECT_TRUE(RenameDurably(folder.path() + "/from/a", folder.path() + "/to/b").ok());
  EXPECT_EQ(ReadWhole(folder.path() + "/to/b").value_or(""), "it");
  EXPECT_TRUE(absl::IsNotFound(ReadWhole(folder.path() + "/from/a").status()));
  EXPECT_TRUE(absl::IsNotFound(RenameDurably(folder.path() + "/none/a", folder.path() + "/to/b")));
}

TEST(DiskFileTest, ErrorsSayWhatTheCallerDoesNext) {
  for (const int full : {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE}) {
    EXPECT_TRUE(absl::IsResourceExhausted(DiskStatus(full, "cannot", "/x"))) << full;
  }
  EXPECT_EQ(DiskStatus(ENOENT, "cannot open", "/x"),
            absl::NotFoundError("/x: cannot open: No such file or directory"));
  EXPECT_EQ(DiskStatus(EIO, "cannot read", "/x"),
            absl::UnavailableError("/x: cannot read: Input/output error"));
  // What is damaged stays so; all else may be tried again.
  EXPECT_TRUE(absl::IsDataLoss(UnknownOutcome(absl::DataLossError("x"))));
  const absl::Status unknown = UnknownOutcome(absl::NotFoundError("x"));
  EXPECT_TRUE(absl::IsUnavailable(unknown));
  EXPECT_TRUE(DiskOutcomeIsUnknown(unknown));
  EXPECT_EQ(UnknownOutcome(unknown), unknown);
}

TEST(SharedMemoryTest, IsAsItIsAskedFor) {
  for (const bool is_sealed : {false, true}) {
    auto made = SharedMemory::Create(0, {.least_file = 100, .is_sealed = is_sealed});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_GE(made->file(), 100);
    EXPECT_EQ(made->size(), 1U);
    EXPECT_EQ(made->data()[0], '\0');
    EXPECT_EQ(::fcntl(made->file(), F_GET_SEALS),
              is_sealed ? F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL : F_SEAL_SEAL);
    EXPECT_NE(::fcntl(made->file(), F_GETFD) & FD_CLOEXEC, 0);
    const int file = made->file();
    SharedMemory moved = *std::move(made);
    EXPECT_EQ(moved.file(), file);
    moved.CloseFile();
    EXPECT_EQ(moved.file(), -1);
    EXPECT_EQ(::fcntl(file, F_GETFD), -1);
    moved.data()[0] = 'x';
  }
}

}  // namespace
}  // namespace packhouse
