#include "service/algorithms/planning/tuning/limit_tuner.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/size_groups.h"
#include "tests/planning/scarce_worlds.h"
#include "tests/planning/tuning/tuning_worlds.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"
#include "tests/support/shared_data.h"
#include "tests/support/sizes_csv.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint64_t kStepsPerPlan = 20'000;

// The cheapest shape is recommended, and no larger one in its place: see FewPacksTest.
absl::StatusOr<TuneResult> Tune(const TuningWorld& world, TuneOptions options) {
  options.equal_cost = 0;
  return TuneLimits(world.histogram, world.profile, world.schema, options);
}

// Over the components that have a cost and rows.
double HarmonicMeanOf(const TuningWorld& world, const std::vector<uint64_t>& capacities,
                      uint64_t packs) {
  double inverses = 0;
  double components = 0;
  for (size_t k = 0; k < capacities.size(); ++k) {
    const uint64_t total = k < world.histogram.num_components() ? world.histogram.total(k)
                                                                : world.histogram.num_graphs();
    const ComponentProfile& component = world.profile.components[k];
    if (component.max_rows == 0 || component.relative_cost == 0 || total == 0) continue;
    inverses += static_cast<double>(packs) * static_cast<double>(capacities[k]) /
                static_cast<double>(total);
    components += 1;
  }
  return components == 0 ? 1 : components / inverses;
}

uint64_t PacksFor(const TuningWorld& world, const std::vector<uint64_t>& capacities,
                  uint64_t steps) {
  OptimizerOptions options;
  options.steps = steps;
  return OptimizePlan(world.histogram, Limits::Create(capacities).value(), options)->packs;
}

// What holds for any shape of any result.
void ExpectConsistent(const TuningWorld& world, const TunedShape& shape) {
  const DeviceProfile& profile = world.profile;
  ASSERT_EQ(shape.capacities.size(), profile.components.size());
  ASSERT_EQ(shape.components.size(), profile.components.size());
  for (size_t k = 0; k < shape.capacities.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    const uint64_t capacity = shape.capacities[k];
    EXPECT_EQ(shape.components[k].capacity, capacity);
    if (component.max_rows == 0) {
      EXPECT_EQ(capacity, kUnlimited);
      continue;
    }
    EXPECT_GE(capacity, component.min_rows);
    EXPECT_LE(capacity, component.max_rows);
    EXPECT_EQ(capacity % component.multiple_of, 0);
    EXPECT_LE(shape.components[k].fullest_pack, capacity);
    EXPECT_LE(shape.components[k].efficiency, 1);
  }
  EXPECT_TRUE(FitsMemory(profile, shape.capacities));
  EXPECT_EQ(shape.batch_bytes, BytesOfShape(profile, shape.capacities));
  EXPECT_EQ(shape.epoch_cost,
            static_cast<double>(shape.packs) * CostOfShape(profile, shape.capacities));
  EXPECT_GE(shape.packs, shape.lower_bound);
  EXPECT_GE(shape.lower_bound, 1);
}

// A shape that packs the whole histogram.
void ExpectTakesAll(const TuningWorld& world, const TunedShape& shape) {
  ExpectConsistent(world, shape);
  EXPECT_THAT(
      CheckEachGraphFits(world.histogram, Limits::Create(shape.capacities).value(), world.schema),
      IsOk());
  EXPECT_DOUBLE_EQ(shape.harmonic_mean, HarmonicMeanOf(world, shape.capacities, shape.packs));
}

class TuneObjectiveTest : public testing::TestWithParam<TuneObjective> {
 protected:
  // Lower is better.
  static double ValueOf(const TuningWorld& world, const std::vector<uint64_t>& capacities,
                        uint64_t packs) {
    if (GetParam() == TuneObjective::kHarmonicMean) {
      return -HarmonicMeanOf(world, capacities, packs);
    }
    return static_cast<double>(packs) * CostOfShape(world.profile, capacities);
  }
  static double ValueOf(const TuningWorld& world, const TunedShape& shape) {
    return ValueOf(world, shape.capacities, shape.packs);
  }
};

// The answer is that of planning every candidate there is.
TEST_P(TuneObjectiveTest, ExactByBoundsIsExactByBruteForce) {
  uint64_t planned = 0;
  uint64_t candidates = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random);
    TuneOptions options;
    options.objective = GetParam();
    options.steps_per_plan = kStepsPerPlan;
    uint64_t last_planned = 0;
    options.progress = [&](const TuneProgress& progress) { last_planned = progress.planned; };
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    EXPECT_TRUE(result.exact);
    ExpectTakesAll(world, result.single_shape);
    EXPECT_EQ(PacksFor(world, result.single_shape.capacities, kStepsPerPlan),
              result.single_shape.packs);
    double best = 0;
    bool first = true;
    for (const std::vector<uint64_t>& capacities : AllCandidates(world)) {
      const double value = ValueOf(world, capacities, PacksFor(world, capacities, kStepsPerPlan));
      if (first || value < best) best = value;
      first = false;
      ++candidates;
    }
    EXPECT_DOUBLE_EQ(ValueOf(world, result.single_shape), best);
    planned += last_planned;
    if (HasFailure()) return;
  }
  // Bounds save most of the work.
  EXPECT_LT(planned, candidates / 5);
}

// With steps per plan left to the search, too, and never worse than with few.
TEST_P(TuneObjectiveTest, ResultsAreConsistent) {
  Fingerprint answers;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random, {.max_components = 5, .max_size = 40});
    TuneOptions options;
    options.objective = GetParam();
    options.steps = 20'000'000;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    EXPECT_FALSE(result.oversize);
    ASSERT_THAT(result.shapes, SizeIs(1));
    EXPECT_EQ(result.shapes[0].capacities, result.single_shape.capacities);
    ExpectTakesAll(world, result.single_shape);
    EXPECT_EQ(result.epoch_cost, result.single_shape.epoch_cost);
    EXPECT_EQ(result.harmonic_mean, result.single_shape.harmonic_mean);
    EXPECT_LE(result.least_cost, result.epoch_cost);
    EXPECT_FALSE(result.reasons.empty());
    EXPECT_THAT(result.cells, IsEmpty());
    AddResult(result, answers);
    if (HasFailure()) return;
  }
  EXPECT_EQ(answers.value(),
            GetParam() == TuneObjective::kEpochCost ? 8885541679922273672U : 6805991666435707935U);
}

