#include "service/access/security/static_tokens.h"

#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/security/small_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::security {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// printf abc | sha256sum
constexpr char kHashOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(StaticTokensTest, FindsWhoHasAToken) {
  EXPECT_EQ(HashOfToken("abc"), kHashOfAbc);
  PH_ASSERT_OK_AND_ASSIGN(
      const StaticTokens tokens,
      StaticTokens::Parse(absl::StrCat("# people\nalice ", kHashOfAbc, "  # since May\r\n\n\tbob\t",
                                       absl::AsciiStrToUpper(HashOfToken("b")), "\nbob ",
                                       HashOfToken("b2"))));
  EXPECT_EQ(tokens.size(), 3);
  EXPECT_EQ(*tokens.Find("abc"), "alice");
  EXPECT_EQ(*tokens.Find("b"), "bob");
  EXPECT_EQ(*tokens.Find("b2"), "bob");
  for (const std::string& none : {std::string(), std::string("abcd"), std::string(kHashOfAbc),
                                  std::string("abc\0", 4), std::string(100'000, 'x')}) {
    EXPECT_EQ(tokens.Find(none), nullptr);
  }
}

TEST(CheckPrincipalTest, HasNoBlankOfUnicodeAndNoControl) {
  for (const std::string& name : {std::string("a"), std::string(256, 'x'), std::string("J\u00f6rg"),
                                  std::string("\u1fff"), std::string("\u3001")}) {
    EXPECT_THAT(CheckPrincipal(name), IsOk()) << name;
  }
  for (const std::string name : {"", " ", "a b", "\u00a0", "\u1680", "\u2000", "\u2005", "\u200a",
                                 "\u202f", "\u205f", "\u3000", "a\x7f", "a\tb", "\xff"}) {
    EXPECT_EQ(CheckPrincipal(name).code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(CheckPrincipal("a" + name + "b").ok(), name.empty()) << name;
  }
  EXPECT_EQ(CheckPrincipal(std::string(257, 'x')).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReadSmallFileTest, HasABoundAndNoByteOrderMark) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  const auto read = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return ReadSmallFile(path);
  };
  EXPECT_THAT(read(""), IsOkAndHolds(std::string()));
  EXPECT_THAT(read("\xEF\xBB\xBF"
                   "a\n"),
              IsOkAndHolds(std::string("a\n")));
  EXPECT_THAT(read("a\xEF\xBB\xBF"), IsOkAndHolds(std::string("a\xEF\xBB\xBF")));
  const std::string most(kMostFileBytes, 'x');
  EXPECT_TRUE(read(most).value() == most);
  EXPECT_THAT(read(most + "x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
  EXPECT_THAT(ReadSmallFile(folder.path() + "/none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("cannot open")));
  EXPECT_FALSE(ReadSmallFile(folder.path()).ok());
}

TEST(StaticTokensTest, WrongLinesAreNamedAndNotRepeated) {
  for (const auto& [text, why] :
       {std::pair(absl::StrCat("\nalice ", std::string(kHashOfAbc).substr(1)),
                  "line 2: its second"),
        std::pair(absl::StrCat("alice ", std::string(kHashOfAbc).substr(1), "g"), "SHA-256"),
        std::pair(std::string("alice"), "line 1: it is not a principal and"),
        std::pair(absl::StrCat("a b ", kHashOfAbc), "line 1: it is not a principal and"),
        std::pair(absl::StrCat("a ", kHashOfAbc, "\nb ", absl::AsciiStrToUpper(kHashOfAbc)),
                  "line 2: its token is in an earlier line"),
        std::pair(absl::StrCat(std::string(257, 'x'), " ", kHashOfAbc), "principal"),
        std::pair(absl::StrCat("a ", HashOfToken("a"), "\nJ\xF6rg ", kHashOfAbc),
                  "line 2: it is not UTF-8"),
        std::pair(absl::StrCat("a\u00a0b ", kHashOfAbc), "without blanks and control"),
        std::pair(absl::StrCat("a\u202e ", kHashOfAbc), "without blanks and control"),
        // As a file that is about to be written.
        std::pair(std::string("# nobody\n"), "it has no token"),
        std::pair(std::string(), "it has no token")}) {
    const absl::Status status = StaticTokens::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("ba7816")));
  }
}

}  // namespace
}  // namespace packhouse::security
