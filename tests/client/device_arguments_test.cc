#include "client/cli/device_arguments.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

std::string Refused(const DeviceArguments& arguments) {
  const absl::StatusOr<v1::DeviceProfile> profile = ParseDevice(arguments, {"nodes", "edges"});
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(profile.status().message());
}

TEST(ParseDeviceTest, OptionsMakeAProfileInTheHistogramsOrder) {
  const absl::StatusOr<v1::DeviceProfile> profile =
      ParseDevice({.max = {"graphs=256", "edges=1152", "nodes=512"},
                   .min = {"edges=100"},
                   .multiple_of = {"nodes=8"},
                   .cost = {"edges=0.5", "graphs=0"},
                   .fixed_cost = 2500,
                   .bytes_per = {"nodes=400", "edges=2KiB"},
                   .memory = "16GiB",
                   .fixed_bytes = "1MB",
                   .shapes = 3},
                  {"nodes", "edges"});
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->ShortDebugString(),
            "components { component: \"nodes\" max_rows: 512 multiple_of: 8 bytes_per_row: 400 } "
            "components { component: \"edges\" min_rows: 100 max_rows: 1152 bytes_per_row: 2048 "
            "relative_cost: 0.5 } "
            "components { component: \"graphs\" max_rows: 256 relative_cost: 0 } "
            "memory_bytes: 17179869184 fixed_bytes: 1000000 max_distinct_shapes: 3 "
            "fixed_cost: 2500");
}

TEST(ParseDeviceTest, EveryErrorNamesOptionAndValue) {
  const std::vector<std::string> max = {"nodes=512"};
  EXPECT_EQ(Refused({.max = {"nodes"}}),
            "--max 'nodes': must be COMPONENT=ROWS with a whole number of at least 1");
  EXPECT_EQ(Refused({.max = {"nodes=0"}}),
            "--max 'nodes=0': must be COMPONENT=ROWS with a whole number of at least 1");
  EXPECT_EQ(Refused({.max = {"faces=3"}}),
            "--max 'faces=3': the components are nodes, edges and graphs");
  EXPECT_EQ(Refused({.max = {"nodes=3", "nodes=4"}}),
            "--max 'nodes=4': 'nodes' has a value already");
  EXPECT_EQ(Refused({.max = max, .min = {"nodes=x"}}),
            "--min 'nodes=x': must be COMPONENT=ROWS with a whole number of at least 1");
  EXPECT_EQ(Refused({.max = max, .multiple_of = {"nodes=-8"}}),
            "--multiple-of 'nodes=-8': must be COMPONENT=ROWS with a whole number of at least 1");
  EXPECT_EQ(Refused({.max = max, .cost = {"nodes=-1"}}),
            "--cost 'nodes=-1': must be COMPONENT=COST with a number of at least 0");
  EXPECT_EQ(Refused({.max = max, .cost = {"nodes=inf"}}),
            "--cost 'nodes=inf': must be COMPONENT=COST with a number of at least 0");
  EXPECT_EQ(
      Refused({.max = max, .bytes_per = {"nodes=4 KiB"}}),
      "--bytes-per 'nodes=4 KiB': must be COMPONENT=BYTES with a whole number of bytes, as in "
      "400, 64KiB or 16GiB");
  EXPECT_EQ(Refused({.max = max, .memory = "much"}),
            "--memory 'much': must be a whole number of bytes, as in 400, 64KiB or 16GiB");
  EXPECT_EQ(Refused({.max = max, .memory = "0"}), "--memory '0': no batch fits into it");
  EXPECT_EQ(Refused({.max = max, .fixed_bytes = "-1"}),
            "--fixed-bytes '-1': must be a whole number of bytes, as in 400, 64KiB or 16GiB");
}

// Without a capacity to choose it would be ignored.
TEST(ParseDeviceTest, NothingIsSaidOfAComponentWithoutMax) {
  const std::vector<std::string> max = {"nodes=512"};
  EXPECT_EQ(Refused({.max = max, .min = {"edges=1"}}),
            "--min of 'edges': it has no --max, and so no capacity to choose");
  EXPECT_EQ(Refused({.max = max, .multiple_of = {"nodes=8", "graphs=8"}}),
            "--multiple-of of 'graphs': it has no --max, and so no capacity to choose");
  EXPECT_EQ(Refused({.max = max, .cost = {"edges=1"}}),
            "--cost of 'edges': it has no --max, and so no capacity to choose");
  EXPECT_EQ(Refused({.max = max, .bytes_per = {"edges=1"}}),
            "--bytes-per of 'edges': it has no --max, and so no capacity to choose");
}

TEST(ParseBytesTest, UnitsAreOf1024And1000) {
  const auto bytes = [](absl::string_view text) {
    uint64_t value = 0;
    EXPECT_TRUE(ParseBytes(text, value)) << text;
    return value;
  };
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("400"), 400);
  EXPECT_EQ(bytes("7B"), 7);
  EXPECT_EQ(bytes("3KiB"), 3072);
  EXPECT_EQ(bytes("3kB"), 3000);
  EXPECT_EQ(bytes("2MiB"), 2097152);
  EXPECT_EQ(bytes("16GiB"), 17179869184);
  EXPECT_EQ(bytes("2TB"), 2000000000000);
  EXPECT_EQ(bytes("18446744073709551615"), ~uint64_t{0});
}

TEST(ParseBytesTest, AnythingElseIsNone) {
  uint64_t value = 0;
  for (const char* const text : {"", "B", "GiB", "-1", "+1", "1.5GiB", "1 GiB", "1gib", "1e9",
                                 "18446744073709551616", "16777216TiB"}) {
    EXPECT_FALSE(ParseBytes(text, value)) << text;
  }
}

TEST(BytesTextTest, IsShort) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(75776000), "72.3 MiB");
  EXPECT_EQ(BytesText(~uint64_t{0}), "16.0 EiB");
}

}  // namespace
}  // namespace packhouse::client
