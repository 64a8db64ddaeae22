#include "service/wings/graphs/epochs/sampled_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/made_dataset.h"

namespace packhouse {
namespace {

constexpr uint64_t kGraphsToJudgeBy = 16;

class Maker final : public GraphMaker {
 public:
  Maker(std::shared_ptr<const SubGraphSource> source, const SampledDatasetRequest& request,
        const Making& making)
      : source_(std::move(source)),
        request_(request),
        making_(making),
        total_(source_->NumGraphs(request.seeds)) {}

  absl::Status Begin(SamplingObserver* observer) {
    PH_ASSIGN_OR_RETURN(drawer_, SubGraphDrawer::Create(source_, making_.memory(), observer));
    PH_ASSIGN_OR_RETURN(memory_, making_.Hold("sub-graphs that were drawn", 0));
    uint64_t bytes = 0;
    const uint64_t judged = std::min(total_, kGraphsToJudgeBy);
    for (uint64_t i = 0; i < judged; ++i) {
      PH_RETURN_IF_ERROR(Draw(i));
      bytes += drawer_->num_bytes();
    }
    per_append_ = GraphsPerAppend(judged, bytes);
    return absl::OkStatus();
  }

  const GraphSchema& schema() const override { return source_->schema(); }
  uint64_t num_graphs() const override { return total_; }
  uint64_t graphs_per_append() const override { return per_append_; }
  uint64_t num_smaller() const { return num_smaller_; }

  absl::StatusOr<GraphChunk> Make(uint64_t begin, uint64_t end) override {
    SampledChunk chunk(&source_->sampled_schema());
    memory_.ShrinkTo(0);
    for (uint64_t i = begin; i < end; ++i) {
      PH_RETURN_IF_ERROR(making_.StillWanted());
      PH_RETURN_IF_ERROR(Draw(i));
      if (making_.memory() != nullptr) {
        // Columns may grow to twice their bytes.
        PH_RETURN_IF_ERROR(Hold(2 * drawer_->num_bytes()));
      }
      const uint64_t seeds = source_->request().seeds_per_graph;
      PH_RETURN_IF_ERROR(drawer_->AppendTo(
          chunk, readout_.Gather(*source_, request_.seeds, i * seeds,
                                 std::min(source_->NumSeeds(request_.seeds), (i + 1) * seeds))));
      if (drawer_->level() != 0) ++num_smaller_;
    }
    return chunk.Finish(begin);
  }

 private:
  absl::Status Hold(uint64_t bytes) {
    if (memory_.bytes() != 0) return making_.Grow("sub-graphs that were drawn", bytes, memory_);
    PH_ASSIGN_OR_RETURN(memory_, making_.Hold("sub-graphs that were drawn", bytes));
    return absl::OkStatus();
  }

  absl::Status Draw(uint64_t i) {
    const size_t per_graph = source_->nodes_per_graph();
    SubGraphDrawer::Draw draw;
    draw.seed_number = request_.seed.seed;
    draw.epoch = request_.seed.epoch;
    nodes_.clear();
    if (request_.seeds.nodes == nullptr) {
      const uint64_t end = std::min(source_->NumSeeds(request_.seeds), (i + 1) * per_graph);
      for (uint64_t node = i * per_graph; node < end; ++node) {
        nodes_.push_back(static_cast<uint32_t>(node));
      }
      draw.seeds = nodes_;
    } else {
      draw.seeds = absl::MakeConstSpan(*request_.seeds.nodes).subspan(i * per_graph, per_graph);
    }
    if (!request_.seeds.occurrences.empty()) {
      const uint64_t seeds = source_->request().seeds_per_graph;
      draw.occurrences = absl::MakeConstSpan(request_.seeds.occurrences).subspan(i * seeds, seeds);
    }
    if (!request_.seeds.times.empty()) draw.time = request_.seeds.times[i];
    if (request_.draws_smaller) draw.limits = request_.limits;
    const absl::Status drawn = drawer_->Next(draw);
    if (!drawn.ok()) {
      return absl::Status(drawn.code(), absl::StrCat("sub-graph ", i, ": ", drawn.message()));
    }
    for (size_t k = 0; !request_.draws_smaller && k < request_.limits.size(); ++k) {
      if (drawer_->tuple()[k] <= request_.limits[k]) continue;
      return absl::OutOfRangeError(absl::StrCat(
          "sub-graph ", i, " of seed node ", draw.seeds[0], ": has ", drawer_->tuple()[k], " ",
          source_->schema().sizes().name(k), ", at most ", request_.limits[k]));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const SubGraphSource> source_;
  const SampledDatasetRequest& request_;
  const Making& making_;
  const uint64_t total_;
  std::optional<SubGraphDrawer> drawer_;
  MemoryHold memory_;
  uint64_t per_append_ = 1;
  uint64_t num_smaller_ = 0;
  std::vector<uint32_t> nodes_;
  SeedReadout readout_;
};

}  // namespace

absl::StatusOr<DatasetInfo> MakeSampledDataset(
    std::shared_ptr<const SubGraphSource> source, const SampledDatasetRequest& request,
    DatasetStore& store, const Making& making, SamplingObserver* observer,
    absl::FunctionRef<void(const SampledDatasetProgress&)> progress) {
  PH_RETURN_IF_ERROR(source->CheckHasReadout(request.seeds));
  Maker maker(source, request, making);
  PH_RETURN_IF_ERROR(maker.Begin(observer));
  return MakeDataset(maker, {request.dataset, request.max_bytes, "sampled"}, store, making,
                     [&](uint64_t num_graphs) {
                       progress({num_graphs, maker.num_graphs(), maker.num_smaller()});
                     });
}

}  // namespace packhouse
