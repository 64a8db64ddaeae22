#include "service/algorithms/planning/feedback/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/planning/feedback/measured_shapes.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

// In [-1, 1].
double Wobble(Random& random) { return static_cast<double>(random.Below(2001)) / 1000 - 1; }

// seconds = 2 ms + 3 us a node + 1 us an edge.
double Hidden(const std::vector<uint64_t>& capacities) {
  return 2e-3 + 3e-6 * static_cast<double>(capacities[0]) +
         1e-6 * static_cast<double>(capacities[1]);
}

std::vector<CostPoint> PointsOf(Random& random, size_t n, double noise) {
  std::vector<CostPoint> points;
  for (size_t i = 0; i < n; ++i) {
    const std::vector<uint64_t> capacities = {random.Between(100, 4000), random.Between(200, 9000),
                                              random.Between(1, 200)};
    points.push_back({capacities, Hidden(capacities) * (1 + noise * Wobble(random)), 1});
  }
  return points;
}

TEST(CostFitTest, FindsHiddenConstantsInNoise) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const CostFit fit = FitCost(PointsOf(random, 24, 0.05));
    EXPECT_NEAR(fit.fixed, 2e-3, 1e-3);
    EXPECT_NEAR(fit.per_row[0], 3e-6, 4e-7);
    EXPECT_NEAR(fit.per_row[1], 1e-6, 2e-7);
    EXPECT_EQ(fit.least, 0);
    EXPECT_LT(fit.spread, 0.06);
  }
}

// A fifth of the points is up to ten times too slow.
TEST(CostFitTest, OutliersHardlyMoveIt) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    std::vector<CostPoint> points = PointsOf(random, 30, 0.02);
    for (size_t i = 0; i < points.size(); i += 5) {
      points[i].value *= static_cast<double>(random.Between(3, 10));
    }
    const CostFit fit = FitCost(points);
    for (size_t i = 0; i < points.size(); ++i) {
      const double truth = Hidden(points[i].capacities);
      EXPECT_NEAR(fit.ValueOf(points[i].capacities), truth, 0.15 * truth);
    }
  }
}

// Whatever the points are, no coefficient is negative, and more rows never cost less.
TEST(CostFitTest, IsNeverNegative) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    std::vector<CostPoint> points;
    const size_t n = 1 + random.Below(20);
    for (size_t i = 0; i < n; ++i) {
      points.push_back({{random.Below(1000), random.Below(1000), random.Below(3)},
                        1e-6 * static_cast<double>(1 + random.Below(1'000'000)),
                        1});
    }
    const CostFit fit = FitCost(points);
    EXPECT_GE(fit.fixed, 0);
    EXPECT_GE(fit.least, 0);
    for (const double each : fit.per_row) {
      EXPECT_GE(each, 0);
      EXPECT_TRUE(std::isfinite(each));
    }
  }
}

// All shapes in one proportion: components cannot be told apart, the constant can.
TEST(CostFitTest, CollinearShapesAreDividedAndAddUp) {
  std::vector<CostPoint> points;
  for (const uint64_t times : {10, 14, 20, 30}) {
    const std::vector<uint64_t> capacities = {100 * times, 250 * times, 4 * times};
    points.push_back({capacities, Hidden(capacities), 1});
  }
  const CostFit fit = FitCost(points);
  for (const uint64_t times : {5, 40, 60}) {
    const std::vector<uint64_t> capacities = {100 * times, 250 * times, 4 * times};
    EXPECT_NEAR(fit.ValueOf(capacities), Hidden(capacities), 0.05 * Hidden(capacities));
  }
}

TEST(CostFitTest, OneShapeIsDividedEvenly) {
  const CostFit fit = FitCost(std::vector<CostPoint>{{{1000, 2000, 10}, 9e-3, 1}});
  EXPECT_NEAR(fit.fixed, 3e-3, 2e-4);
  EXPECT_NEAR(fit.per_row[0] * 1000, 3e-3, 2e-4);
  EXPECT_NEAR(fit.per_row[1] * 2000, 3e-3, 2e-4);
  EXPECT_NEAR(fit.ValueOf({1000, 2000, 10}), 9e-3, 1e-4);
}

