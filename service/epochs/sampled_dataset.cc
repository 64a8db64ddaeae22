#include "service/epochs/sampled_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/digest.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Appends have about so many bytes, judged by the first sub-graphs.
constexpr uint64_t kAppendBytes = uint64_t{4} << 20;
constexpr uint64_t kMostGraphsOfAppend = 4096;
constexpr uint64_t kGraphsToJudgeBy = 16;

absl::Status IsForeign(absl::string_view dataset, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("data set '", dataset, "': has graphs that this request has not made: ", why));
}

class Maker {
 public:
  Maker(std::shared_ptr<const SubGraphSource> source, const SampledDatasetRequest& request,
        const Making& making)
      : source_(std::move(source)),
        request_(request),
        making_(making),
        total_(source_->NumGraphs(request.seeds)) {}

  absl::Status Begin(SamplingObserver* observer) {
    PH_ASSIGN_OR_RETURN(
        drawer_, SubGraphDrawer::Create(
                     source_, request_.draws_smaller ? request_.limits : std::vector<uint32_t>(),
                     making_.memory(), observer));
    PH_ASSIGN_OR_RETURN(memory_, making_.Hold("sub-graphs that were drawn", 0));
    uint64_t bytes = 0;
    const uint64_t judged = std::min(total_, kGraphsToJudgeBy);
    for (uint64_t i = 0; i < judged; ++i) {
      PH_RETURN_IF_ERROR(Draw(i));
      bytes += drawer_->num_bytes();
    }
    per_append_ = judged == 0 ? 1
                              : std::clamp<uint64_t>(kAppendBytes * judged / (bytes + 1), 1,
                                                     kMostGraphsOfAppend);
    return absl::OkStatus();
  }

  uint64_t total() const { return total_; }
  uint64_t per_append() const { return per_append_; }
  uint64_t num_smaller() const { return num_smaller_; }

  // The graphs [begin, end).
  absl::StatusOr<GraphChunk> Make(uint64_t begin, uint64_t end) {
    SampledChunk chunk(&source_->sampled_schema());
    memory_.ShrinkTo(0);
    for (uint64_t i = begin; i < end; ++i) {
      PH_RETURN_IF_ERROR(making_.StillWanted());
      PH_RETURN_IF_ERROR(Draw(i));
      if (making_.memory() != nullptr) {
        // Columns may grow to twice their bytes.
        PH_RETURN_IF_ERROR(Hold(2 * drawer_->num_bytes()));
      }
      PH_RETURN_IF_ERROR(drawer_->AppendTo(chunk));
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
    if (!request_.seeds.times.empty()) draw.time = request_.seeds.times[i];
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
};

bool AreEqual(const StoredGraph& stored, const GraphChunk& made) {
  if (stored.chunk->sizes().tuple(stored.index) != made.sizes().tuple(0)) return false;
  for (size_t t = 0; t < made.num_columns(); ++t) {
    for (size_t plane = 0; plane < made.schema().num_planes(t); ++plane) {
      if (stored.chunk->rows(stored.index, t, plane) != made.rows(0, t, plane)) return false;
    }
  }
  return true;
}

// That the graphs of the data set are the first ones of this request.
absl::Status CheckOwn(const DatasetInfo& info, const SubGraphSource& source, DatasetStore& store,
                      const Making& making, Maker& maker) {
  PH_RETURN_IF_ERROR(CheckSameSchema(info.name, *info.schema, source.schema()));
  const uint64_t n = info.num_graphs;
  if (n > maker.total() || (n != maker.total() && n % maker.per_append() != 0)) {
    return IsForeign(info.name, absl::StrCat("it has ", n, " graphs, appends would have ",
                                             maker.per_append(), " each, of ", maker.total()));
  }
  if (info.state == DatasetState::kSealed && n != maker.total()) {
    return IsForeign(info.name,
                     absl::StrCat("it is sealed with ", n, " graphs of ", maker.total()));
  }
  if (n == 0) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(
      const MemoryHold memory,
      making.Hold("a reader of the sampled data set",
                  n * (8 * source.schema().num_components() + 64) + 512 * (info.num_records + 1)));
  PH_ASSIGN_OR_RETURN(const auto reader, store.OpenReader(info.name));
  for (const uint64_t i : {uint64_t{0}, n - 1}) {
    PH_ASSIGN_OR_RETURN(const StoredGraph stored, reader->Graph(i));
    PH_ASSIGN_OR_RETURN(const GraphChunk made, maker.Make(i, i + 1));
    if (!AreEqual(stored, made)) return IsForeign(info.name, absl::StrCat("graph ", i, " differs"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DatasetInfo> MakeSampledDataset(
    std::shared_ptr<const SubGraphSource> source, const SampledDatasetRequest& request,
    DatasetStore& store, const Making& making, SamplingObserver* observer,
    absl::FunctionRef<void(const SampledDatasetProgress&)> progress) {
  Maker maker(source, request, making);
  PH_RETURN_IF_ERROR(maker.Begin(observer));
  absl::StatusOr<DatasetInfo> info = store.Get(request.dataset);
  if (absl::IsNotFound(info.status())) {
    DatasetOptions options;
    options.max_bytes = request.max_bytes;
    info = store.Create(request.dataset, source->schema(), options);
    if (absl::IsAlreadyExists(info.status())) info = store.Get(request.dataset);
  }
  PH_RETURN_IF_ERROR(info.status());
  PH_RETURN_IF_ERROR(CheckOwn(*info, *source, store, making, maker));
  if (info->state == DatasetState::kSealed) return info;

  SampledDatasetProgress done = {info->num_graphs, maker.total(), 0};
  const DatasetStore::Target target = {request.dataset, info->id};
  while (done.num_graphs < maker.total()) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    const uint64_t end = std::min(maker.total(), done.num_graphs + maker.per_append());
    PH_ASSIGN_OR_RETURN(const GraphChunk chunk, maker.Make(done.num_graphs, end));
    // Of two calls at the same time each append happens once.
    const ProducerSequence producer = {"sampled", (end - 1) / maker.per_append() + 1};
    PH_RETURN_IF_ERROR(store.AppendTo(target, chunk, {}, producer).status());
    done.num_graphs = end;
    done.num_drawn_smaller = maker.num_smaller();
    progress(done);
  }
  return store.Seal(request.dataset);
}

}  // namespace packhouse
