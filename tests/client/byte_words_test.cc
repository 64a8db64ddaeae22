#include "client/graph/byte_words.h"

#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

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
  EXPECT_EQ(bytes("2TiB"), 2199023255552);
  EXPECT_EQ(bytes("3MB"), 3000000);
  EXPECT_EQ(bytes("3GB"), 3000000000);
  EXPECT_EQ(bytes("16777215TiB"), uint64_t{16777215} << 40);
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
  EXPECT_EQ(BytesText(1048575), "1024.0 KiB");
  EXPECT_EQ(BytesText(1048576), "1.0 MiB");
  EXPECT_EQ(BytesText(75776000), "72.3 MiB");
  EXPECT_EQ(BytesText(uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(BytesText(uint64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(BytesText(uint64_t{3} << 50), "3.0 PiB");
  EXPECT_EQ(BytesText(~uint64_t{0}), "16.0 EiB");
}

TEST(RateTextTest, IsInMegabytes) { EXPECT_EQ(RateText(31'460'000), "31.5 MB/s"); }

}  // namespace
}  // namespace packhouse::client