TEST(CostFitTest, FindsAKnee) {
  Random random(7);
  std::vector<CostPoint> points;
  for (uint64_t nodes = 100; nodes <= 6000; nodes += 300) {
    const double value = std::max(4e-3, 2e-6 * static_cast<double>(nodes));
    points.push_back({{nodes, nodes}, value * (1 + 0.01 * Wobble(random)), 1});
  }
  const CostFit fit = FitCost(points);
  EXPECT_NEAR(fit.least, 4e-3, 2e-4);
  EXPECT_NEAR(fit.ValueOf({6000, 6000}), 12e-3, 1e-3);
  EXPECT_NEAR(fit.ValueOf({200, 200}), 4e-3, 2e-4);
}

TEST(CostFitTest, OfNothingIsNothing) { EXPECT_TRUE(FitCost({}).per_row.empty()); }

BatchObservation Observed(std::vector<uint64_t> capacities, double seconds, uint64_t bytes) {
  BatchObservation observation;
  observation.capacities = std::move(capacities);
  observation.seconds = seconds;
  observation.peak_bytes = bytes;
  return observation;
}

BatchObservation TooLarge(std::vector<uint64_t> capacities) {
  BatchObservation observation;
  observation.capacities = std::move(capacities);
  observation.out_of_memory = true;
  return observation;
}

TEST(MeasuredShapesTest, TakesBoundedMemoryAndKeepsTheExtremes) {
  Random random(1);
  MeasuredShapes shapes;
  shapes.Add(Observed({1, 1, 1}, 1, 1));
  shapes.Add(Observed({1'000'000, 1'000'000, 1000}, 1, 1));
  for (int i = 0; i < 5000; ++i) {
    shapes.Add(Observed({random.Between(2, 9000), random.Between(2, 9000), random.Between(2, 99)},
                        0.1, 5));
    if (i % 7 == 0) shapes.Add(TooLarge({random.Between(10'000, 20'000), 2'000'000, 5}));
    ASSERT_LE(shapes.shapes().size(), MeasuredShapes::kMaxShapes);
  }
  EXPECT_EQ(shapes.shapes().front().capacities, (std::vector<uint64_t>{1, 1, 1}));
  EXPECT_EQ(shapes.shapes().back().capacities, (std::vector<uint64_t>{1'000'000, 1'000'000, 1000}));
  EXPECT_EQ(shapes.num_reports(), 5000 + 2 + 715);
}

TEST(MeasuredShapesTest, AFewSlowBatchesDoNotMoveAShape) {
  MeasuredShapes shapes;
  for (const double seconds : {0.1, 9.0, 0.1, 0.1, 7.0, 0.1}) {
    shapes.Add(Observed({10, 10, 1}, seconds, 0));
  }
  EXPECT_EQ(shapes.shapes()[0].MedianSeconds(), 0.1);
}

TEST(MeasuredShapesTest, ABatchThatFitsCorrectsOneThatDidNot) {
  MeasuredShapes shapes;
  shapes.Add(TooLarge({100, 100, 1}));
  shapes.Add(TooLarge({201, 90, 1}));
  EXPECT_EQ(shapes.shapes().size(), 2);
  shapes.Add(Observed({200, 200, 1}, 1, 1000));
  ASSERT_EQ(shapes.shapes().size(), 2);
  EXPECT_TRUE(shapes.shapes()[0].fits());
  // It is no smaller.
  EXPECT_EQ(shapes.shapes()[1], (MeasuredShape{{201, 90, 1}, 1, 1, 0, 2, {}}));
  EXPECT_EQ(shapes.num_out_of_memory(), 2);
}

