#include "service/algorithms/collation/row_kernels.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

// More elements than any level takes at once, and what is left over.
constexpr size_t kMostElements = 70;
constexpr size_t kMostShift = 9;  // Of where rows begin.

std::string RandomBytes(Random& random, size_t n) {
  std::string bytes;
  for (size_t i = 0; i < n; ++i) bytes.push_back(static_cast<char>(random.Below(256)));
  return bytes;
}

template <typename T>
std::string Shifted(const std::string& from, uint64_t shift) {
  std::string to = from;
  for (size_t at = 0; at < from.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, from.data() + at, sizeof(T));
    value = static_cast<T>(value + shift);
    std::memcpy(to.data() + at, &value, sizeof(T));
  }
  return to;
}

// For any number of elements, begun anywhere: the sums, and not a byte beside them.
template <typename T>
void ExpectShifts() {
  Random random(sizeof(T));
  for (const VectorLevel level : VectorLevelsHere()) {
    const RowKernels::CopyShifted copy = RowKernelsOf(level).CopyShiftedOf(sizeof(T));
    for (size_t n = 0; n <= kMostElements; ++n) {
      const size_t bytes = n * sizeof(T);
      const size_t begin = random.Below(kMostShift);
      const uint64_t shift = random.Below(3) == 0 ? ~random.Below(1000) : random.Below(1 << 20);
      const std::string source = RandomBytes(random, kMostShift + bytes);
      const std::string from = source.substr(begin, bytes);
      const std::string before = RandomBytes(random, bytes + 2 * kMostShift);
      std::string to = before;
      copy(to.data() + begin, source.data() + begin, bytes, shift);
      EXPECT_EQ(to.substr(begin, bytes), Shifted<T>(from, shift))
          << VectorLevelName(level) << ", " << n << " elements of " << sizeof(T);
      EXPECT_EQ(to.substr(0, begin), before.substr(0, begin));
      EXPECT_EQ(to.substr(begin + bytes), before.substr(begin + bytes));
    }
  }
}

TEST(RowKernelsTest, AllLevelsShiftAlike) {
  ExpectShifts<uint8_t>();
  ExpectShifts<uint16_t>();
  ExpectShifts<uint32_t>();
  ExpectShifts<uint64_t>();
}

TEST(RowKernelsTest, AllLevelsFillAlike) {
  Random random(1);
  for (const VectorLevel level : VectorLevelsHere()) {
    for (size_t n = 0; n <= kMostElements; ++n) {
      const size_t begin = random.Below(kMostShift);
      const auto value = static_cast<uint32_t>(random.Below(uint64_t{1} << 32));
      const std::string before = RandomBytes(random, n * sizeof(value) + 2 * kMostShift);
      std::string expected = before;
      for (size_t i = 0; i < n; ++i) {
        std::memcpy(expected.data() + begin + i * sizeof(value), &value, sizeof(value));
      }
      std::string to = before;
      RowKernelsOf(level).fill_4(to.data() + begin, value, n);
      EXPECT_EQ(to, expected) << VectorLevelName(level) << ", " << n;
    }
  }
}

}  // namespace
}  // namespace packhouse