// Each point of the frontier is better than all that are smaller; the last is the best of all.
TEST_P(TuneObjectiveTest, TheFrontierIsMonotone) {
  size_t points = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random, {.max_size = 30, .max_choices = 100});
    TuneOptions options;
    options.objective = GetParam();
    options.steps_per_plan = kStepsPerPlan;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    ASSERT_FALSE(result.frontier.empty());
    EXPECT_LE(result.frontier.size(), kMaxFrontier + 1);
    EXPECT_EQ(result.frontier.back().capacities, result.single_shape.capacities);
    for (size_t i = 0; i < result.frontier.size(); ++i) {
      const TunedShape& shape = result.frontier[i];
      ExpectTakesAll(world, shape);
      if (i == 0) continue;
      const TunedShape& smaller = result.frontier[i - 1];
      EXPECT_LT(CostOfShape(world.profile, smaller.capacities),
                CostOfShape(world.profile, shape.capacities));
      EXPECT_LE(ValueOf(world, shape), ValueOf(world, smaller));
    }
    points += result.frontier.size();
    if (HasFailure()) return;
  }
  EXPECT_GT(points, 100);
}

// Every candidate is a cell, in order. Figures of plans are plans'; others are bounds.
TEST_P(TuneObjectiveTest, TheGridHasEveryCandidate) {
  uint64_t unplanned = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TuningWorld world = RandomTuningWorld(random);
    // What a component without a cost takes need not be the most: choices that hold the same.
    for (ComponentProfile& component : world.profile.components) {
      if (component.relative_cost == 0) component.max_rows = 0;
    }
    const std::vector<std::vector<uint64_t>> candidates = AllCandidates(world);
    for (const uint64_t steps : {TuneOptions::kDefaultSteps, uint64_t{2'000'000}}) {
      TuneOptions options;
      options.objective = GetParam();
      options.steps = steps;
      options.steps_per_plan = kStepsPerPlan;
      options.include_grid = true;
      PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
      ASSERT_EQ(result.cells.size(), candidates.size());
      double best = 0;
      for (size_t i = 0; i < candidates.size(); ++i) {
        const TuneCell& cell = result.cells[i];
        EXPECT_EQ(cell.capacities, candidates[i]);
        const uint64_t packs = PacksFor(world, cell.capacities, kStepsPerPlan);
        const double value =
            GetParam() == TuneObjective::kHarmonicMean ? -cell.harmonic_mean : cell.epoch_cost;
        if (cell.planned) {
          if (best == 0 || value < best) best = value;
        } else {
          const double cost =
              static_cast<double>(packs) * CostOfShape(world.profile, cell.capacities);
          EXPECT_LE(cell.epoch_cost, cost);
          EXPECT_GE(cell.harmonic_mean,
                    HarmonicMeanOf(world, cell.capacities, packs) * (1 - 1e-12));
          ++unplanned;
        }
      }
      EXPECT_DOUBLE_EQ(best, ValueOf(world, result.single_shape));
      EXPECT_TRUE(steps != TuneOptions::kDefaultSteps ||
                  std::all_of(result.cells.begin(), result.cells.end(),
                              [](const TuneCell& cell) { return cell.planned; }));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(unplanned, 50);
}

TEST_P(TuneObjectiveTest, SameArgumentsSameResult) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random, {.max_size = 60, .max_choices = 60});
    TuneOptions options;
    options.objective = GetParam();
    options.steps = 20'000'000;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult a, Tune(world, options));
    options.vector_level = VectorLevel::kPlain;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult b, Tune(world, options));
    EXPECT_EQ(a.single_shape.capacities, b.single_shape.capacities);
    EXPECT_EQ(a.single_shape.packs, b.single_shape.packs);
    EXPECT_EQ(a.exact, b.exact);
    EXPECT_EQ(a.reasons, b.reasons);
    ASSERT_EQ(a.frontier.size(), b.frontier.size());
    for (size_t i = 0; i < a.frontier.size(); ++i) {
      EXPECT_EQ(a.frontier[i].capacities, b.frontier[i].capacities);
      EXPECT_EQ(a.frontier[i].packs, b.frontier[i].packs);
    }
    if (HasFailure()) return;
  }
}

// Counts never fall, the incumbent never gets worse, and in the end every candidate is accounted
// for.
TEST_P(TuneObjectiveTest, ProgressNeverGoesBack) {
  Fingerprint answers;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random, {.max_size = 60, .max_choices = 60});
    TuneOptions options;
    options.objective = GetParam();
    options.steps = seed % 2 == 0 ? 50'000'000 : 5'000'000;
    std::vector<TuneProgress> reports;
    double value = 0;
    options.progress = [&](const TuneProgress& progress) {
      if (reports.empty()) {
        EXPECT_EQ(progress.incumbent, nullptr);
      } else {
        EXPECT_EQ(progress.candidates, reports.back().candidates);
        EXPECT_GE(progress.planned, reports.back().planned);
        EXPECT_GE(progress.excluded, reports.back().excluded);
        ASSERT_NE(progress.incumbent, nullptr);
        const double now = ValueOf(world, *progress.incumbent);
        if (reports.size() > 1) {
          EXPECT_LE(now, value + 1e-9);
        }
        value = now;
      }
      reports.push_back(progress);
      for (const uint64_t number : {progress.candidates, progress.planned, progress.excluded}) {
        answers.Add(number);
      }
    };
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    ASSERT_GE(reports.size(), 2);
    EXPECT_LE(reports.back().planned + reports.back().excluded, reports.back().candidates);
    if (result.exact) {
      EXPECT_EQ(reports.back().planned + reports.back().excluded, reports.back().candidates);
    }
    EXPECT_DOUBLE_EQ(ValueOf(world, result.single_shape), value);
    AddResult(result, answers);
    if (HasFailure()) return;
  }
  EXPECT_EQ(answers.value(),
            GetParam() == TuneObjective::kEpochCost ? 10797052953584165956U : 9149114763776273896U);
}

