// An epoch of sub-graphs, drawn from a source graph as they are needed.
//
// Seeds, all that are listed, a subset of them or those that are drawn, are shuffled, or stay in
// their order, and are cut into windows. PlanWindow() (sample_window.h) draws a window's sub-graphs
// for their sizes, and plans them as the epoch of a data set; Build() draws the sub-graphs of one
// batch again, with their features. So nothing of a draw is kept: a window in memory has some bytes
// for each of its sub-graphs, and any batch can be made again after a restart by planning its
// window again, if the numbers of batches of the windows before it are known
// (EpochWindows::Learn()).
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLED_EPOCH_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLED_EPOCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/fresh_batches.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/option_rules.h"
#include "service/engine/epochs/planner_result.h"
#include "service/wings/graphs/epochs/sample_window.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"

namespace packhouse {

namespace options {
inline constexpr EpochOption kSamples = {SamplesRequest::kName, [](const EpochRequest& r) {
                                           return r.Find<SamplesRequest>() != nullptr;
                                         }};
}  // namespace options

// Besides the source: 4 bytes for each seed, and the windows that were planned last. Of seeds that
// are drawn with replacement each is drawn around anew.
class SampledEpoch final : public LoadableEpoch, public EpochWindows {
 public:
  static constexpr uint32_t kDefaultWindow = 4096;
  static constexpr uint32_t kMaxWindow = 65536;
  static constexpr uint64_t kMaxWindows = 65536;
  // Of so many sub-graphs, of any of the seeds that are listed, a device's shapes are chosen: the
  // same for all epochs of a seed.
  static constexpr uint64_t kTunedBy = 4096;

  // What does not go with samples, besides EngineRules().
  static absl::Span<const EpochRule> Rules();

  // `request` is of SamplesRequest. Plans the first window, by `plan_first` if that is given; or
  // all with exact_steps.
  //
  // INVALID_ARGUMENT for options that do not go with samples, for no seeds, for more windows than
  // kMaxWindows, for a subset that names other seeds than the listed ones by their places, for a
  // draw as DrawPlaces() or with weights of another number, and as SubGraphSource::CheckSeeds and
  // ChooseShapes(). Errors of draws, naming the seed; RESOURCE_EXHAUSTED and CANCELLED as `making`,
  // whose memory must outlive the epoch; `observer` too, which may be null.
  static absl::StatusOr<std::shared_ptr<const SampledEpoch>> Prepare(
      std::shared_ptr<const SubGraphSource> source, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making, SamplingObserver* observer,
      const PlanFirstWindow& plan_first = nullptr);

  const SubGraphSource& source() const { return *source_; }
  uint64_t num_seeds() const { return order_.rows.size(); }
  uint64_t bytes() const;
  uint64_t kept_bytes() const override { return bytes(); }
  const EpochTeller* teller() const override { return teller_; }

  const EpochIdentity& identity() const override { return identity_; }
  const GraphSchema& schema() const override { return source_->schema(); }
  absl::Span<const BatchShape> shapes(size_t rank_group) const override {
    return shapes_.rank_group(rank_group);
  }
  const EpochWindows* windows() const override { return this; }
  // If a device is measured.
  std::shared_ptr<const PlannerResult> planned() const override { return planned_; }
  std::string why_shapes() const override { return shapes_.why(); }
  // Of all windows, where opening the epoch plans all: `exact_steps`, or one window. Each window of
  // both epochs is drawn, unless it is kept, and the result is kept. nullopt for others, for graphs
  // of several seeds, which are others in each epoch, and for seeds that are drawn.
  absl::StatusOr<std::optional<Company>> MeasureCompany(const Making& making) const override;
  std::optional<Company> known_company() const override;
  // Of the first window, once it is planned; nullopt unless batches come in steps of like cost.
  std::optional<StepFigures> steps() const override;
  uint64_t num_graphs() const override { return num_items_; }
  uint64_t NumGraphs(uint64_t number) const override;
  absl::StatusOr<GraphsOfBatch> GraphsOf(uint64_t number) const override;
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const override;
  absl::StatusOr<BuiltBatch> BuildPadding(size_t rank_group) const override;

  uint64_t num_windows() const override { return identity_.num_windows; }
  std::vector<uint32_t> Counts() const override;
  absl::Status Learn(absl::Span<const uint32_t> counts) const override;
  std::optional<uint64_t> FirstMissing(absl::Span<const uint64_t> batches) const override;
  absl::Status Plan(uint64_t window, const Making& making) const override;

 private:
  using Window = std::shared_ptr<const SampleWindow>;

  SampledEpoch(std::shared_ptr<const SubGraphSource> source, const EpochRequest& request,
               const EpochBounds& bounds, MemoryBudget* memory, SamplingObserver* observer);

  // The seeds of an epoch, in the order in which they make sub-graphs.
  struct SeedOrder {
    EpochSeed seed;
    MemoryHold memory;
    // Places in the list of seeds.
    std::vector<uint32_t> rows;
    // As SeedList::occurrences, by place in `rows`: with replacement, and if a seed came again.
    std::vector<uint32_t> occurrences;
  };

