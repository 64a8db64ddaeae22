#include "service/algorithms/planning/baselines/priority.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr PriorityKind kKinds[] = {PriorityKind::kProduct, PriorityKind::kSum, PriorityKind::kMax,
                                   PriorityKind::kMin, PriorityKind::kComponent};
// All a priority can tell apart.
constexpr PriorityValue kSaturated = PriorityValue{1} << 126;

PriorityFunction FunctionOf(const Priority& priority, const Limits& limits) {
  return PriorityFunction::Create(priority, limits).value();
}

// The priority of the sizes, which must be the same as a size tuple and as room.
uint64_t Evaluate(const Priority& priority, const Limits& limits,
                  const std::vector<uint32_t>& sizes) {
  const PriorityFunction function = FunctionOf(priority, limits);
  const PriorityValue value = function.Of(sizes);
  const std::vector<uint64_t> room(sizes.begin(), sizes.end());
  EXPECT_TRUE(function.Of(room) == value);
  EXPECT_TRUE(value <= UINT64_MAX);
  return static_cast<uint64_t>(value);
}

TEST(PriorityFunctionTest, Plain) {
  const Limits limits = LimitsOf({100, 100, 100, kUnlimited});
  const std::vector<uint32_t> sizes = {5, 3, 7};
  EXPECT_EQ(Evaluate({PriorityKind::kProduct, 0, {}}, limits, sizes), 105);
  EXPECT_EQ(Evaluate({PriorityKind::kSum, 0, {}}, limits, sizes), 15);
  EXPECT_EQ(Evaluate({PriorityKind::kMax, 0, {}}, limits, sizes), 7);
  EXPECT_EQ(Evaluate({PriorityKind::kMin, 0, {}}, limits, sizes), 3);
  EXPECT_EQ(Evaluate({PriorityKind::kComponent, 0, {}}, limits, sizes), 5);
  EXPECT_EQ(Evaluate({PriorityKind::kComponent, 2, {}}, limits, sizes), 7);
}

TEST(PriorityFunctionTest, Weighted) {
  const Limits limits = LimitsOf({100, 100, 100, kUnlimited});
  const std::vector<uint32_t> sizes = {5, 3, 7};
  const std::vector<uint32_t> weights = {2, 10, 1};
  EXPECT_EQ(Evaluate({PriorityKind::kProduct, 0, {2, 0, 1}}, limits, sizes), 25 * 7);
  EXPECT_EQ(Evaluate({PriorityKind::kSum, 0, weights}, limits, sizes), 10 + 30 + 7);
  EXPECT_EQ(Evaluate({PriorityKind::kMax, 0, weights}, limits, sizes), 30);
  EXPECT_EQ(Evaluate({PriorityKind::kMin, 0, weights}, limits, sizes), 7);
  EXPECT_EQ(Evaluate({PriorityKind::kMin, 0, {0, 1, 1}}, limits, sizes), 0);
  EXPECT_EQ(Evaluate({PriorityKind::kComponent, 1, weights}, limits, sizes), 3);
}

TEST(PriorityFunctionTest, OnlyComponentsWithALimitCount) {
  const Limits limits = LimitsOf({kUnlimited, 100, 100, 8});
  const std::vector<uint32_t> sizes = {1000, 3, 7};
  EXPECT_EQ(Evaluate({PriorityKind::kProduct, 0, {}}, limits, sizes), 21);
  EXPECT_EQ(Evaluate({PriorityKind::kSum, 0, {}}, limits, sizes), 10);
  EXPECT_EQ(Evaluate({PriorityKind::kMax, 0, {}}, limits, sizes), 7);
  EXPECT_EQ(Evaluate({PriorityKind::kMin, 0, {}}, limits, sizes), 3);
}

// With nothing but `graphs` limited, all sizes are alike.
TEST(PriorityFunctionTest, WithoutLimitedComponentsAllSizesAreAlike) {
  const Limits limits = LimitsOf({kUnlimited, kUnlimited, 8});
  for (const PriorityKind kind :
       {PriorityKind::kProduct, PriorityKind::kSum, PriorityKind::kMax, PriorityKind::kMin}) {
    EXPECT_EQ(Evaluate({kind, 0, {}}, limits, {0, 0}), Evaluate({kind, 0, {}}, limits, {9, 9}));
  }
}

