// An epoch of sub-graphs, drawn from a source graph as they are needed.
//
// The seeds are shuffled, or stay in their order, and are cut into windows. PlanWindow()
// (sample_window.h) draws a window's sub-graphs for their sizes, packs them and orders the batches;
// Build() draws the sub-graphs of one batch again, with their features. So nothing of a draw is
// kept: a window in memory has some bytes for each of its sub-graphs, and any batch can be made
// again after a restart by planning its window again, if the numbers of batches of the windows
// before it are known (EpochWindows::Learn()).
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
#include "service/wings/graphs/epochs/sample_window.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"

namespace packhouse {

namespace options {
inline constexpr EpochOption kSamples = {SamplesRequest::kName, [](const EpochRequest& r) {
                                           return r.Find<SamplesRequest>() != nullptr;
                                         }};
}  // namespace options

// Besides the source: 4 bytes for each seed, and the windows that were planned last.
class SampledEpoch final : public LoadableEpoch, public EpochWindows {
 public:
  static constexpr uint32_t kDefaultWindow = 4096;
  static constexpr uint32_t kMaxWindow = 65536;
  static constexpr uint64_t kMaxWindows = 65536;

  // What does not go with samples, besides EngineRules().
  static absl::Span<const EpochRule> Rules();

  // `request` is of SamplesRequest. Plans the first window, by `plan_first` if that is given; or
  // all with exact_steps.
  //
  // INVALID_ARGUMENT for options that do not go with samples, for no seeds, for more windows than
  // kMaxWindows, and as SubGraphSource::CheckSeeds and BatchShape::Resolve. Errors of draws, naming
  // the seed; RESOURCE_EXHAUSTED and CANCELLED as `making`, whose memory must outlive the epoch;
  // `observer` too, which may be null.
  static absl::StatusOr<std::shared_ptr<const SampledEpoch>> Prepare(
      std::shared_ptr<const SubGraphSource> source, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making, SamplingObserver* observer,
      const PlanFirstWindow& plan_first = nullptr);

  const SubGraphSource& source() const { return *source_; }
  uint64_t num_seeds() const { return num_seeds_; }
  // Sub-graphs.
  uint64_t num_items() const { return num_items_; }
  uint64_t bytes() const;
  uint64_t kept_bytes() const override { return bytes(); }
  const EpochTeller* teller() const override { return teller_; }

  const EpochIdentity& identity() const override { return identity_; }
  const GraphSchema& schema() const override { return source_->schema(); }
  absl::Span<const BatchShape> shapes(size_t rank_group) const override {
    return shapes_.rank_group(rank_group);
  }
  const EpochWindows* windows() const override { return this; }
  // Of all windows, where opening the epoch plans all: `exact_steps`, or one window. Each window of
  // both epochs is drawn, unless it is kept, and the result is kept. nullopt for others, and for
  // graphs of several seeds, which are others in each epoch.
  absl::StatusOr<std::optional<Company>> MeasureCompany(const Making& making) const override;
  std::optional<Company> known_company() const override;
  // Of the first window, once it is planned; nullopt unless batches come in steps of like cost.
  std::optional<StepFigures> steps() const override;
  uint64_t NumGraphs(uint64_t number) const override;
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

  absl::Status OrderSeeds(const EpochSeed& seed, const Making& making,
                          std::vector<uint32_t>& order) const;
  uint64_t FirstItem(uint64_t window) const { return window * window_items_; }
  uint64_t IdOf(uint64_t item) const;
  // The seeds of an item, as SubGraphDrawer::Draw has them.
  struct SeedRows {
    std::vector<uint32_t> nodes;
    std::vector<uint32_t> occurrences;
  };
  // The draw of an item of an epoch; `rows` keeps its seeds.
  SubGraphDrawer::Draw DrawOf(const EpochSeed& seed, absl::Span<const uint32_t> order,
                              uint64_t item, SeedRows& rows) const;
  // The places of an item's seeds in the list of seeds.
  std::vector<uint64_t> RowsOf(uint64_t item) const;
  absl::StatusOr<std::unique_ptr<SubGraphDrawer>> TakeDrawer() const;
  void GiveBack(std::unique_ptr<SubGraphDrawer> drawer) const;
  // Draws and packs a window of an epoch, which has so many batches before it.
  absl::StatusOr<Window> Planned(const EpochSeed& seed, absl::Span<const uint32_t> order,
                                 uint64_t window, uint64_t num_before, const Making& making) const;
  absl::StatusOr<Window> WindowAt(uint64_t window, const Making& making) const;
  // The batches before a window, as far as windows are known.
  struct Known {
    uint64_t num_windows = 0;
    uint64_t num_batches = 0;
  };
  Known KnownBefore(uint64_t window) const;
  absl::StatusOr<Company> CompanyBeside(const EpochSeed& neighbour, const Making& making) const;
  Window Find(uint64_t window) const;
  // The window of a batch whose window is known, and its number there.
  std::pair<uint64_t, size_t> PlaceOf(uint64_t number) const;
  absl::StatusOr<GraphChunk> DrawBatch(const SampleWindow& window, uint64_t first_item,
                                       absl::Span<const uint32_t> items, SubGraphDrawer& drawer,
                                       MemoryHold& memory, BuiltBatch& built) const;

  const std::shared_ptr<const SubGraphSource> source_;
  const EpochRequest request_;
  const EpochBounds bounds_;
  MemoryBudget* const memory_;
  SamplingObserver* const observer_;
  const EpochSeed seed_;
  const SeedList seeds_;
  const std::shared_ptr<const MemoryHold> seeds_memory_;  // Null: it is not counted.
  const uint64_t num_seeds_;
  const uint64_t num_items_;
  const uint64_t window_items_;
  const bool draws_smaller_;
  const bool plans_all_;
  const EpochTeller* const teller_;
  // Constant after Prepare().
  EpochIdentity identity_;
  EpochShapes shapes_;
  std::vector<uint32_t> limits_;  // Of one sub-graph; empty: none.
  std::vector<uint32_t> order_;   // Rows of the seeds.
  MemoryHold order_memory_;

  mutable absl::Mutex mutex_;
  // Batches of all windows up to each, that one included.
  mutable std::vector<uint64_t> ends_ ABSL_GUARDED_BY(mutex_);
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