INSTANTIATE_TEST_SUITE_P(Objectives, TuneObjectiveTest,
                         testing::Values(TuneObjective::kEpochCost, TuneObjective::kHarmonicMean),
                         [](const testing::TestParamInfo<TuneObjective>& parameter) {
                           return parameter.param == TuneObjective::kEpochCost ? "EpochCost"
                                                                               : "HarmonicMean";
                         });

// Sizes with few fillers, which no plan packs without waste, and many candidates.
TuningWorld HardWorld() {
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(200, 1000));
    const auto edges = static_cast<uint32_t>(random.Between(200, 4000));
    world.histogram.Add({nodes, edges}).IgnoreError();
  }
  world.profile.components = {{1, 4000, 1, 0, 1}, {1, 16'000, 1, 0, 1}, {1, 0, 1, 0, 0}};
  return world;
}

TEST(LimitTunerTest, ABudgetThatEndsIsNotExactAndSaysSo) {
  const TuningWorld world = HardWorld();
  Fingerprint answers;
  double last = 0;
  for (const uint64_t steps : {uint64_t{0}, uint64_t{1'000'000}, uint64_t{50'000'000}}) {
    TuneOptions options;
    options.steps = steps;
    uint64_t planned = 0;
    options.progress = [&](const TuneProgress& progress) { planned = progress.planned; };
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    EXPECT_FALSE(result.exact);
    ExpectTakesAll(world, result.single_shape);
    EXPECT_THAT(result.reasons, Contains(HasSubstr(absl::StrCat("budget of ", steps, " steps"))));
    if (steps == 0) {
      // There is an answer, and nothing looks for a better one.
      EXPECT_EQ(planned, 1);
    }
    if (last != 0) {
      EXPECT_LE(result.epoch_cost, last);
    }
    last = result.epoch_cost;
    AddResult(result, answers);
  }
  EXPECT_EQ(answers.value(), 4274523951046455892U);
}

// Whenever the caller gives up, that is the answer.
TEST(LimitTunerTest, TheCallerMayGiveUp) {
  TuningWorld world = HardWorld();
  world.profile.components[0].multiple_of = 8;
  world.profile.components[1].multiple_of = 8;
  world.profile.max_distinct_shapes = 3;
  for (const bool include_grid : {false, true}) {
    TuneOptions options;
    options.steps = 40'000'000;
    options.include_grid = include_grid;
    uint64_t asked = 0;
    options.is_cancelled = [&] {
      ++asked;
      return false;
    };
    ASSERT_THAT(Tune(world, options), IsOk());
    const uint64_t total = asked;
    ASSERT_GT(total, 10);
    for (uint64_t patience = 0; patience < total; patience += total / 5) {
      SCOPED_TRACE(testing::Message() << "patience=" << patience);
      asked = 0;
      options.is_cancelled = [&] { return asked++ == patience; };
      EXPECT_THAT(Tune(world, options),
                  StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up by the caller")));
    }
  }
}

// Whichever reservation is refused, that is the answer: never a part of the cells.
TEST(LimitTunerTest, AllCellsOrNoAnswer) {
  Random random(1);
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(world.histogram.Add({static_cast<uint32_t>(random.Between(1, 30)),
                                     static_cast<uint32_t>(random.Between(1, 60))}),
                IsOk());
  }
  world.profile.components = {{1, 70, 1, 0, 1}, {1, 120, 1, 0, 1}, {1, 0, 1, 0, 0}};
  const size_t num_cells = AllCandidates(world).size();
  ASSERT_GT(num_cells, 500);
  for (uint64_t refused = 0;; ++refused) {
    SCOPED_TRACE(testing::Message() << "refused=" << refused);
    uint64_t asked = 0;
    PlanMemory memory([&](uint64_t) { return asked++ != refused; });
    TuneOptions options;
    options.steps = 1'000'000;
    options.include_grid = true;
    options.memory = &memory;
    const absl::StatusOr<TuneResult> result = Tune(world, options);
    if (asked <= refused) {
      ASSERT_THAT(result, IsOk());
      EXPECT_EQ(result->cells.size(), num_cells);
      EXPECT_GT(refused, 10);
      break;
    }
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
  }
}

class LimitTunerErrorTest : public testing::Test {
 protected:
  LimitTunerErrorTest() {
    for (const uint32_t nodes : {10, 20, 30, 90}) {
      EXPECT_THAT(world_.histogram.Add({nodes, 2 * nodes}, nodes), IsOk());
    }
    world_.profile.components = {{1, 100, 1, 8, 1}, {1, 200, 1, 4, 1}, {1, 16, 1, 0, 0}};
  }

  TuningWorld world_ = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  TuneOptions options_;
};

TEST_F(LimitTunerErrorTest, AProfileThatAllowsNothing) {
  world_.profile.components[1].multiple_of = 0;
  EXPECT_THAT(Tune(world_, options_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "profile: multiple_of 0 of edges; at least 1 is needed"));
}

TEST_F(LimitTunerErrorTest, AHistogramOfOtherComponents) {
  world_.histogram = SizeHistogram(3);
  EXPECT_THAT(Tune(world_, options_), StatusIs(absl::StatusCode::kInvalidArgument,
                                               "tune: a histogram of 3 components, expected 2"));
}

TEST_F(LimitTunerErrorTest, SeveralShapesByTheMean) {
  world_.profile.max_distinct_shapes = 2;
  options_.objective = TuneObjective::kHarmonicMean;
  EXPECT_THAT(Tune(world_, options_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "tune: max_distinct_shapes 2 with the harmonic mean, which is for 1"));
}

TEST_F(LimitTunerErrorTest, AnEmptyHistogram) {
  world_.histogram = SizeHistogram(2);
  EXPECT_THAT(Tune(world_, options_),
              StatusIs(absl::StatusCode::kFailedPrecondition, "tune: the histogram is empty"));
}

TEST_F(LimitTunerErrorTest, NoGraphFits) {
  world_.profile.components[0] = {1, 9, 4, 8, 1};
  EXPECT_THAT(Tune(world_, options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "tune: 150 graphs are too large for any allowed limits; the largest has "
                       "nodes 90, edges 180. max_rows 92 of nodes would take all."));
}

TEST_F(LimitTunerErrorTest, AGridThatIsTooLarge) {
  options_.include_grid = true;
  world_.profile.components[0] = {1, 1024, 1, 0, 1};
  world_.profile.components[1] = {1, 1025, 1, 0, 1};
  EXPECT_THAT(Tune(world_, options_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "tune: a grid of 1049600 cells; at most 1048576 are listed"));
  world_.profile.components[0].max_rows = UINT64_MAX - 1;
  world_.profile.components[1].max_rows = UINT64_MAX - 1;
  EXPECT_THAT(Tune(world_, options_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "tune: a grid of 18446744073709551615 cells; at most 1048576 are listed"));
}

// Graphs that no candidate takes are counted and left out; the rest is tuned as if alone.
TEST_F(LimitTunerErrorTest, OversizeGraphsAreLeftOut) {
  SizeHistogram fitting = world_.histogram;
  ASSERT_THAT(world_.histogram.Add({101, 7}, 3), IsOk());
  ASSERT_THAT(world_.histogram.Add({5, 1000}, 2), IsOk());
  world_.profile.components[1].multiple_of = 64;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world_, options_));
  ASSERT_TRUE(result.oversize);
  EXPECT_EQ(result.oversize->num_graphs, 5);
  EXPECT_THAT(result.oversize->largest, ElementsAre(101, 7));
  EXPECT_THAT(result.oversize->needed_rows, ElementsAre(101, 1024, 1));
  EXPECT_EQ(result.oversize->num_apart, 0);
  EXPECT_EQ(result.oversize->needed_bytes, 0);
  EXPECT_THAT(result.reasons,
              Contains("5 graphs are too large for any allowed limits; the largest has nodes 101, "
                       "edges 7. max_rows 101 of nodes and max_rows 1024 of edges would take "
                       "all."));
  std::swap(world_.histogram, fitting);
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult alone, Tune(world_, options_));
  EXPECT_FALSE(alone.oversize);
  EXPECT_EQ(alone.single_shape.capacities, result.single_shape.capacities);
  EXPECT_EQ(alone.single_shape.packs, result.single_shape.packs);
  // With what it needs, all are taken.
  std::swap(world_.histogram, fitting);
  world_.profile.components[0].max_rows = 101;
  world_.profile.components[1].max_rows = 1024;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult all, Tune(world_, options_));
  EXPECT_FALSE(all.oversize);
  ExpectTakesAll(world_, all.single_shape);
}

