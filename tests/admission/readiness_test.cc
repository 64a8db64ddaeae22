#include "service/server/calls/readiness.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

TEST(ReadinessTest, ReadyIfNothingSaysWhyNot) {
  Readiness readiness;
  EXPECT_TRUE(readiness.is_ready());
  std::string disk;
  std::string lease;
  readiness.Add("disk", [&disk] { return disk; });
  readiness.Add("lease", [&lease] { return lease; });
  EXPECT_TRUE(readiness.is_ready());
  lease = "no lease";
  EXPECT_FALSE(readiness.is_ready());
  EXPECT_EQ(readiness.why_not(), "no lease");
  disk = "the disk is full";
  EXPECT_EQ(readiness.why_not(), "the disk is full\nno lease");
  lease.clear();
  EXPECT_EQ(readiness.why_not(), "the disk is full");
  const auto readings = readiness.Read();
  ASSERT_EQ(readings.size(), 2);
  EXPECT_EQ(readings[0].reason, "disk");
  EXPECT_EQ(readings[0].why_not, "the disk is full");
  EXPECT_EQ(readings[1].reason, "lease");
  EXPECT_EQ(readings[1].why_not, "");
}

}  // namespace
}  // namespace packhouse
