#include "client/cli/plots/gnuplot.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

TEST(GnuplotQuotedTest, OnlyTheQuoteIsSpecial) {
  EXPECT_EQ(GnuplotQuoted("a \"b\" `c` $d \\e"), "'a \"b\" `c` $d \\e'");
  EXPECT_EQ(GnuplotQuoted("it's\n\x01"), "'it''s  '");
  EXPECT_EQ(GnuplotQuoted(""), "''");
}

TEST(TicsTest, LinearTicsAreFewRoundAndGrouped) {
  EXPECT_EQ(LinearTics(0, 7),
            "('0' 0.0, '1' 1.0, '2' 2.0, '3' 3.0, '4' 4.0, '5' 5.0, '6' 6.0, "
            "'7' 7.0)");
  EXPECT_EQ(LinearTics(900, 2100),
            "('1,000' 1000.0, '1,200' 1200.0, '1,400' 1400.0, "
            "'1,600' 1600.0, '1,800' 1800.0, '2,000' 2000.0)");
}

TEST(TicsTest, LogarithmicTicsAreDenserOverFewDecades) {
  EXPECT_EQ(LogarithmicTics(1, 20), "('1' 1.0, '2' 2.0, '5' 5.0, '10' 10.0, '20' 20.0)");
  EXPECT_EQ(LogarithmicTics(1, 10000),
            "('1' 1.0, '10' 10.0, '100' 100.0, '1,000' 1000.0, '10,000' 10000.0)");
  EXPECT_EQ(LogarithmicTics(0.00004, 0.001),
            "('0.00005' 5e-05, '0.0001' 0.0001, '0.0002' 0.0002, '0.0005' 0.0005, '0.001' 0.001)");
}

TEST(LineColourTest, NeighboursDiffer) {
  for (std::size_t n = 0; n < 20; ++n) EXPECT_NE(LineColour(n), LineColour(n + 1));
}

class DrawWithGnuplotTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("gnuplot --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot";
  }
  const std::string path_ = absl::StrCat(testing::TempDir(), "/gnuplot_test_", getpid(), ".svg");
};

TEST_F(DrawWithGnuplotTest, APictureOfPanelsIsWritten) {
  const absl::StatusOr<std::string> head =
      BeginPicture({.path = path_, .title = "a title", .width = 300, .height = 200});
  ASSERT_TRUE(head.ok());
  const std::string panel =
      BeginPanel({.left = 0.1, .right = 0.9, .bottom = 0.1, .top = 0.8, .title = 0.9}, "a panel");
  testing::internal::CaptureStderr();
  const absl::Status status = DrawWithGnuplot(absl::StrCat(*head, panel, "plot x\n"), path_);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(status.ok()) << status;
  std::ifstream file(path_);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("a title"));
  EXPECT_THAT(text, HasSubstr("a panel"));
  EXPECT_THAT(text, HasSubstr("</svg>"));
  unlink(path_.c_str());
}

TEST_F(DrawWithGnuplotTest, AScriptThatFailsLeavesNoFileButGnuplotsWords) {
  const absl::Status status = DrawWithGnuplot("set terminal svg\nplot nonsense(\n", path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gnuplot failed: "));
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(DrawWithGnuplotTest, AFileThatCannotBeWrittenIsNamed) {
  const absl::Status status = DrawWithGnuplot("", "/nonexistent/a.svg");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()),
            "/nonexistent/a.svg: cannot write: No such file or directory");
}

}  // namespace
}  // namespace packhouse::client
