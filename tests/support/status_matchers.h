// Matchers for absl::Status, which Debian 12's abseil and GoogleTest lack.
#ifndef PACKHOUSE_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define PACKHOUSE_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// EXPECT_THAT(DoIt(), IsOk());
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return arg.ok();
}

// EXPECT_THAT(CountThem(), IsOkAndHolds(3));
MATCHER_P(IsOkAndHolds, value, "is OK and holds " + ::testing::PrintToString(value)) {
  *result_listener << StatusOf(arg).ToString();
  return arg.ok() && *arg == value;
}

// EXPECT_THAT(DoIt(), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("nodes 7")));
MATCHER_P2(StatusIs, code, message_matcher,
           "has code " + absl::StatusCodeToString(code) + " and a message that " +
               ::testing::DescribeMatcher<std::string>(message_matcher)) {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message_matcher, std::string(status.message()),
                                       result_listener);
}

}  // namespace packhouse

#define PH_ASSERT_OK_AND_ASSIGN(declaration, expression) \
  PH_ASSERT_OK_AND_ASSIGN_IMPL_(PH_TEST_CONCATENATE_(ph_value_, __LINE__), declaration, expression)
#define PH_ASSERT_OK_AND_ASSIGN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                          \
  ASSERT_TRUE(result.ok()) << result.status().ToString();              \
  declaration = *std::move(result)
#define PH_TEST_CONCATENATE_(a, b) PH_TEST_CONCATENATE_IMPL_(a, b)
#define PH_TEST_CONCATENATE_IMPL_(a, b) a##b

#endif  // PACKHOUSE_TESTS_SUPPORT_STATUS_MATCHERS_H_
