#include "service/admission/log_line.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(JsonStringTest, EscapesWhatWouldEndALineOrAString) {
  EXPECT_EQ(JsonString("", 10), "\"\"");
  EXPECT_EQ(JsonString("plain", 10), "\"plain\"");
  EXPECT_EQ(JsonString("a\"b\\c", 10), R"("a\"b\\c")");
  EXPECT_EQ(JsonString(absl::string_view("\n\r\t\0\x1b\x7f", 6), 10),
            R"("\u000a\u000d\u0009\u0000\u001b\u007f")");
}

TEST(JsonStringTest, KeepsUtf8AndReplacesWhatIsNot) {
  for (const char* text : {"\u00e9", "\u20ac", "\U0001F600", "\uD7FF", "\uE000", "\U0010FFFF"}) {
    EXPECT_EQ(JsonString(text, 10), absl::StrCat("\"", text, "\""));
  }
  // Half a character, an overlong '/', a surrogate, above U+10FFFF, a lone continuation.
  EXPECT_EQ(JsonString("\xC3", 10), "\"\uFFFD\"");
  EXPECT_EQ(JsonString("a\xC3z", 10), "\"a\uFFFDz\"");
  EXPECT_EQ(JsonString("\xC0\xAF", 10), "\"\uFFFD\uFFFD\"");
  EXPECT_EQ(JsonString("\xED\xA0\x80", 10), "\"\uFFFD\uFFFD\uFFFD\"");
  EXPECT_EQ(JsonString("\xF4\x90\x80\x80", 10), "\"\uFFFD\uFFFD\uFFFD\uFFFD\"");
  EXPECT_EQ(JsonString("\x80", 10), "\"\uFFFD\"");
}

TEST(JsonStringTest, CutsBetweenCharacters) {
  EXPECT_EQ(JsonString("abcd", 4), "\"abcd\"");
  EXPECT_EQ(JsonString("abcde", 4), "\"abcd... (5 bytes)\"");
  EXPECT_EQ(JsonString("abc\u20ac", 4), "\"abc... (6 bytes)\"");
  EXPECT_EQ(JsonString("abc", 0), "\"... (3 bytes)\"");
  EXPECT_LT(JsonString(std::string(1 << 20, 'x'), 128).size(), 160);
}

// Whatever bytes come in, a string of one line comes out, in which every quote is escaped.
TEST(JsonStringTest, AnyBytesGiveOneString) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::string bytes;
    for (size_t i = random.Below(40); i > 0; --i) {
      bytes.push_back(static_cast<char>(random.Below(3) == 0 ? "\"\\\n\xC3\xE2\x82"[random.Below(6)]
                                                             : random.Below(256)));
    }
    const std::string json = JsonString(bytes, 30);
    ASSERT_GE(json.size(), 2);
    EXPECT_EQ(json.front(), '"');
    EXPECT_EQ(json.back(), '"');
    bool is_escaped = false;
    for (const char byte : json.substr(1, json.size() - 2)) {
      EXPECT_GE(static_cast<unsigned char>(byte), 0x20) << "seed " << seed;
      EXPECT_TRUE(byte != '"' || is_escaped) << "seed " << seed;
      is_escaped = byte == '\\' && !is_escaped;
    }
    EXPECT_FALSE(is_escaped) << "seed " << seed;
    // What is UTF-8 once stays as it is.
    EXPECT_EQ(JsonString("\uFFFD", 30), "\"\uFFFD\"");
  }
}

TEST(JsonMembersTest, WritesEachKindOfValue) {
  const std::string name(200, 'n');
  const std::string message(600, 'm');
  const std::string line =
      JsonMembers("it happened", {{"text", "a \"b\""},
                                  {"signed", -3},
                                  {"unsigned", std::numeric_limits<uint64_t>::max()},
                                  {"real", 0.5},
                                  {"no_number", std::numeric_limits<double>::infinity()},
                                  {"truth", true},
                                  {"milliseconds", absl::Microseconds(1500)},
                                  {"name", name},
                                  LogField::Message(message)});
  EXPECT_THAT(line, HasSubstr(R"("event":"it happened","text":"a \"b\"","signed":-3,)"
                              R"("unsigned":18446744073709551615,"real":0.5,"no_number":null,)"
                              R"("truth":true,"milliseconds":1.5,)"));
  EXPECT_THAT(line, HasSubstr(absl::StrCat("\"", std::string(128, 'n'), "... (200 bytes)\"")));
  EXPECT_THAT(line, HasSubstr(absl::StrCat("\"", std::string(512, 'm'), "... (600 bytes)\"")));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace packhouse
