#include "service/base/command_line/table.h"

#include <vector>

#include "gtest/gtest.h"

namespace packhouse {
namespace {

TEST(TextTableTest, TheFirstColumnIsFlushLeftTheOthersRight) {
  TextTable table({{"name", ""}, {"packs", ""}, {"%", ""}});
  table.AddRow({"a longer name", "7", "98.78"});
  table.AddRow({"b", "123456"});
  EXPECT_EQ(table.Render(),
            "name            packs      %\n"
            "a longer name       7  98.78\n"
            "b              123456\n");
}

TEST(TextTableTest, AGroupStandsOverItsColumnsAndWidensThem) {
  TextTable table({{"", ""}, {"n", "efficiency"}, {"e", "efficiency"}, {"x", ""}});
  table.AddRow({"r", "1", "2", "3"});
  // The rest of a table that is shown as it grows.
  EXPECT_EQ(table.RenderBody(), "r        1  2  3\n");
  EXPECT_EQ(table.Render(),
            "   efficiency\n"
            "         n  e  x\n"
            "r        1  2  3\n");
}

TEST(TextTableTest, HeadingsSpanTheTable) {
  TextTable table(std::vector<TextTable::Column>{{"a", ""}});
  table.AddHeading("a heading that is long");
  table.AddRow({"1"});
  EXPECT_EQ(table.Render(), "a\na heading that is long\n1\n");
}

TEST(TextTableTest, WidthCountsCharactersNotBytes) {
  TextTable table({{"\xC3\xA9", ""}, {"b", ""}});
  table.AddRow({"1", "2"});
  EXPECT_EQ(table.Render(), "\xC3\xA9  b\n1  2\n");
}

TEST(PercentTest, HasTwoDecimals) {
  EXPECT_EQ(Percent(0.98776), "98.78");
  EXPECT_EQ(Percent(1), "100.00");
  EXPECT_EQ(Percent(0), "0.00");
}

TEST(PercentTest, OrMore) { EXPECT_EQ(Percent(0.99996, 3), "99.996"); }

TEST(SmallPercentTest, HasTwoDigitsHoweverSmall) {
  EXPECT_EQ(SmallPercent(0), "0 %");
  EXPECT_EQ(SmallPercent(0.000015), "0.0015 %");
  EXPECT_EQ(SmallPercent(0.00000044), "0.000044 %");
  EXPECT_EQ(SmallPercent(0.0053), "0.53 %");
  EXPECT_EQ(SmallPercent(0.0999), "10 %");
  EXPECT_EQ(SmallPercent(6.84), "684 %");
  EXPECT_EQ(SmallPercent(-0.0227), "-2.3 %");
}

TEST(GroupedTest, GroupsThreeDigits) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(~uint64_t{0}), "18,446,744,073,709,551,615");
}

}  // namespace
}  // namespace packhouse