  // Sets selected_.
  absl::Status SelectSeeds(const std::optional<SubsetRequest>& subset, const Making& making);
  absl::StatusOr<SeedOrder> OrderSeeds(const EpochSeed& seed,
                                       const std::optional<WeightedDraw>& draw,
                                       const Making& making) const;
  // Replaces the seeds by those that are drawn from them.
  absl::Status DrawSeeds(const WeightedDraw& draw, const Making& making, SeedOrder& order) const;
  absl::Status SetShapes(const Making& making);
  absl::Status SetIdentity(const EpochRequest& request);
  uint64_t FirstItem(uint64_t window) const { return window * window_items_; }
  uint64_t IdOf(const SeedOrder& order, uint64_t item) const {
    return source_->request().seeds_per_graph == 1 ? order.rows[item] : item;
  }
  // The seeds of an item, as SubGraphDrawer::Draw has them.
  struct SeedRows {
    std::vector<uint32_t> nodes;
    std::vector<uint32_t> occurrences;
  };
  // The draw of an item of an epoch; `rows` keeps its seeds.
  SubGraphDrawer::Draw DrawOf(const SeedOrder& order, uint64_t item, SeedRows& rows) const;
  // Draws it as much smaller as it takes to fit one of the shapes, if that is asked for.
  // OUT_OF_RANGE if it fits none.
  absl::Status DrawToFit(SubGraphDrawer::Draw draw, SubGraphDrawer& drawer) const;
  absl::Status CheckFits(absl::Span<const uint32_t> tuple) const;
  // The places of an item's seeds in the list of seeds.
  std::vector<uint64_t> RowsOf(uint64_t item) const;
  absl::StatusOr<std::unique_ptr<SubGraphDrawer>> TakeDrawer() const;
  void GiveBack(std::unique_ptr<SubGraphDrawer> drawer) const;
  // Draws and plans a window of an epoch, which has so many batches of each rank group before it.
  absl::StatusOr<Window> Planned(const SeedOrder& order, uint64_t window,
                                 absl::Span<const uint64_t> num_before, const Making& making) const;
  absl::StatusOr<Window> WindowAt(uint64_t window, const Making& making) const;
  // The batches before a window, as far as windows are known.
  struct Known {
    uint64_t num_windows = 0;
    std::vector<uint64_t> num_batches;  // By rank group.
  };
  Known KnownBefore(uint64_t window) const;
  absl::StatusOr<Company> CompanyBeside(const EpochSeed& neighbour, const Making& making) const;
  Window Find(uint64_t window) const;
  // Where a batch is whose window is known.
  struct BatchPlace {
    uint64_t window = 0;
    size_t rank_group = 0;
    uint64_t index = 0;  // Of the rank group's batches of the window.
  };
  BatchPlace PlaceOf(uint64_t number) const;
  // The items of a batch of its window.
  static absl::Span<const uint32_t> ItemsAt(const SampleWindow& window, const BatchPlace& place);
  // Sub-graphs of a batch, as they were drawn when their window was planned.
  struct DrawnBatch {
    MemoryHold memory;
    GraphChunk graphs;
    // The sums of their sizes, `graphs` last.
    std::vector<uint64_t> rows;
    std::vector<std::pair<uint64_t, uint32_t>> smaller;
  };
  // `whole`: with features.
  absl::StatusOr<DrawnBatch> DrawBatch(uint64_t number, bool whole) const;
  absl::StatusOr<DrawnBatch> DrawItemsAt(const SampleWindow& window, const BatchPlace& place,
                                         bool whole, SubGraphDrawer& drawer) const;

  const std::shared_ptr<const SubGraphSource> source_;
  // Constant after Prepare(): as it is for a window.
  EpochRequest request_;
  const EpochBounds bounds_;
  MemoryBudget* const memory_;
  SamplingObserver* const observer_;
  const EpochSeed seed_;
  const SeedList seeds_;
  const std::shared_ptr<const MemoryHold> seeds_memory_;  // Null: it is not counted.
  const uint64_t num_listed_;
  const uint64_t window_items_;
  const bool draws_smaller_;
  const bool exact_steps_;
  const bool is_drawn_;
  const EpochTeller* const teller_;
  // Constant after Prepare().
  std::optional<std::vector<uint32_t>> selected_;  // Places in the list of seeds, ascending.
  MemoryHold selected_memory_;
  SeedOrder order_;
  uint64_t num_items_ = 0;
  EpochShapes shapes_;
  std::vector<const BatchShape*> leading_;     // EpochShapes::Leading().
  std::vector<std::vector<uint32_t>> limits_;  // Of one sub-graph, of each of these.
  std::shared_ptr<const PlannerResult> planned_;
  EpochIdentity identity_;
  std::vector<uint64_t> first_batches_;  // EpochIdentity::first_batches().

  mutable absl::Mutex mutex_;
  // By rank group, the batches of all windows up to each, that one included.
  mutable std::vector<std::vector<uint64_t>> ends_ ABSL_GUARDED_BY(mutex_);
  mutable std::optional<Company> company_ ABSL_GUARDED_BY(mutex_);
  mutable std::optional<StepFigures> steps_ ABSL_GUARDED_BY(mutex_);
  // The windows that were used last, the latest first; and how many are kept, if more than usual:
  // a step of many ranks lies in many windows.
  mutable size_t most_kept_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::list<std::pair<uint64_t, Window>> kept_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<std::unique_ptr<SubGraphDrawer>> drawers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLED_EPOCH_H_
