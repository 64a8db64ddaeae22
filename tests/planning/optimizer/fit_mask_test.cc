#include "service/algorithms/planning/optimizer/fit_mask.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "gtest/gtest.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

// Values around which signed and unsigned comparisons part.
constexpr uint32_t kEdges[] = {0,          1,          2,          0x7ffffffe, 0x7fffffff,
                               0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};

uint32_t RandomSize(Random& random) {
  switch (random.Below(3)) {
    case 0:
      return kEdges[random.Below(std::size(kEdges))];
    case 1:
      return static_cast<uint32_t>(random.Below(100));
    default:
      return static_cast<uint32_t>(random.Next());
  }
}

// The definition, item by item.
uint64_t ExpectedMask(const uint32_t* block, const uint32_t* room, size_t l) {
  uint64_t mask = 0;
  for (size_t i = 0; i < kFitBlock; ++i) {
    bool fits = true;
    for (size_t k = 0; k < l; ++k) fits = fits && block[k * kFitBlock + i] <= room[k];
    if (fits) mask |= uint64_t{1} << i;
  }
  return mask;
}

// Blocks end where their memory ends, so that a sanitizer sees who reads too much.
TEST(FitMaskTest, EachLevelFollowsTheDefinition) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = random.Below(8);
    const size_t shift = random.Below(16);
    std::vector<uint32_t> block(shift + l * kFitBlock);
    std::vector<uint32_t> room(l);
    for (uint32_t& size : block) size = RandomSize(random);
    // Mostly large rooms: of seven components one too small is enough for an empty mask.
    for (uint32_t& rows : room) rows = random.Below(3) == 0 ? RandomSize(random) : 0xfffffffe;
    const uint64_t expected = ExpectedMask(block.data() + shift, room.data(), l);
    for (const VectorLevel level : VectorLevelsHere()) {
      EXPECT_EQ(FitMaskOf(level)(block.data() + shift, room.data(), l), expected)
          << VectorLevelName(level);
    }
    if (HasFailure()) return;
  }
}

TEST(FitMaskTest, EdgesAgainstEdges) {
  for (const uint32_t size : kEdges) {
    for (const uint32_t room : kEdges) {
      for (size_t i = 0; i < kFitBlock; ++i) {
        std::vector<uint32_t> block(kFitBlock, size > 0 ? 0 : 1);
        block[i] = size;
        for (const VectorLevel level : VectorLevelsHere()) {
          const uint64_t mask = FitMaskOf(level)(block.data(), &room, 1);
          EXPECT_EQ(mask >> i & 1, size <= room ? 1 : 0)
              << size << " in " << room << ", " << VectorLevelName(level);
        }
      }
    }
  }
}

TEST(FitMaskTest, EverythingFitsWithoutComponents) {
  for (const VectorLevel level : VectorLevelsHere()) {
    EXPECT_EQ(FitMaskOf(level)(nullptr, nullptr, 0), ~uint64_t{0}) << VectorLevelName(level);
  }
}

TEST(VectorLevelTest, NamesAndOrder) {
  EXPECT_EQ(VectorLevelName(VectorLevel::kPlain), "plain");
  EXPECT_EQ(VectorLevelName(VectorLevel::kAvx2), "avx2");
  EXPECT_EQ(VectorLevelName(VectorLevel::kAvx512), "avx512");
  EXPECT_EQ(BestVectorLevel(), VectorLevelsHere().back());
}

}  // namespace
}  // namespace packhouse