// Each of two graphs fits the memory, but no limits take both: the one that needs more is left out.
TEST_F(LimitTunerErrorTest, OversizeByMemory) {
  world_.histogram = SizeHistogram(2);
  ASSERT_THAT(world_.histogram.Add({100, 10}, 7), IsOk());
  ASSERT_THAT(world_.histogram.Add({10, 190}, 9), IsOk());
  ASSERT_THAT(world_.histogram.Add({100, 200}, 2), IsOk());
  ASSERT_THAT(world_.histogram.Add({20, 20}, 5), IsOk());
  world_.profile.memory_bytes = 1000;  // (100, 10): 840; (10, 190): 840; both: 1560.
  ASSERT_THAT(world_.histogram.Add({101, 0}, 1), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world_, options_));
  ASSERT_TRUE(result.oversize);
  EXPECT_EQ(result.oversize->num_graphs, 2 + 1 + 7);
  EXPECT_THAT(result.oversize->largest, ElementsAre(101, 0));
  EXPECT_THAT(result.oversize->needed_rows, ElementsAre(101, 200, 1));
  EXPECT_EQ(result.oversize->needed_bytes, 8 * 101 + 4 * 200);
  EXPECT_THAT(result.reasons,
              Contains(HasSubstr("max_rows 101 of nodes and memory_bytes 1608 would take all.")));
  EXPECT_GE(result.single_shape.capacities[1], 190);
  EXPECT_LE(result.single_shape.batch_bytes, 1000);
}

// A rare graph that is smaller than the many others does not put them out.
TEST_F(LimitTunerErrorTest, TheManyAreKeptWhereTheMemoryDoesNotTakeAllTogether) {
  world_.histogram = SizeHistogram(2);
  ASSERT_THAT(world_.histogram.Add({1000, 10}, 1'000'000), IsOk());
  ASSERT_THAT(world_.histogram.Add({10, 999}, 1), IsOk());
  world_.profile.components = {{1, 2048, 1, 1, 1}, {1, 2048, 1, 1, 1}, {1, 0, 1, 0, 0}};
  world_.profile.memory_bytes = 1500;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world_, options_));
  EXPECT_EQ(result.single_shape.packs, 1'000'000);
  ASSERT_TRUE(result.oversize);
  EXPECT_EQ(result.oversize->num_graphs, 1);
  EXPECT_EQ(result.oversize->num_apart, 1);
  EXPECT_THAT(result.reasons,
              Contains("1 graph does not fit one shape together with the others, though each fits "
                       "allowed limits of its own; the largest has nodes 10, edges 999. "
                       "memory_bytes 1999 would take all."));
}

// With more shapes than one it has one of its own.
TEST_F(LimitTunerErrorTest, ARareGraphHasAShapeOfItsOwnIfThereMayBeTwo) {
  world_.histogram = SizeHistogram(2);
  ASSERT_THAT(world_.histogram.Add({1000, 10}, 1'000'000), IsOk());
  ASSERT_THAT(world_.histogram.Add({10, 999}, 1), IsOk());
  world_.profile.components = {{1, 2048, 1, 1, 1}, {1, 2048, 1, 1, 1}, {1, 0, 1, 0, 0}};
  world_.profile.memory_bytes = 1500;
  world_.profile.max_distinct_shapes = 2;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world_, options_));
  EXPECT_FALSE(result.oversize);
  ASSERT_THAT(result.shapes, SizeIs(2));
  EXPECT_EQ(result.shapes[0].packs + result.shapes[1].packs, 1'000'001);
  EXPECT_EQ(result.single_shape.packs, 1'000'000);
  EXPECT_THAT(result.reasons,
              Contains(HasSubstr("No one shape within the memory takes all graphs that fit alone, "
                                 "so there are 2 groups of them, of 1000000, 1 graphs")));
  // A third kind finds no place.
  ASSERT_THAT(world_.histogram.Add({500, 500}, 1), IsOk());
  world_.profile.memory_bytes = 1010;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult third, Tune(world_, options_));
  ASSERT_TRUE(third.oversize);
  EXPECT_EQ(third.oversize->num_graphs, 1);
  EXPECT_EQ(third.oversize->num_apart, 1);
  EXPECT_EQ(third.oversize->num_shapes, 2);
  EXPECT_THAT(third.reasons,
              Contains(HasSubstr("1 graph does not fit 2 shapes together with the others")));
  EXPECT_THAT(third.reasons, Contains("More shapes (max_distinct_shapes, at present 2) would take "
                                      "more graphs."));
}