// The law on which the planner's search rests: what fits in a room has no more priority than it.
TEST(PriorityFunctionTest, Monotone) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = random.Between(1, 6);
    // Also where values saturate.
    const uint64_t largest = random.Below(2) == 0 ? 20 : UINT32_MAX;
    std::vector<uint64_t> capacities;
    for (size_t k = 0; k < l; ++k) {
      capacities.push_back(random.Below(5) == 0 ? kUnlimited : largest);
    }
    capacities[random.Below(l)] = largest;
    capacities.push_back(kUnlimited);
    const Limits limits = LimitsOf(capacities);
    std::vector<uint32_t> small(l);
    std::vector<uint64_t> large(l);
    for (size_t k = 0; k < l; ++k) {
      large[k] = random.Between(0, largest);
      small[k] = static_cast<uint32_t>(random.Between(0, large[k]));
      if (random.Below(4) == 0) large[k] = small[k];
    }
    for (const PriorityKind kind : kKinds) {
      Priority priority = {kind, random.Below(l), {}};
      while (!limits.has_limit(priority.component)) priority.component = random.Below(l);
      if (random.Below(2) == 0) {
        const uint64_t most = kind == PriorityKind::kProduct ? 16 : UINT32_MAX;
        for (size_t k = 0; k < l; ++k) {
          priority.weights.push_back(static_cast<uint32_t>(random.Between(0, most)));
        }
      }
      const PriorityFunction function = FunctionOf(priority, limits);
      EXPECT_TRUE(function.Of(small) <= function.Of(large)) << "kind " << static_cast<int>(kind);
      EXPECT_TRUE(function.Of(large) <= kSaturated);
    }
    if (HasFailure()) return;
  }
}

TEST(PriorityFunctionTest, ExactUpTo126BitsThenSaturated) {
  const Limits limits = LimitsOf({kUnlimited - 1, kUnlimited - 1, kUnlimited});
  const auto product = [&](uint64_t a, uint64_t b, std::vector<uint32_t> weights) {
    const std::vector<uint64_t> room = {a, b};
    return FunctionOf({PriorityKind::kProduct, 0, std::move(weights)}, limits).Of(room);
  };
  constexpr uint64_t kLarge = uint64_t{1} << 63;
  EXPECT_TRUE(product(kLarge - 1, kLarge, {}) == PriorityValue{kLarge - 1} * kLarge);
  EXPECT_TRUE(product(kLarge, kLarge, {}) == kSaturated);
  EXPECT_TRUE(product(UINT64_MAX, UINT64_MAX, {16, 16}) == kSaturated);
  // A zero wins over saturation, wherever it stands.
  EXPECT_TRUE(product(UINT64_MAX, 0, {16, 1}) == 0);
  EXPECT_TRUE(product(0, UINT64_MAX, {1, 16}) == 0);
  const std::vector<uint64_t> huge = {UINT64_MAX - 1, UINT64_MAX - 1};
  EXPECT_TRUE(FunctionOf({PriorityKind::kSum, 0, {UINT32_MAX, UINT32_MAX}}, limits).Of(huge) ==
              PriorityValue{UINT64_MAX - 1} * UINT32_MAX * 2);
}

TEST(PriorityFunctionTest, WeightsMustSuitTheComponents) {
  const Limits limits = LimitsOf({10, 10, kUnlimited});
  for (const PriorityKind kind : kKinds) {
    EXPECT_THAT(
        PriorityFunction::Create({kind, 0, {1}}, limits),
        StatusIs(absl::StatusCode::kInvalidArgument, "priority: 1 weights for 2 components"));
    EXPECT_THAT(
        PriorityFunction::Create({kind, 0, {1, 1, 1}}, limits),
        StatusIs(absl::StatusCode::kInvalidArgument, "priority: 3 weights for 2 components"));
  }
  EXPECT_THAT(PriorityFunction::Create({PriorityKind::kProduct, 0, {1, 17}}, limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "priority: weight 17 of component number 1 as exponent of a product, at "
                       "most 16"));
  EXPECT_THAT(PriorityFunction::Create({PriorityKind::kProduct, 0, {1, 16}}, limits), IsOk());
  EXPECT_THAT(PriorityFunction::Create({PriorityKind::kSum, 0, {1, UINT32_MAX}}, limits), IsOk());
}

TEST(PriorityFunctionTest, TheComponentMustHaveALimit) {
  const Limits limits = LimitsOf({10, kUnlimited, 5});
  for (const size_t component : {1, 2, 3}) {
    EXPECT_THAT(
        PriorityFunction::Create({PriorityKind::kComponent, component, {}}, limits),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no limit or does not exist")));
  }
  EXPECT_THAT(PriorityFunction::Create({PriorityKind::kComponent, 0, {}}, limits), IsOk());
}

TEST(PriorityNameTest, Names) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  EXPECT_EQ(PriorityName({PriorityKind::kProduct, 0, {}}, schema), "product");
  EXPECT_EQ(PriorityName({PriorityKind::kSum, 0, {2, 1}}, schema), "sum weighted 2,1");
  EXPECT_EQ(PriorityName({PriorityKind::kMax, 0, {}}, schema), "max");
  EXPECT_EQ(PriorityName({PriorityKind::kMin, 0, {}}, schema), "min");
  EXPECT_EQ(PriorityName({PriorityKind::kComponent, 1, {}}, schema), "edges");
}

}  // namespace
}  // namespace packhouse
