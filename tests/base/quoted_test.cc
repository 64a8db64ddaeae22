#include "service/base/quoted.h"

#include "gtest/gtest.h"

namespace packhouse {
namespace {

TEST(QuotedTest, EscapesAndCuts) {
  EXPECT_EQ(Quoted(""), "''");
  EXPECT_EQ(Quoted("a-name"), "'a-name'");
  EXPECT_EQ(Quoted("it's\n\x1b\xff"), "'it\\'s\\n\\x1b\\xff'");
  EXPECT_EQ(Quoted(std::string(128, 'x')), "'" + std::string(128, 'x') + "'");
  EXPECT_EQ(Quoted(std::string(129, 'x')), "'" + std::string(128, 'x') + "... (129 bytes)'");
  EXPECT_EQ(Quoted(std::string(1 << 20, '\0')).size(), 2 + 4 * 128 + 19);
}

}  // namespace
}  // namespace packhouse