// Random worlds in which one shape often does not take all that fits alone: each graph that fits
// some limits is in a pack of one of the shapes, unless there are too few shapes; each shape is
// allowed; and none takes all that an earlier one takes.
TEST(TuneGroupsTest, EveryGraphThatFitsAloneFitsAShape) {
  Fingerprint answers;
  int grouped = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    ScarceWorld scarce = random.Below(4) == 0 ? RandomScarceWorld(random) : RandomTornWorld(random);
    scarce.profile.max_distinct_shapes = static_cast<uint32_t>(random.Between(2, 8));
    const size_t l = scarce.histogram.num_components();
    for (size_t k = 0; k <= l; ++k) {
      ComponentProfile& component = scarce.profile.components[k];
      component.fits_packs =
          component.max_rows != 0 && component.relative_cost == 0 && random.Below(2) == 0;
    }
    const TuningWorld world = {scarce.histogram, scarce.profile, TuningSchema(l)};
    TuneOptions options;
    options.steps = 4'000'000;
    options.equal_cost = random.Below(2) == 0 ? 0 : TuneOptions::kEqualCost;
    const absl::StatusOr<TuneResult> result =
        TuneLimits(world.histogram, world.profile, world.schema, options);
    if (!result.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(result.status()) ||
                  absl::IsFailedPrecondition(result.status()))
          << result.status();
      continue;
    }
    std::vector<std::vector<uint64_t>> capacities;
    double cost = 0;
    for (const TunedShape& shape : result->shapes) {
      TunedShape usable = shape;
      for (size_t k = 0; k <= l; ++k) {
        const uint64_t reserved = world.profile.components[k].reserved_rows;
        if (usable.capacities[k] == kUnlimited) continue;
        EXPECT_EQ(shape.components[k].capacity, shape.capacities[k]);
        EXPECT_GE(shape.capacities[k], world.profile.components[k].min_rows);
        EXPECT_LE(shape.capacities[k], world.profile.components[k].max_rows);
        EXPECT_EQ(shape.capacities[k] % world.profile.components[k].multiple_of, 0);
        usable.capacities[k] -= reserved;
        EXPECT_LE(shape.components[k].fullest_pack, usable.capacities[k]);
      }
      EXPECT_TRUE(FitsMemory(world.profile, usable.capacities));
      EXPECT_EQ(shape.batch_bytes, BytesOfShape(world.profile, usable.capacities));
      EXPECT_EQ(shape.epoch_cost,
                static_cast<double>(shape.packs) * CostOfShape(world.profile, usable.capacities));
      EXPECT_GE(shape.packs, shape.lower_bound);
      capacities.push_back(shape.capacities);
      cost += shape.epoch_cost;
    }
    EXPECT_DOUBLE_EQ(cost, result->epoch_cost);
    for (size_t i = 0; i < capacities.size(); ++i) {
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(ShapeTakes(capacities[i], capacities[j]));
    }
    const bool has_groups = LeadingShapes(capacities).size() > 1;
    grouped += has_groups ? 1 : 0;
    uint64_t missed = 0;
    for (size_t row = 0; row < world.histogram.num_distinct(); ++row) {
      const auto tuple = world.histogram.tuple(row);
      const bool fits = std::any_of(capacities.begin(), capacities.end(), [&](auto shape) {
        for (size_t k = 0; k <= l; ++k) {
          if (shape[k] != kUnlimited) shape[k] -= world.profile.components[k].reserved_rows;
        }
        return TakesSize(shape, tuple);
      });
      if (!fits) missed += world.histogram.count(row);
      if (!fits && world.profile.max_distinct_shapes >= 8) {
        EXPECT_TRUE(ExcessOverProfile(tuple, world.profile).has_value());
      }
    }
    // What is not told is in a pack. What is told may fit by chance.
    EXPECT_LE(missed, result->oversize ? result->oversize->num_graphs : 0);
    AddResult(*result, answers);
    if (HasFailure()) return;
  }
  EXPECT_GT(grouped, 40);
  EXPECT_EQ(answers.value(), 17431484238839964549U);
}

// A component without a cost takes as much as the memory leaves it.
TEST_F(LimitTunerErrorTest, WithoutACostTheLargestCapacityIsBest) {
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult free, Tune(world_, options_));
  EXPECT_EQ(free.single_shape.capacities[2], 16);
  world_.profile.components[2].bytes_per_row = 100;
  world_.profile.memory_bytes = 8 * 90 + 4 * 180 + 100 * 7 + 50;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult bounded, Tune(world_, options_));
  ExpectTakesAll(world_, bounded.single_shape);
  std::vector<uint64_t> more = bounded.single_shape.capacities;
  ++more[2];
  EXPECT_FALSE(FitsMemory(world_.profile, more));
  EXPECT_THAT(bounded.reasons, Contains(HasSubstr("which leave no room for more graphs.")));
}

// Sizes without rows have no efficiency to speak of.
TEST(LimitTunerTest, EmptyGraphs) {
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  ASSERT_THAT(world.histogram.Add({0, 0}, 100), IsOk());
  world.profile.components = {{1, 64, 1, 0, 1}, {8, 64, 8, 0, 1}, {1, 10, 1, 0, 0}};
  for (const TuneObjective objective : {TuneObjective::kEpochCost, TuneObjective::kHarmonicMean}) {
    TuneOptions options;
    options.objective = objective;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    EXPECT_THAT(result.single_shape.capacities, ElementsAre(1, 8, 10));
    EXPECT_EQ(result.single_shape.packs, 10);
    EXPECT_EQ(result.single_shape.harmonic_mean, 1);
    EXPECT_EQ(result.least_cost, 0);
    EXPECT_TRUE(result.exact);
  }
}

