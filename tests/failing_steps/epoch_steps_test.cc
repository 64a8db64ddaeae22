// A plan, and the opening of an epoch, whichever of their steps fails: made, or an error, and
// nothing is held.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "service/stores/datasets/mixed_datasets.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/failing_steps/epoch_world.h"
#include "tests/failing_steps/plan_world.h"
#include "tests/support/failing_steps.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

TEST(PlanStepsTest, CancelledOrRefused) {
  for (const bool is_memory : {false, true}) {
    CancelledSteps cancelled(/*lasts=*/true);
    StepsOptions options;
    options.most_steps = 40;
    const StepsTold told = ExpectDoneOrNot(
        [&] {
          return std::make_unique<PlanWorld>(is_memory ? nullptr : &cancelled,
                                             is_memory ? &cancelled : nullptr);
        },
        cancelled, options);
    EXPECT_EQ(told.num_done, 0U);
  }
}

// The data set "more", of nine graphs.
void AppendMore(DatasetWorld& world, bool grouped) {
  Random random(2);
  DatasetOptions options;
  options.grouped = grouped;
  ASSERT_TRUE(world.store().Create("more", world.schema(), options).ok());
  const GraphChunk more = RandomChunk(random, &world.schema(), 9, 9, 5000);
  const std::vector<uint64_t> group_ids(grouped ? 9 : 0, 7);
  ASSERT_TRUE(world.store().Append("more", more, group_ids, std::nullopt).ok());
  ASSERT_TRUE(world.store().Seal("more").ok());
}

// The ways to ask for an epoch.
std::vector<std::pair<std::string, EpochRequest>> Requests(size_t num_graphs) {
  std::vector<std::pair<std::string, EpochRequest>> requests;
  requests.reserve(64);  // They are referred to.
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
  add("by rows, in buckets").by_score = ByScoreRequest{std::nullopt, 0, true, 3};
  add("by a tensor").by_score = ByScoreRequest{2, 0, false, 0};
  EpochRequest& steps = add("in steps of like cost");
  steps.cost_balanced = {BatchCost::Create({{CostForm::kRows, 0, 1}}, 2).value()};
  steps.rank_groups[0].num_ranks = 2;
  EpochRequest& devices = add("in steps of what devices cost");
  devices.cost_balanced.emplace();
  DeviceProfile device;
  device.components = {{.max_rows = 24}, {.max_rows = 30}, {.max_rows = 6, .relative_cost = 0}};
  devices.rank_groups[0] = {{}, device, 2};
  add("groups").grouped = true;
  EpochRequest& least = add("minimums");
  least.padding = Padding::kTfgnn;
  least.rank_groups[0].shapes[0] = {40, 40, 6};
  least.min_rows = MinRows({1, 0});
  EpochRequest& left_out = add("a mixture of which some are left out");
  left_out.dataset = "graphs+more";
  left_out.rank_groups[0].shapes[0] = {7, 7, 6};
  requests.push_back({"a mixture that is cut", left_out});
  requests.back().second.cuts_oversize = true;
  add("in segments").segments = SegmentsRequest{40, 2};
  const EpochRequest segments = requests.back().second;
  requests.push_back({"in segments, in steps of like cost", steps});
  requests.back().second.segments = SegmentsRequest{40, 1};
  requests.push_back({"in segments, by rows", segments});
  requests.back().second.by_score = ByScoreRequest{std::nullopt, 0, true, 3};
  requests.push_back({"a subset in segments", subset});
  requests.back().second.segments = segments.segments;
  requests.push_back({"in segments, cut", segments});
  requests.back().second.cuts_oversize = true;
  requests.back().second.rank_groups[0].shapes[0] = {7, 7, 6};
  return requests;
}

TEST(EpochStepsTest, CancelledOrRefused) {
  DatasetWorld world(120, /*seed=*/1, /*max_count=*/9, /*num_groups=*/10);
  world.Seal();
  AppendMore(world, /*grouped=*/true);
  const MixedDatasets mixed(&world.store(), nullptr);
  StepsOptions options;
  options.most_steps = 30;
  options.each_kind = true;
  for (const auto& [name, request] : Requests(world.num_graphs())) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const DatasetReader> reader = mixed.OpenReader(request.dataset).value();
    const std::shared_ptr<const DatasetChunks> chunks = mixed.OpenChunks(request.dataset).value();
    RefusedMemory memory;
    CancelledSteps cancelled;
    const StepsTold told = ExpectDoneOrNot(
        [&, &words = request] {
          return std::make_unique<EpochWorld>(
              reader, chunks, words, [&cancelled] { return cancelled.Fails(); }, memory);
        },
        cancelled, options);
    // Nothing is done for somebody who has gone. A part of a planner's work may be done without:
    // the planner asks again.
    if (name != "several shapes") {
      EXPECT_EQ(told.num_done, 0U) << "of " << told.num_steps;
    }
    ExpectDoneOrNot(
        [&, &words = request] {
          return std::make_unique<EpochWorld>(reader, chunks, words, nullptr, memory);
        },
        memory, options);
    // A refusal that is ignored: tests/epochs/accounting_test.cc. What an epoch does without, such
    // as a copy of its rows, is refused here, too.
    if (HasFailure()) return;
  }
}

// Each question to the store of data sets is a step.
class RefusingStore final : public ForwardingDatasetStore {
 public:
  RefusingStore(DatasetStore* store, CountedSteps* steps)
      : ForwardingDatasetStore(store), steps_(steps) {}
  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override {
    return steps_->Fails() ? Refusal() : store()->Get(name);
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override {
    if (steps_->Fails()) return Refusal();
    return store()->OpenReader(name);
  }
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override {
    if (steps_->Fails()) return Refusal();
    return store()->OpenChunks(name);
  }

 private:
  static absl::Status Refusal() { return absl::UnavailableError("not now"); }

  CountedSteps* const steps_;
};

// An epoch of a catalog, which keeps what it has made and not what was refused.
class CatalogWorld final : public StepsWorld {
 public:
  CatalogWorld(DatasetStore* store, CountedSteps* steps, const EpochRequest& request)
      : refusing_(store, steps), request_(request) {}
  absl::Status Attempt() override {
    const auto told = [this](const auto& epoch) {
      if (epoch.ok()) state_ = absl::StrCat((*epoch)->identity().num_batches(), " batches");
      return epoch.status();
    };
    return request_.segments ? told(catalog_.PrepareSegmented(request_))
                             : told(catalog_.Prepare(request_));
  }
  std::string State() override { return state_; }

 private:
  RefusingStore refusing_;
  const EpochRequest& request_;
  MixedDatasets mixed_{&refusing_, nullptr};
  EpochCatalog catalog_{&mixed_, EpochBounds(), nullptr};
  std::string state_;
};

TEST(EpochStepsTest, TheStoreRefuses) {
  DatasetWorld world(120);
  world.Seal();
  AppendMore(world, /*grouped=*/false);
  EpochRequest mixture = DatasetWorld::Request();
  mixture.dataset = "graphs+more";
  EpochRequest segments = DatasetWorld::Request();
  segments.segments = SegmentsRequest{40, 2};
  for (const EpochRequest& request : {DatasetWorld::Request(), mixture, segments}) {
    CountedSteps refused;
    ExpectDoneOrNot(
        [&] { return std::make_unique<CatalogWorld>(&world.store(), &refused, request); }, refused);
  }
}

}  // namespace
}  // namespace packhouse
