#include "client/cli/json.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

TEST(JsonTest, TextIsEscaped) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x01\xC3\xA9"), "\"a\\\"b\\\\c\\u000a\\u0001\xC3\xA9\"");
}

TEST(JsonTest, RealsComeBackAndOthersAreNull) {
  EXPECT_EQ(JsonReal(0.5), "0.5");
  EXPECT_EQ(std::stod(JsonReal(0.1)), 0.1);
  EXPECT_EQ(JsonReal(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(JsonReal(std::numeric_limits<double>::quiet_NaN()), "null");
}

TEST(JsonTest, ObjectsKeepTheOrder) {
  EXPECT_EQ(JsonObject()
                .Add("b", "text")
                .Add("a", uint64_t{7})
                .Add("c", 0.25)
                .Add("d", true)
                .AddJson("e", JsonArray({"1", "[]"}))
                .Render(),
            R"({"b": "text", "a": 7, "c": 0.25, "d": true, "e": [1, []]})");
  EXPECT_EQ(JsonObject().Render(), "{}");
}

TEST(JsonTest, LinesAreAnArrayToo) {
  EXPECT_EQ(JsonLines({}), "[]");
  EXPECT_EQ(JsonLines({"1", "2"}), "[\n  1,\n  2]");
}

}  // namespace
}  // namespace packhouse::client