// What is left out of sizes that cost nothing is told without a quotient.
TEST(LimitTunerTest, EmptyGraphsHaveReasonsInNumbers) {
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  ASSERT_THAT(world.histogram.Add({0, 0}, 100), IsOk());
  world.profile.components = {{1, 64, 1, 0, 1}, {8, 64, 8, 0, 1}, {1, 10, 1, 0, 0}};
  for (const uint32_t shapes : {1, 3}) {
    world.profile.max_distinct_shapes = shapes;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, {}));
    EXPECT_THAT(result.reasons, Contains(HasSubstr("the real rows cost nothing")));
    for (const std::string& reason : result.reasons) {
      EXPECT_THAT(reason, Not(HasSubstr("inf")));
      EXPECT_THAT(reason, Not(HasSubstr("nan")));
    }
  }
}

// Graphs alone, no other component.
TEST(LimitTunerTest, OnlyGraphs) {
  TuningWorld world = {SizeHistogram(0), DeviceProfile(), TuningSchema(0)};
  ASSERT_THAT(world.histogram.Add({}, 1000), IsOk());
  world.profile.components = {{1, 64, 1, 0, 1}};
  TuneOptions options;
  options.include_grid = true;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
  EXPECT_EQ(result.epoch_cost, 1000);
  EXPECT_EQ(result.harmonic_mean, 1);
  EXPECT_TRUE(result.exact);
  EXPECT_THAT(result.cells, SizeIs(64));
}

absl::StatusOr<TuneResult> TuneForFewPacks(const TuningWorld& world, double equal_cost) {
  TuneOptions options;
  options.equal_cost = equal_cost;
  return TuneLimits(world.histogram, world.profile, world.schema, options);
}

// What is recommended costs hardly more than the cheapest, and never has more packs.
TEST(FewPacksTest, CostAtMostTheShareThatCountsAsEqual) {
  int larger = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random);
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult best, Tune(world, {}));
    EXPECT_EQ(best.single_shape.capacities, best.cheapest_shape.capacities);
    for (const double equal_cost : {0.005, 0.2}) {
      PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, TuneForFewPacks(world, equal_cost));
      ExpectTakesAll(world, result.single_shape);
      ExpectTakesAll(world, result.cheapest_shape);
      EXPECT_DOUBLE_EQ(result.cheapest_shape.epoch_cost, best.single_shape.epoch_cost);
      EXPECT_EQ(result.exact, best.exact);
      EXPECT_LE(result.single_shape.packs, result.cheapest_shape.packs);
      EXPECT_LE(result.single_shape.epoch_cost,
                result.cheapest_shape.epoch_cost * (1 + equal_cost));
      EXPECT_GE(result.epoch_cost, result.least_cost);
      larger += result.single_shape.packs < result.cheapest_shape.packs ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(larger, 20);
}

// Where all limits fit equally well, the largest are best: nothing speaks for a batch of one graph.
TEST(FewPacksTest, TheLargestOfEqualsIsRecommended) {
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  ASSERT_THAT(world.histogram.Add({1, 2}, 6400), IsOk());
  world.profile.components = {{1, 64, 1, 0, 1}, {1, 128, 1, 0, 1}, {1, 0, 1, 0, 0}};
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, TuneForFewPacks(world, TuneOptions::kEqualCost));
  EXPECT_THAT(result.single_shape.capacities, ElementsAre(64, 128, kUnlimited));
  EXPECT_EQ(result.single_shape.packs, 100);
  EXPECT_EQ(result.cheapest_shape.packs, 6400);
  EXPECT_EQ(result.frontier.back().capacities, result.cheapest_shape.capacities);
  EXPECT_THAT(result.reasons,
              Contains(HasSubstr("the cheapest, nodes 1, edges 2, needs 6400 packs and saves "
                                 "nothing. ")));
}

// Sizes that vary little, on a device that takes thousands of them at once.
TEST(FewPacksTest, ALargeDeviceGetsLargeBatches) {
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  for (uint32_t nodes = 10; nodes < 15; ++nodes) {
    ASSERT_THAT(world.histogram.Add({nodes, 2 * nodes}, 6000), IsOk());
  }
  world.profile.components = {{1, 65536, 64, 0, 1}, {1, 196608, 64, 0, 1}, {1, 0, 1, 0, 0}};
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, TuneForFewPacks(world, TuneOptions::kEqualCost));
  EXPECT_LT(result.single_shape.packs, 10);
  EXPECT_GT(result.single_shape.capacities[0], 32768);
  // A profile that says what a step costs needs no such rule.
  world.profile.fixed_cost = 1000;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult declared, Tune(world, {}));
  EXPECT_LT(declared.single_shape.packs, 10);
}

// A shape of a result has what padding keeps free, which holds no graph.
void ExpectLaidOut(const TuningWorld& world, const TunedShape& shape) {
  std::vector<uint64_t> usable = shape.capacities;
  for (size_t k = 0; k < usable.size(); ++k) {
    const ComponentProfile& component = world.profile.components[k];
    if (usable[k] == kUnlimited) continue;
    EXPECT_EQ(usable[k] % component.multiple_of, 0U);
    EXPECT_GE(usable[k], component.min_rows);
    EXPECT_LE(usable[k], component.max_rows);
    usable[k] -= component.reserved_rows;
    EXPECT_LE(shape.components[k].fullest_pack, usable[k]);
    EXPECT_EQ(shape.components[k].capacity, shape.capacities[k]);
  }
  EXPECT_THAT(CheckEachGraphFits(world.histogram, Limits::Create(usable).value(), world.schema),
              IsOk());
  EXPECT_EQ(shape.batch_bytes, BytesOfShape(world.profile, usable));
  EXPECT_TRUE(FitsMemory(world.profile, usable));
}

