#include "service/base/log_line.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/text_characters.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Utf8Of(char32_t code) {
  const auto byte = [](uint32_t bits) { return static_cast<char>(bits); };
  if (code < 0x80) return {byte(code)};
  const char last = byte(0x80 | (code & 0x3F));
  if (code < 0x800) return {byte(0xC0 | code >> 6), last};
  const char third = byte(0x80 | (code >> 6 & 0x3F));
  if (code < 0x10000) return {byte(0xE0 | code >> 12), third, last};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), third, last};
}

// UTF-16.
std::vector<uint32_t> HalvesOf(char32_t code) {
  if (code < 0x10000) return {code};
  return {0xD800 + (code - 0x10000) / 0x400, 0xDC00 + (code - 0x10000) % 0x400};
}

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

// For every character: it is shown as it is, or escaped if it is a control; and it can be read
// back.
TEST(JsonStringTest, EscapesEveryControlOfUnicode) {
  size_t num_escaped = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const std::string text = Utf8Of(code);
    ASSERT_EQ(CharacterBytes(text), text.size());
    ASSERT_EQ(CodePointOf(text), code);
    const std::string shown = JsonString(text, 10);
    const bool is_escaped = absl::StrContains(shown, "\\u");
    ASSERT_EQ(is_escaped, IsControl(code)) << static_cast<uint32_t>(code);
    if (!is_escaped) continue;
    ++num_escaped;
    std::string expected = "\"";
    for (const uint32_t half : HalvesOf(code)) absl::StrAppendFormat(&expected, "\\u%04x", half);
    ASSERT_EQ(shown, expected + "\"");
  }
  // Unicode 15.1: 65 of Cc, 170 of Cf, one each of Zl and Zp.
  EXPECT_EQ(num_escaped, 65u + 170u + 2u);
  // CSI, NEL, LS, PS, RLO, ZWSP, BOM, a tag, soft hyphen.
  for (const char32_t code : {0x9B, 0x85, 0x2028, 0x2029, 0x202E, 0x200B, 0xFEFF, 0xE0041, 0xAD}) {
    EXPECT_TRUE(IsControl(code));
  }
  for (const char32_t code : {0x20, 0xA0, 0xE9, 0x20AC, 0x1F600, 0x10FFFF, 0x2027, 0x202F}) {
    EXPECT_FALSE(IsControl(code));
  }
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
