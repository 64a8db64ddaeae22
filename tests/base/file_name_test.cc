#include "service/base/file_name.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"

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

}  // namespace
}  // namespace packhouse