// Of one shape: all batches, the most bytes, and the latest times.
TEST(MeasuredShapesTest, OfAShapeTheLatestTimesAreKept) {
  MeasuredShapes shapes;
  shapes.Add(Observed({10, 10, 1}, 0, 0));  // Says nothing.
  EXPECT_TRUE(shapes.shapes().empty());
  for (uint64_t i = 1; i <= 11; ++i) {
    BatchObservation observation = Observed({10, 10, 1}, static_cast<double>(i), i == 3 ? 70 : 50);
    observation.num_batches = 4;
    shapes.Add(observation);
  }
  shapes.Add(Observed({10, 10, 1}, 0, 60));  // No time.
  ASSERT_EQ(shapes.shapes().size(), 1);
  EXPECT_EQ(shapes.shapes()[0],
            (MeasuredShape{{10, 10, 1}, 45, 0, 70, 13, {3, 4, 5, 6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(shapes.shapes()[0].MedianSeconds(), 7);
  EXPECT_EQ((MeasuredShape{{1}, 2, 0, 0, 1, {4, 1}}).MedianSeconds(), 2.5);
  EXPECT_EQ(shapes.num_reports(), 13);
  BatchObservation too_large = TooLarge({30, 30, 1});
  too_large.num_batches = 5;
  shapes.Add(too_large);
  EXPECT_EQ(shapes.num_out_of_memory(), 5);
  EXPECT_EQ(
      MeasuredShapes::Restore(shapes.shapes(), shapes.num_reports(), shapes.num_out_of_memory()),
      shapes);
}

// Too many shapes: what was seen least of late goes, but for the extremes.
TEST(MeasuredShapesTest, WhatWasSeenLeastOfLateGoes) {
  const auto first_nodes = [](const MeasuredShapes& shapes) {
    std::vector<uint64_t> nodes;
    for (const MeasuredShape& shape : shapes.shapes()) nodes.push_back(shape.capacities[0]);
    return nodes;
  };
  MeasuredShapes fitting;
  std::vector<uint64_t> kept;
  for (uint64_t i = 1; i <= MeasuredShapes::kMaxShapes + 1; ++i) {
    if (i == MeasuredShapes::kMaxShapes + 1) fitting.Add(Observed({2, 2, 1}, 1, 1));
    fitting.Add(Observed({i, i, 1}, 1, 1));
    if (i != 3) kept.push_back(i);
  }
  EXPECT_EQ(first_nodes(fitting), kept);

  MeasuredShapes too_large;
  kept.clear();
  for (uint64_t i = 1; i <= MeasuredShapes::kMaxTooLarge + 1; ++i) {
    too_large.Add(TooLarge({i, 100 - i, 1}));
    if (i != 1) kept.push_back(i);
  }
  EXPECT_EQ(first_nodes(too_large), kept);
}

TEST(MeasuredShapesTest, OfThoseThatAreTooLargeTheSmallestStay) {
  MeasuredShapes shapes;
  shapes.Add(TooLarge({20, 100, 1}));
  shapes.Add(TooLarge({30, 50, 1}));
  shapes.Add(TooLarge({40, 40, 1}));
  shapes.Add(TooLarge({10, 100, 1}));
  ASSERT_EQ(shapes.shapes().size(), 3);
  EXPECT_EQ(shapes.shapes()[0].capacities, (std::vector<uint64_t>{10, 100, 1}));
  EXPECT_EQ(shapes.shapes()[1].capacities, (std::vector<uint64_t>{30, 50, 1}));
  EXPECT_EQ(shapes.shapes()[2].capacities, (std::vector<uint64_t>{40, 40, 1}));
}

const std::vector<std::string>& Names() {
  static const auto& names = *new std::vector<std::string>{"edges", "nodes", "graphs"};
  return names;
}

// No batch takes more than the bound says, whatever the hidden constants are.
TEST(MeasuredModelTest, BytesAreAnUpperBound) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const std::vector<uint64_t> per_row = {random.Below(900), random.Below(900), random.Below(900)};
    const uint64_t fixed = random.Below(5'000'000);
    const auto bytes_of = [&](const std::vector<uint64_t>& capacities) {
      uint64_t bytes = fixed + 1;
      for (size_t k = 0; k < 3; ++k) bytes += per_row[k] * capacities[k];
      return bytes;
    };
    MeasuredShapes shapes;
    for (size_t i = 1 + random.Below(6); i > 0; --i) {
      const std::vector<uint64_t> capacities = {random.Between(100, 5000),
                                                random.Between(100, 5000), random.Between(1, 50)};
      shapes.Add(Observed(capacities, 0.1, bytes_of(capacities)));
    }
    const MeasuredModel model = FitModel(Names(), shapes);
    EXPECT_LE(model.bounds.fixed_bytes, fixed + 1);
    for (int i = 0; i < 50; ++i) {
      const std::vector<uint64_t> capacities = {
          random.Between(100, 20'000), random.Between(100, 20'000), random.Between(1, 200)};
      EXPECT_GE(model.bounds.BytesOf(capacities) + 1, bytes_of(capacities));
    }
  }
}

// Two shapes in one proportion tell the constant: the bound is then tight along it.
TEST(MeasuredModelTest, BytesAreTightAlongAProportion) {
  MeasuredShapes shapes;
  for (const uint64_t times : {10, 20}) {
    shapes.Add(Observed({100 * times, 50 * times, times}, 0.1, 40'000'000 + 1'000'000 * times));
  }
  const MeasuredModel model = FitModel(Names(), shapes);
  EXPECT_NEAR(static_cast<double>(model.bounds.BytesOf({4000, 2000, 40})), 80e6, 1.5e6);
}

TEST(MeasuredModelTest, WhatDidNotFitIsNotChosen) {
  MeasuredShapes shapes;
  shapes.Add(Observed({1000, 1000, 10}, 0.1, 1'000'000));
  shapes.Add(TooLarge({1800, 1800, 18}));
  const MeasuredModel model = FitModel(Names(), shapes);
  EXPECT_TRUE(model.bounds.MayFit({1000, 1000, 10}));
  EXPECT_FALSE(model.bounds.MayFit({1800, 1800, 18}));
  EXPECT_FALSE(model.bounds.MayFit({1790, 1800, 18}));
  EXPECT_FALSE(model.bounds.MayFit({9000, 1800, 18}));
}

// Then what is tried next is half as large, and not one row smaller.
TEST(MeasuredModelTest, WhereNothingIsKnownToFitTheNextIsHalf) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  DeviceProfile profile;
  profile.components.resize(3);
  for (ComponentProfile& component : profile.components) component.max_rows = 100'000;
  MeasuredShapes shapes;
  shapes.Add(TooLarge({1000, 800, 60}));
  const auto measured = WithMeasured(profile, schema, FitModel(Names(), shapes));
  ASSERT_TRUE(measured.has_value());
  EXPECT_TRUE(FitsMemory(*measured, {399, 999, 59}));
  EXPECT_FALSE(FitsMemory(*measured, {400, 500, 30}));
  EXPECT_THAT(CheckDeviceProfile(*measured, schema), testing::Property(&absl::Status::ok, true));
}

// The declared bytes are replaced as a whole; a bound of them stays, or it is what fitted.
TEST(MeasuredModelTest, TheBoundIsTheProfilesOrWhatFitted) {
  DeviceProfile profile;
  profile.components = {{1, 100'000, 1, 7, 1}, {1, 100'000, 1, 8, 1}, {1, 0, 1, 9, 0}};
  profile.fixed_bytes = 5;
  MeasuredShapes shapes;
  shapes.Add(Observed({1000, 800, 10}, 0.1, 1'000'000));
  shapes.Add(TooLarge({4000, 3200, 40}));
  const MeasuredModel model = FitModel(Names(), shapes);
  EXPECT_GT(model.bounds.most_bytes, 1'000'000);
  for (const uint64_t memory_bytes : {uint64_t{0}, uint64_t{900'000}, UINT64_MAX - 1}) {
    profile.memory_bytes = memory_bytes;
    const auto measured = WithMeasured(profile, SizeSchema::NodesAndEdges(), model);
    ASSERT_TRUE(measured.has_value());
    EXPECT_EQ(measured->memory_bytes, 0);
    EXPECT_EQ(measured->fixed_bytes, 0);
    for (const ComponentProfile& component : measured->components) {
      EXPECT_EQ(component.bytes_per_row, 0);
    }
    const MeasuredBytes& bytes = *measured->measured_bytes;
    EXPECT_EQ(bytes.most_bytes, memory_bytes == 0
                                    ? uint64_t{1'000'000}
                                    : std::min(memory_bytes, model.bounds.most_bytes));
    // In the profile's order.
    ASSERT_EQ(bytes.fitted.size(), 1);
    EXPECT_EQ(bytes.fitted[0].capacities, (std::vector<uint64_t>{800, 1000, 10}));
    EXPECT_EQ(bytes.fitted[0].bytes, 1'000'000);
    EXPECT_EQ(bytes.too_large, (std::vector<std::vector<uint64_t>>{{3200, 4000, 40}}));
    EXPECT_EQ(bytes.fixed_bytes, model.bounds.fixed_bytes);
  }
}

// Same observations, same model, on every machine and in every build: who makes it learn otherwise
// has another number here.
TEST(MeasuredModelTest, ModelsAreTheseEverywhere) {
  Fingerprint models;
  const auto add = [&models](const CostFit& fit) {
    models.AddDouble(fit.fixed);
    for (const double each : fit.per_row) models.AddDouble(each);
    models.AddDouble(fit.least);
    models.AddDouble(fit.spread);
  };
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    MeasuredShapes shapes;
    for (size_t i = 1 + random.Below(25); i > 0; --i) {
      const std::vector<uint64_t> capacities = {random.Between(100, 4000),
                                                random.Between(100, 9000), random.Below(100)};
      const double seconds =
          std::max(seed % 3 == 0 ? 9e-3 : 0, Hidden(capacities)) * (1 + 0.03 * Wobble(random));
      shapes.Add(random.Below(9) == 0 ? TooLarge({9000 + random.Below(99), 9000, 100})
                                      : Observed(capacities, seconds,
                                                 2'000'000 + 900 * capacities[random.Below(2)]));
    }
    const MeasuredModel model = FitModel(Names(), shapes);
    add(model.seconds);
    add(model.bytes);
    models.Add(model.bounds.fixed_bytes);
    models.Add(model.bounds.most_bytes);
    DeviceProfile profile;
    profile.components = {{1, 9000, 8, 7, 1}, {1, 9000, 8, 7, 1}, {1, 200, 1, 0, 0}};
    profile.memory_bytes = seed % 2 == 0 ? 0 : 9'000'000;
    const auto measured = WithMeasured(profile, SizeSchema::NodesAndEdges(), model);
    if (!measured) continue;
    models.AddDouble(measured->fixed_cost);
    models.AddDouble(measured->least_cost);
    models.Add(measured->has_measured_costs ? 1 : 0);
    for (const ComponentProfile& each : measured->components) models.AddDouble(each.relative_cost);
    if (measured->measured_bytes == nullptr) continue;
    models.Add(measured->measured_bytes->most_bytes);
    for (const auto& shape : measured->measured_bytes->too_large) models.AddAll(shape);
  }
  EXPECT_EQ(models.value(), 7167068449818013290U);
}

// What the law tells of the largest rows that may be reported is no whole number.
TEST(MeasuredModelTest, TheMostBytesAreBounded) {
  MeasuredShapes shapes;
  shapes.Add(Observed({1, 1, 1}, 1, uint64_t{1} << 50));
  const uint64_t most_rows = uint64_t{1} << 48;
  shapes.Add(TooLarge({most_rows, most_rows, most_rows}));
  EXPECT_EQ(FitModel(Names(), shapes).bounds.most_bytes, uint64_t{1} << 63);
}

TEST(MeasuredModelTest, ReplacesAProfilesFigures) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  DeviceProfile profile;
  profile.components.resize(3);
  for (ComponentProfile& component : profile.components) component.max_rows = 100'000;
  profile.components[2].relative_cost = 0;
  profile.components[0].bytes_per_row = 1000;
  profile.memory_bytes = 50'000'000;
  profile.measured_as = "gin/h100";
  MeasuredShapes shapes;
  EXPECT_FALSE(WithMeasured(profile, schema, FitModel(Names(), shapes)).has_value());
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    const uint64_t nodes = random.Between(100, 4000);
    const uint64_t edges = random.Between(100, 4000);
    shapes.Add(Observed({edges, nodes, 1 + nodes / 20}, Hidden({nodes, edges}),
                        1'000'000 + 2000 * nodes + 3000 * edges));
  }
  const auto measured = WithMeasured(profile, schema, FitModel(Names(), shapes));
  ASSERT_TRUE(measured.has_value());
  EXPECT_NEAR(measured->components[0].relative_cost, 3e-6, 3e-7);
  EXPECT_NEAR(measured->components[1].relative_cost, 1e-6, 2e-7);
  EXPECT_NEAR(measured->fixed_cost, 2e-3, 5e-4);
  EXPECT_EQ(measured->components[2].relative_cost, 0);
  EXPECT_TRUE(FitsMemory(*measured, {4000, 4000, 100}));
  EXPECT_FALSE(FitsMemory(*measured, {20'000, 20'000, 100}));
  // Seconds alone: the profile's bytes stay.
  MeasuredShapes timed;
  for (const MeasuredShape& shape : shapes.shapes()) {
    timed.Add(Observed(shape.capacities, shape.MedianSeconds(), 0));
  }
  const auto costs = WithMeasured(profile, schema, FitModel(Names(), timed));
  ASSERT_TRUE(costs.has_value());
  EXPECT_NEAR(costs->components[1].relative_cost, 1e-6, 2e-7);
  EXPECT_EQ(costs->measured_bytes, nullptr);
  EXPECT_EQ(costs->components[0].bytes_per_row, 1000);
  // A component that nobody measured.
  DeviceProfile other = profile;
  other.components.resize(2);
  EXPECT_FALSE(WithMeasured(other, *SizeSchema::Create({"words"}), FitModel(Names(), shapes)));
}

}  // namespace
}  // namespace packhouse
