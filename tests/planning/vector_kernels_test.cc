#include "service/algorithms/planning/vector_kernels.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

constexpr size_t kMostElements = 130;
constexpr size_t kMostShift = 4;

int32_t RandomWorth(Random& random) {
  // Sums of two stay within 31 bits.
  constexpr int32_t kEdge = INT32_MAX / 2;
  switch (random.Below(4)) {
    case 0:
      return kEdge;
    case 1:
      return -kEdge;
    default:
      return static_cast<int32_t>(random.Below(2 * kEdge)) - kEdge;
  }
}

// Any sign and magnitude, zeros of both signs and denormals among them; no infinity, so that there
// is no NaN.
double RandomDouble(Random& random) {
  switch (random.Below(8)) {
    case 0:
      return 0.0;
    case 1:
      return -0.0;
    case 2:
      return std::numeric_limits<double>::denorm_min() * static_cast<double>(random.Below(1000));
    case 3:
      return 1e150 * static_cast<double>(random.Below(1000));
    default:
      return (static_cast<double>(random.Below(uint64_t{1} << 53)) - 4e15) / 1e15;
  }
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// A machine without a level must never get its instructions, whatever the results are.
TEST(VectorKernelsTest, EachLevelHasFunctionsOfItsOwn) {
  const VectorKernels plain = VectorKernelsOf(VectorLevel::kPlain);
  for (const VectorLevel level : VectorLevelsHere()) {
    const VectorKernels kernels = VectorKernelsOf(level);
    const bool is_plain = level == VectorLevel::kPlain;
    EXPECT_EQ(kernels.max_plus == plain.max_plus, is_plain);
    EXPECT_EQ(kernels.subtract_scaled == plain.subtract_scaled, is_plain);
  }
}

// At every length, aligned or not; arrays end where their memory ends, and what comes before `to`
// stays as it was.
TEST(VectorKernelsTest, MaxPlusOfEachLevelFollowsTheDefinition) {
  Random random(1);
  for (size_t n = 0; n <= kMostElements; ++n) {
    for (size_t shift = 0; shift < kMostShift; ++shift) {
      SCOPED_TRACE(testing::Message() << "n=" << n << " shift=" << shift);
      std::vector<int32_t> to(shift + n);
      std::vector<int32_t> from(kMostShift - shift + n);
      for (int32_t& worth : to) worth = RandomWorth(random);
      for (int32_t& worth : from) worth = RandomWorth(random);
      const int32_t added = RandomWorth(random);
      std::vector<int32_t> expected = to;
      for (size_t i = 0; i < n; ++i) {
        const int32_t sum = from[kMostShift - shift + i] + added;
        if (sum > expected[shift + i]) expected[shift + i] = sum;
      }
      for (const VectorLevel level : VectorLevelsHere()) {
        std::vector<int32_t> result = to;
        VectorKernelsOf(level).max_plus(result.data() + shift, from.data() + kMostShift - shift,
                                        added, n);
        EXPECT_EQ(result, expected) << VectorLevelName(level);
      }
    }
  }
}

TEST(VectorKernelsTest, SubtractScaledOfEachLevelFollowsTheDefinitionToTheBit) {
  Random random(2);
  for (size_t n = 0; n <= kMostElements; ++n) {
    for (size_t shift = 0; shift < kMostShift; ++shift) {
      SCOPED_TRACE(testing::Message() << "n=" << n << " shift=" << shift);
      std::vector<double> to(shift + n);
      std::vector<double> from(kMostShift - shift + n);
      for (double& value : to) value = RandomDouble(random);
      for (double& value : from) value = RandomDouble(random);
      const double factor = RandomDouble(random);
      std::vector<double> expected = to;
      for (size_t i = 0; i < n; ++i) {
        const double product = factor * from[kMostShift - shift + i];
        expected[shift + i] = expected[shift + i] - product;
      }
      for (const VectorLevel level : VectorLevelsHere()) {
        std::vector<double> result = to;
        VectorKernelsOf(level).subtract_scaled(result.data() + shift,
                                               from.data() + kMostShift - shift, factor, n);
        EXPECT_TRUE(SameBits(result, expected)) << VectorLevelName(level);
      }
    }
  }
}

// A fused multiply-add would see the 2^-60 that the product loses.
TEST(VectorKernelsTest, ProductsAreRoundedBeforeTheyAreSubtracted) {
  const double nearly_one = 1 + 0x1p-30;
  const double square = 1 + 0x1p-29;
  for (const VectorLevel level : VectorLevelsHere()) {
    std::vector<double> to(kMostElements, square);
    const std::vector<double> from(kMostElements, nearly_one);
    VectorKernelsOf(level).subtract_scaled(to.data(), from.data(), nearly_one, kMostElements);
    EXPECT_TRUE(SameBits(to, std::vector<double>(kMostElements, 0.0))) << VectorLevelName(level);
  }
}

}  // namespace
}  // namespace packhouse
