// A plan, and the opening of an epoch, whichever of their steps fails: made, or an error, and
// nothing is held.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/failing_steps/epoch_world.h"
#include "tests/support/failing_steps.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

class PlanWorld final : public StepsWorld {
 public:
  explicit PlanWorld(CountedSteps& asked, bool is_memory) : asked_(asked), is_memory_(is_memory) {
    Random random(5);
    for (int i = 0; i < 60; ++i) {
      const uint32_t sizes[2] = {static_cast<uint32_t>(random.Between(1, 500)),
                                 static_cast<uint32_t>(random.Between(1, 500))};
      EXPECT_TRUE(histogram_.Add(sizes, random.Between(1, 20)).ok());
    }
  }
  absl::Status Attempt() override {
    PlanMemory memory([this](uint64_t) { return !is_memory_ || !asked_.Fails(); });
    OptimizerOptions options;
    options.steps = 1'000'000;
    options.memory = &memory;
    if (!is_memory_) options.given_up = [this] { return asked_.Fails(); };
    const auto plan = OptimizePlan(histogram_, *Limits::Create({900, 900, 50}), options);
    if (plan.ok()) state_ = absl::StrCat(plan->packs, " packs, at least ", plan->bound.packs);
    return plan.status();
  }
  std::string State() override { return state_; }

 private:
  CountedSteps& asked_;
  const bool is_memory_;
  SizeHistogram histogram_{2};
  std::string state_;
};

TEST(PlanStepsTest, CancelledOrRefused) {
  for (const bool is_memory : {false, true}) {
    CancelledSteps cancelled(/*lasts=*/true);
    StepsOptions options;
    options.most_steps = 40;
    const StepsTold told = ExpectDoneOrNot(
        [&] { return std::make_unique<PlanWorld>(cancelled, is_memory); }, cancelled, options);
    EXPECT_EQ(told.num_done, 0U);
  }
}

// The ways to ask for an epoch.
std::vector<std::pair<std::string, EpochRequest>> Requests(size_t num_graphs) {
  std::vector<std::pair<std::string, EpochRequest>> requests;
  const auto add = [&](std::string name) -> EpochRequest& {
    requests.emplace_back(std::move(name), DatasetWorld::Request());
    return requests.back().second;
  };
  add("shuffled");
  add("in order").in_order = true;
  add("some are cut").cuts_oversize = true;
  requests.back().second.rank_groups[0].shapes[0] = {7, 7, 6};
  EpochRequest& replaced = add("with replacement");
  replaced.draw = WeightedDraw{{}, 3 * num_graphs, true};
  EpochRequest& weighted = add("without replacement");
  weighted.draw = WeightedDraw{std::vector<double>(num_graphs, 1.5), num_graphs / 2, false};
  EpochRequest& subset = add("a subset");
  subset.subset.emplace();
  for (size_t i = 0; i < num_graphs; i += 2) subset.subset->ids.push_back(1000 + i);
  EpochRequest& shapes = add("several shapes");
  shapes.rank_groups[0].shapes.push_back({12, 15, 6});
  EpochRequest& ranks = add("unequal ranks");
  ranks.rank_groups.push_back({{{120, 260, 64}}, std::nullopt, 2});
  return requests;
}

TEST(EpochStepsTest, CancelledOrRefused) {
  DatasetWorld world(120);
  world.Seal();
  const std::shared_ptr<const DatasetReader> reader = world.store().OpenReader("graphs").value();
  StepsOptions options;
  options.most_steps = 60;
  for (const auto& [name, request] : Requests(world.num_graphs())) {
    SCOPED_TRACE(name);
    RefusedMemory memory;
    CancelledSteps cancelled;
    ExpectDoneOrNot(
        [&, &words = request] {
          return std::make_unique<EpochWorld>(
              reader, words, [&cancelled] { return cancelled.Fails(); }, memory);
        },
        cancelled, options);
    ExpectDoneOrNot(
        [&, &words = request] {
          return std::make_unique<EpochWorld>(reader, words, nullptr, memory);
        },
        memory, options);
    // A refusal that is ignored: tests/epochs/accounting_test.cc. What an epoch does without, such
    // as a copy of its rows, is refused here, too.
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace packhouse
