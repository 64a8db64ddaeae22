#include "service/base/command_line/json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace packhouse {
namespace {

TEST(JsonTextTest, MembersKeepTheOrder) {
  EXPECT_EQ(JsonText({{"b", "text"}, {"a", uint64_t{7}}, {"c", Json::array({0.25, true})}}),
            "{\n  \"b\": \"text\",\n  \"a\": 7,\n  \"c\": [\n    0.25,\n    true\n  ]\n}\n");
  EXPECT_EQ(JsonText(Json::object()), "{}\n");
  EXPECT_EQ(JsonText(Json::array()), "[]\n");
}

TEST(JsonTextTest, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(JsonText("a\"b\\c\n\x01\xC3\xA9"), "\"a\\\"b\\\\c\\n\\u0001\xC3\xA9\"\n");
  EXPECT_EQ(JsonText("a\xFFz"), "\"a\xEF\xBF\xBDz\"\n");
}

TEST(JsonTextTest, RealsComeBackAndOthersAreNull) {
  for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324, 0.99975}) {
    EXPECT_EQ(Json::parse(JsonText(value)).get<double>(), value);
  }
  EXPECT_EQ(JsonText(std::numeric_limits<double>::infinity()), "null\n");
  EXPECT_EQ(JsonText(std::numeric_limits<double>::quiet_NaN()), "null\n");
  EXPECT_EQ(JsonText(std::numeric_limits<uint64_t>::max()), "18446744073709551615\n");
}

}  // namespace
}  // namespace packhouse
