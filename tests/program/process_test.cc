// What a server that starts says of its limits.
#include "service/program/process.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/program/options.h"
#include "tests/support/recorded_log.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

TEST(WarnOfMemoryLimitTest, OfWhatTheBudgetAndTheRestDoNotFit) {
  RecordedLog log;
  constexpr uint64_t kBudget = 1000;
  constexpr uint64_t kNeeded = 1150 + kBytesBesideBudget;
  WarnOfMemoryLimit(kBudget, std::nullopt, log);
  WarnOfMemoryLimit(kBudget, kNeeded, log);
  EXPECT_THAT(log.lines(), ElementsAre());
  WarnOfMemoryLimit(kBudget, kNeeded - 1, log);
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_THAT(log.lines()[0],
              ::testing::StartsWith(absl::StrCat(R"(warning "event":"memory limit","limit_bytes":)",
                                                 kNeeded - 1, R"(,"budget_bytes":)", kBudget,
                                                 R"(,"needed_bytes":)", kNeeded, ",")));
}

}  // namespace
}  // namespace packhouse
