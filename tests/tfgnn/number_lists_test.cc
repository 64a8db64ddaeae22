#include "service/wings/tfgnn/number_lists.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"

namespace packhouse::tfgnn {
namespace {

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

TEST(ForEachVarintTest, GivesEveryValueOfEveryLength) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    std::vector<uint64_t> values(random.Below(100));
    std::string packed;
    for (uint64_t& value : values) {
      value = random.Next() >> random.Below(64);
      if (seed % 4 == 0) value %= 128;
      AppendVarint(value, &packed);
    }
    std::vector<uint64_t> got;
    EXPECT_TRUE(ForEachVarint(packed, [&](uint64_t value) { got.push_back(value); }));
    EXPECT_EQ(got, values) << seed;
    EXPECT_EQ(CountVarints(packed), values.size());
  }
}

TEST(ForEachVarintTest, ElevenBytesAreTooMany) {
  for (const size_t after : {0, 20}) {
    const std::string packed = std::string(10, '\xff') + '\x01' + std::string(after, '\x01');
    EXPECT_FALSE(ForEachVarint(packed, [](uint64_t) {}));
  }
  std::vector<uint64_t> got;
  EXPECT_TRUE(ForEachVarint(std::string(9, '\xff') + '\x01' + std::string(9, '\x02'),
                            [&](uint64_t value) { got.push_back(value); }));
  EXPECT_EQ(got.size(), 10U);
  EXPECT_EQ(got[0], ~uint64_t{0});
}

TEST(ForEachVarintTest, ALastOneThatIsCutOffIsNone) {
  // Alone, and behind whole ones; of less than a word, of one, and of more.
  for (const size_t before : {0, 3, 8, 11}) {
    for (const size_t bytes : {1, 7, 8, 9}) {
      std::vector<uint64_t> got;
      EXPECT_FALSE(ForEachVarint(std::string(before, '\x05') + std::string(bytes, '\xff'),
                                 [&](uint64_t value) { got.push_back(value); }));
      EXPECT_EQ(got, std::vector<uint64_t>(before, 5)) << before << " " << bytes;
    }
  }
}

TEST(IsValueOfTest, KnowsTheEnds) {
  EXPECT_TRUE(IsValueOf<int8_t>(static_cast<uint64_t>(-128)));
  EXPECT_FALSE(IsValueOf<int8_t>(static_cast<uint64_t>(-129)));
  EXPECT_TRUE(IsValueOf<int8_t>(127));
  EXPECT_FALSE(IsValueOf<int8_t>(128));
  EXPECT_FALSE(IsValueOf<uint32_t>(static_cast<uint64_t>(-1)));
  EXPECT_TRUE(IsValueOf<uint32_t>(0xffffffff));
  EXPECT_FALSE(IsValueOf<uint32_t>(0x100000000));
  EXPECT_TRUE(IsValueOf<uint64_t>(static_cast<uint64_t>(-1)));
}

// Rounding is to the nearest of all values: the slow way is to look at both neighbours.
TEST(SmallFloatsTest, EveryValueStaysAndWhatIsBetweenGoesToTheNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float value = FloatOfFloat16(static_cast<uint16_t>(bits));
    ASSERT_EQ(Float16Of(value), bits);
    ASSERT_EQ(Float16Of(-value), bits | 0x8000);
    if (bits == 0x7bff) break;
    const float next = FloatOfFloat16(static_cast<uint16_t>(bits + 1));
    const float middle = (value + next) / 2;
    ASSERT_EQ(Float16Of(middle), bits + (bits & 1));
    ASSERT_EQ(Float16Of(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(Float16Of(std::nextafter(middle, 1e9F)), bits + 1);
  }
  EXPECT_EQ(Float16Of(65519.99F), 0x7bff);
  EXPECT_EQ(Float16Of(65520.0F), 0x7c00);
  EXPECT_EQ(Float16Of(1e30F), 0x7c00);
  EXPECT_TRUE(std::isnan(FloatOfFloat16(Float16Of(std::nanf("")))));
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const float value = FloatOfBfloat16(static_cast<uint16_t>(bits));
    ASSERT_EQ(Bfloat16Of(value), bits);
    if (bits == 0x7f7f) break;
    const float next = FloatOfBfloat16(static_cast<uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(Bfloat16Of(middle), bits + (bits & 1));
  }
  EXPECT_TRUE(std::isnan(FloatOfBfloat16(Bfloat16Of(std::nanf("")))));
}

// Infinity is one value of each type; a NaN stays one whichever of its bits are lost.
TEST(SmallFloatsTest, InfinityAndNanStayWhatTheyAre) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float sign : {1.0F, -1.0F}) {
    const uint16_t half = sign < 0 ? 0xfc00 : 0x7c00;
    const uint16_t brain = sign < 0 ? 0xff80 : 0x7f80;
    EXPECT_EQ(Float16Of(sign * kInfinity), half);
    EXPECT_EQ(Float16Of(sign * 65536.0F), half);
    EXPECT_EQ(Float16Of(sign * 131072.0F), half);
    EXPECT_EQ(FloatOfFloat16(half), sign * kInfinity);
    EXPECT_EQ(Bfloat16Of(sign * kInfinity), brain);
    EXPECT_EQ(Bfloat16Of(sign * std::numeric_limits<float>::max()), brain);
    EXPECT_EQ(FloatOfBfloat16(brain), sign * kInfinity);
  }
  const float nan = std::bit_cast<float>(uint32_t{0x7f800001});
  EXPECT_TRUE(std::isnan(FloatOfFloat16(Float16Of(nan))));
  EXPECT_TRUE(std::isnan(FloatOfBfloat16(Bfloat16Of(nan))));
}

}  // namespace
}  // namespace packhouse::tfgnn