// What padding keeps free is paid for, aligned and remembered like any row, but holds no graph.
TEST(TuneReservedTest, ItIsTheBestOfAllWithWhatPaddingKeepsFree) {
  Fingerprint answers;
  int compared = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TuningWorld world = RandomTuningWorld(random);
    for (ComponentProfile& component : world.profile.components) {
      if (component.max_rows == 0) continue;
      component.reserved_rows = random.Below(4);
      component.max_rows += component.reserved_rows;
      if (world.profile.memory_bytes == 0) continue;
      world.profile.memory_bytes +=
          component.bytes_per_row * (component.reserved_rows + component.multiple_of);
    }
    uint64_t cells = 1;
    for (const ComponentProfile& component : world.profile.components) {
      if (component.max_rows == 0 || component.relative_cost == 0) continue;
      cells *=
          (LargestCapacity(component) - SmallestCapacity(component)) / component.multiple_of + 1;
    }
    TuneOptions options;
    options.steps_per_plan = kStepsPerPlan;
    options.include_grid = cells <= 30;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    ASSERT_FALSE(result.oversize);
    for (const TunedShape& shape : result.shapes) ExpectLaidOut(world, shape);
    for (const TunedShape& shape : result.frontier) ExpectLaidOut(world, shape);
    for (const TunedShape* const shape : {&result.single_shape, &result.cheapest_shape}) {
      ExpectLaidOut(world, *shape);
      EXPECT_EQ(shape->capacities, result.frontier.back().capacities);
    }
    for (const TuneCell& cell : result.cells) {
      for (size_t k = 0; k < cell.capacities.size(); ++k) {
        const ComponentProfile& component = world.profile.components[k];
        if (cell.capacities[k] == kUnlimited) continue;
        EXPECT_EQ(cell.capacities[k] % component.multiple_of, 0U);
        EXPECT_GE(cell.capacities[k], std::max(component.min_rows, component.reserved_rows + 1));
      }
    }
    AddResult(result, answers);
    if (!result.exact) continue;
    ++compared;
    double best = std::numeric_limits<double>::infinity();
    for (const std::vector<uint64_t>& capacities : AllCandidates(world)) {
      best = std::min(best, static_cast<double>(PacksFor(world, capacities, kStepsPerPlan)) *
                                CostOfShape(world.profile, capacities));
    }
    EXPECT_DOUBLE_EQ(result.single_shape.epoch_cost, best);
  }
  EXPECT_GT(compared, 100);
  EXPECT_EQ(answers.value(), 3489633332231987385U);
}

// A capacity that nobody asked for is as large as the fullest pack, and as its alignment.
TEST(TuneReservedTest, WhatOnlyHasToFitThePacksIsNoLarger) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TuningWorld world = RandomTuningWorld(random);
    ComponentProfile& graphs = world.profile.components.back();
    graphs = ComponentProfile();
    graphs.max_rows = 1000;
    graphs.relative_cost = 0;
    graphs.multiple_of = random.Between(1, 4);
    graphs.reserved_rows = random.Below(2);
    graphs.fits_packs = true;
    world.profile.components[0].relative_cost = 1;
    if (world.profile.components[0].max_rows == 0) world.profile.components[0].max_rows = 100;
    world.profile.memory_bytes = 0;
    world.profile.max_distinct_shapes = static_cast<uint32_t>(random.Between(1, 3));
    TuneOptions options;
    options.steps = 20'000'000;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    for (size_t i = 0; i < result.shapes.size(); ++i) {
      const TunedShape& shape = result.shapes[i];
      uint64_t needed = 0;
      // The larger shapes take what the smaller ones do.
      for (size_t j = i; j < result.shapes.size(); ++j) {
        needed = std::max(needed, result.shapes[j].components.back().fullest_pack);
      }
      EXPECT_GE(shape.capacities.back(), needed + graphs.reserved_rows);
      EXPECT_LT(shape.capacities.back(), needed + graphs.reserved_rows + graphs.multiple_of);
    }
  }
}

// Counts near 2^60, capacities near 2^32 and 2^64: sums stay sums.
TEST(LimitTunerTest, HugeNumbers) {
  Fingerprint answers;
  for (const uint64_t max_rows : {(uint64_t{1} << 32) + 1, UINT64_MAX - 1}) {
    for (const uint64_t multiple_of : {uint64_t{1}, uint64_t{4096}, uint64_t{1} << 31}) {
      for (const uint32_t shapes : {1, 3}) {
        SCOPED_TRACE(testing::Message() << max_rows << " " << multiple_of << " " << shapes);
        TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
        ASSERT_THAT(world.histogram.Add({3, 6}, uint64_t{1} << 60), IsOk());
        ASSERT_THAT(world.histogram.Add({2, 8}, uint64_t{1} << 59), IsOk());
        ASSERT_THAT(world.histogram.Add({UINT32_MAX, 1}, 1), IsOk());
        world.profile.components = {{1, max_rows, multiple_of, uint64_t{1} << 20, 1},
                                    {1, max_rows, multiple_of, 1, 1e200},
                                    {1, UINT64_MAX - 1, 1, 0, 0}};
        world.profile.memory_bytes = UINT64_MAX - 1;
        world.profile.max_distinct_shapes = shapes;
        TuneOptions options;
        options.steps = 100'000'000;
        PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
        ExpectTakesAll(world, result.single_shape);
        EXPECT_GT(result.epoch_cost, 0);
        EXPECT_LE(result.epoch_cost, result.single_shape.epoch_cost);
        EXPECT_LT(result.epoch_cost, 1e260);
        for (const TunedShape& shape : result.shapes) ExpectConsistent(world, shape);
        AddResult(result, answers);
      }
    }
  }
  EXPECT_EQ(answers.value(), 6317223237884355720U);
}

// Budgets without end.
TEST(LimitTunerTest, HugeBudgets) {
  Random random(11);
  TuningWorld world = RandomTuningWorld(random);
  world.profile.max_distinct_shapes = 8;
  Fingerprint answers;
  for (const uint64_t steps_per_plan : {uint64_t{0}, UINT64_MAX}) {
    TuneOptions options;
    options.steps = UINT64_MAX;
    options.steps_per_plan = steps_per_plan;
    options.include_grid = true;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    ExpectTakesAll(world, result.single_shape);
    AddResult(result, answers);
  }
  EXPECT_EQ(answers.value(), 12045483890948159739U);
}

