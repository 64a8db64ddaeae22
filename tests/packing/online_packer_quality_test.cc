// How full the packs are, in percent of the volume bound, held against measured figures.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "service/packing/online_packer.h"
#include "service/planning/lower_bound.h"
#include "tests/packing/molecule_sizes.h"
#include "tests/packing/next_fit.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {
namespace {

Limits NodesAndEdges(uint64_t nodes, uint64_t edges) {
  return Limits::Create({nodes, edges, kUnlimited}).value();
}

// Packs that hold all the graphs, of `sizes`, if they could be cut at will.
uint64_t BoundOf(const std::vector<uint32_t>& sizes, const Limits& limits) {
  SizeHistogram histogram(2);
  for (size_t i = 0; i < sizes.size(); i += 2) {
    EXPECT_TRUE(histogram.Add(absl::MakeConstSpan(sizes).subspan(i, 2)).ok());
  }
  return ComputeVolumeBound(histogram, limits).packs;
}

double PercentOnline(const std::vector<uint32_t>& sizes, const Limits& limits, size_t look_ahead) {
  OnlinePackerOptions options;
  options.look_ahead = look_ahead;
  OnlinePacker packer = OnlinePacker::Create(limits, options).value();
  uint64_t packs = 0;
  for (size_t i = 0; i < sizes.size(); i += 2) {
    packs += packer.Push(absl::MakeConstSpan(sizes).subspan(i, 2), i, absl::UnixEpoch()).value();
  }
  while (packer.PackPending()) ++packs;
  return 100.0 * static_cast<double>(BoundOf(sizes, limits)) / static_cast<double>(packs);
}

double PercentNextFit(const std::vector<uint32_t>& sizes, const Limits& limits) {
  return 100.0 * static_cast<double>(BoundOf(sizes, limits)) /
         static_cast<double>(NextFit(sizes, limits).size());
}

TEST(OnlinePackerQualityTest, MoleculesInNaturalOrder) {
  const std::optional<std::vector<uint32_t>> sizes = ReadSizes("molhiv_all");
  if (!sizes) GTEST_SKIP() << "no sizes/molhiv_all.csv.gz in " << PACKHOUSE_SHARED_DATA;
  const Limits limits = NodesAndEdges(222, 502);
  EXPECT_NEAR(PercentNextFit(*sizes, limits), 92.99, 0.01);
  EXPECT_GE(PercentOnline(*sizes, limits, 16), 99.3);
  EXPECT_GE(PercentOnline(*sizes, limits, 64), 99.8);  // Measured: 99.915.
}

TEST(OnlinePackerQualityTest, ManyMoleculesInLargePacks) {
  const std::optional<std::vector<uint32_t>> sizes = ReadSizes("molpcba_train");
  if (!sizes) GTEST_SKIP() << "no sizes/molpcba_train.csv.gz in " << PACKHOUSE_SHARED_DATA;
  const Limits limits = NodesAndEdges(512, 1152);
  EXPECT_GE(PercentOnline(*sizes, limits, 64), 99.95);  // Measured: 99.994.
}

// Without any data from outside.
TEST(OnlinePackerQualityTest, SyntheticMolecules) {
  const Limits limits = NodesAndEdges(222, 502);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const std::vector<uint32_t> sizes = MoleculeSizes(30000, seed);
    EXPECT_LE(PercentNextFit(sizes, limits), 95) << seed;
    EXPECT_GE(PercentOnline(sizes, limits, 16), 98) << seed;
    EXPECT_GE(PercentOnline(sizes, limits, 64), 99.5) << seed;
  }
}

// More to choose from never hurts by much: where it should help, it does.
TEST(OnlinePackerQualityTest, LookingFurtherAheadPacksTighter) {
  const Limits limits = NodesAndEdges(222, 502);
  const std::vector<uint32_t> sizes = MoleculeSizes(30000, 4);
  double previous = PercentNextFit(sizes, limits) - 1e-9;
  for (const size_t look_ahead : {1, 2, 4, 8, 16, 32, 64}) {
    const double percent = PercentOnline(sizes, limits, look_ahead);
    EXPECT_GE(percent, previous) << "look_ahead " << look_ahead;
    previous = percent;
  }
}

}  // namespace
}  // namespace packhouse
