#include "service/wings/partition/files/number_lines.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

TEST(SplitNumberLineTest, FieldsAreWhatIsBetweenDelimiters) {
  struct Case {
    std::string line;
    char delimiter;
    std::vector<std::string> fields;
  };
  const std::vector<Case> cases = {
      {"1,2", ',', {"1", "2"}},
      {" 1 ,\t2\r", ',', {"1", "2"}},
      {"1,,2,", ',', {"1", "", "2", ""}},
      {",", ',', {"", ""}},
      {"\"1\",\"2\"", ',', {"1", "2"}},
      {"\"1,\"", ',', {"\"1", "\""}},
      {"\"\";\"", ';', {"", "\""}},
      {"1 2", ' ', {"1", "2"}},
      {"  1 \t 2 \r", ' ', {"1", "2"}},
      {"1\t2", '\t', {"1", "2"}},
      {"1 2", ',', {"1 2"}},
      {"7", ' ', {"7"}},
      {"", ',', {}},
      {" \t\r", ',', {}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(testing::PrintToString(each.line));
    std::vector<absl::string_view> fields = {"of the line before"};
    SplitNumberLine(each.line, each.delimiter, &fields);
    EXPECT_EQ(std::vector<std::string>(fields.begin(), fields.end()), each.fields);
    EXPECT_EQ(IsBlankLine(each.line), each.fields.empty());
  }
}

TEST(CountRowsTest, BlankLinesAreNone) {
  EXPECT_EQ(CountRows(""), 0U);
  EXPECT_EQ(CountRows("\n \r\n\t"), 0U);
  EXPECT_EQ(CountRows("1"), 1U);
  EXPECT_EQ(CountRows("1\n"), 1U);
  EXPECT_EQ(CountRows("1\n\n2\r\n  \n3"), 3U);
}

TEST(WithoutByteOrderMarkTest, OnlyTheFirstIsTaken) {
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB\xBF"
                                 "1\n"),
            "1\n");
  EXPECT_EQ(WithoutByteOrderMark("1\xEF\xBB\xBF"), "1\xEF\xBB\xBF");
}

TEST(NodeOfFieldTest, IsANumberBelowTheNodes) {
  EXPECT_THAT(NodeOfField("0", "source", 1), IsOkAndHolds(0U));
  EXPECT_THAT(NodeOfField("6", "source", 7), IsOkAndHolds(6U));
  const auto refused = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_THAT(NodeOfField("7", "source", 7), refused("source 7 is none of the 7 nodes"));
  EXPECT_THAT(NodeOfField("-1", "target", 7), refused("target -1 is none of the 7 nodes"));
  for (const std::string field : {"", "1x", "x", "+1", " 1", "9223372036854775808"}) {
    EXPECT_THAT(NodeOfField(field, "target", 7), refused("target: '" + field + "' is no int64"));
  }
}

}  // namespace
}  // namespace packhouse