// Several shapes never cost more than one; they are allowed, and smaller one after the other.
TEST(LimitTunerTest, SeveralShapesNeverCostMoreThanOne) {
  Fingerprint answers;
  int better = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TuningWorld world = RandomTuningWorld(random, {.max_size = 60, .max_choices = 100});
    world.profile.max_distinct_shapes = static_cast<uint32_t>(random.Between(2, 8));
    TuneOptions options;
    options.steps = 20'000'000;
    options.steps_per_plan = kStepsPerPlan;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    EXPECT_FALSE(result.exact);
    ExpectTakesAll(world, result.single_shape);
    ASSERT_GE(result.shapes.size(), 1);
    ASSERT_LE(result.shapes.size(), world.profile.max_distinct_shapes);
    double cost = 0;
    for (size_t i = 0; i < result.shapes.size(); ++i) {
      const TunedShape& shape = result.shapes[i];
      ExpectConsistent(world, shape);
      EXPECT_GE(shape.packs, 1);
      cost += shape.epoch_cost;
      for (size_t k = 0; i != 0 && k < shape.capacities.size(); ++k) {
        if (world.profile.components[k].relative_cost > 0) {
          EXPECT_LE(shape.capacities[k], result.shapes[i - 1].capacities[k]);
        }
      }
    }
    EXPECT_DOUBLE_EQ(result.epoch_cost, cost);
    EXPECT_LE(result.least_cost, result.epoch_cost);
    EXPECT_LE(result.epoch_cost, result.single_shape.epoch_cost);
    if (result.shapes.size() == 1) {
      EXPECT_EQ(result.shapes[0].capacities, result.single_shape.capacities);
    } else {
      ++better;
    }
    AddResult(result, answers);
    if (HasFailure()) return;
  }
  EXPECT_GT(better, 10);
  EXPECT_EQ(answers.value(), 2616564309400219641U);
}

// A few huge graphs force a batch that the others cannot fill for lack of places.
TEST(LimitTunerTest, AFewHugeGraphsGetAShapeOfTheirOwn) {
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  Random random(1);
  for (int i = 0; i < 5000; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(5, 40));
    ASSERT_THAT(world.histogram.Add({nodes, 2 * nodes}), IsOk());
  }
  ASSERT_THAT(world.histogram.Add({20'000, 70'000}, 2), IsOk());
  world.profile.components = {{1, 65'536, 8, 0, 1}, {1, 131'072, 8, 0, 1}, {1, 32, 1, 0, 0}};
  world.profile.max_distinct_shapes = 2;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, {}));
  ASSERT_THAT(result.shapes, SizeIs(2));
  EXPECT_EQ(result.shapes[0].packs, 2);
  EXPECT_LT(result.epoch_cost, result.single_shape.epoch_cost / 20);
  EXPECT_LT(result.epoch_cost, result.least_cost * 1.02);
  EXPECT_THAT(result.reasons, Contains(HasSubstr("graphs that fit no smaller one: 2.")));
  EXPECT_THAT(result.reasons, Contains(HasSubstr("graphs 32 forces")));
}

TEST(LimitTunerTest, ReasonsSayWhatDecided) {
  TuningWorld world = {SizeHistogram(2), DeviceProfile(), SizeSchema::NodesAndEdges()};
  ASSERT_THAT(world.histogram.Add({10, 20}, 1000), IsOk());
  world.profile.components = {{1, 100, 10, 0, 1}, {1, 200, 20, 0, 1}, {1, 1, 1, 0, 0}};
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, {}));
  EXPECT_THAT(
      result.reasons,
      ElementsAre("1000 packs of nodes 10, edges 20, graphs 1 cost 30000 an epoch, 0 % more than "
                  "the real rows, which no limits can undercut.",
                  "No plan for this shape has fewer packs: that is its bound by the volume of "
                  "nodes.",
                  "1 of 100 candidates were planned; bounds exclude the others.",
                  "nodes 10 is the least that min_rows allows.", "nodes must be a multiple of 10.",
                  "edges 20 is the least that min_rows allows.",
                  "edges must be a multiple of 20."));
}

struct DataCase {
  const char* name;
  uint64_t max_nodes;
  uint64_t max_edges;
};

class TuneDataTest : public testing::TestWithParam<DataCase> {};

// Real molecules at limits that a device might have: hardly any padding.
TEST_P(TuneDataTest, BothEfficienciesAreNearlyOne) {
  std::optional<SizeHistogram> histogram = ReadHistogram(GetParam().name);
  if (!histogram) {
    GTEST_SKIP() << "no hist/" << GetParam().name << ".csv in " << SharedData();
  }
  TuningWorld world = {*std::move(histogram), DeviceProfile(), SizeSchema::NodesAndEdges()};
  world.profile.components = {
      {1, GetParam().max_nodes, 1, 0, 1}, {1, GetParam().max_edges, 1, 0, 1}, {1, 256, 1, 0, 0}};
  for (const TuneObjective objective : {TuneObjective::kEpochCost, TuneObjective::kHarmonicMean}) {
    TuneOptions options;
    options.objective = objective;
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
    EXPECT_TRUE(result.exact);
    ExpectTakesAll(world, result.single_shape);
    EXPECT_GE(result.single_shape.components[0].efficiency, 0.999);
    EXPECT_GE(result.single_shape.components[1].efficiency, 0.999);
  }
}

INSTANTIATE_TEST_SUITE_P(Data, TuneDataTest,
                         testing::Values(DataCase{"molhiv_train", 512, 1152},
                                         DataCase{"molpcba_train", 512, 1152},
                                         DataCase{"qm9_h", 256, 576}),
                         [](const testing::TestParamInfo<DataCase>& parameter) {
                           return std::string(parameter.param.name);
                         });

// The grid of the companion notebook, where the bound is out of reach.
TEST(TuneNotebookGridTest, TheBestOfTheGridIsNearTheBound) {
  std::optional<SizeHistogram> histogram = ReadHistogram("pcqm4mv2_train_heatmap");
  if (!histogram) GTEST_SKIP() << "no pcqm4mv2_train_heatmap.csv in " << SharedData();
  TuningWorld world = {*std::move(histogram), DeviceProfile(), SizeSchema::NodesAndEdges()};
  world.profile.components = {{20, 59, 1, 0, 1}, {54, 160, 2, 0, 1}, {1, 256, 1, 0, 0}};
  TuneOptions options;
  options.objective = TuneObjective::kHarmonicMean;
  PH_ASSERT_OK_AND_ASSIGN(const TuneResult result, Tune(world, options));
  EXPECT_TRUE(result.exact);
  EXPECT_GE(result.harmonic_mean, 0.997);
}

}  // namespace
}  // namespace packhouse
