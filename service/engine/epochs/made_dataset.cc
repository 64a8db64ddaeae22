#include "service/engine/epochs/made_dataset.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kAppendBytes = uint64_t{4} << 20;
constexpr uint64_t kMostGraphsOfAppend = 4096;

absl::Status IsForeign(absl::string_view dataset, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("data set '", dataset, "': has graphs that this request has not made: ", why));
}

bool AreEqual(const StoredGraph& stored, const GraphChunk& made) {
  if (stored.chunk->sizes().tuple(stored.index) != made.sizes().tuple(0)) return false;
  for (size_t t = 0; t < made.num_columns(); ++t) {
    for (size_t plane = 0; plane < made.schema().num_planes(t); ++plane) {
      if (stored.chunk->rows(stored.index, t, plane) != made.rows(0, t, plane)) return false;
    }
  }
  return true;
}

// That the graphs of the data set are the first ones of this maker.
absl::Status CheckOwn(const DatasetInfo& info, DatasetStore& store, const Making& making,
                      GraphMaker& maker) {
  PH_RETURN_IF_ERROR(CheckSameSchema(info.name, *info.schema, maker.schema()));
  const uint64_t n = info.num_graphs;
  if (n > maker.num_graphs() || (n != maker.num_graphs() && n % maker.graphs_per_append() != 0)) {
    return IsForeign(info.name,
                     absl::StrCat("it has ", n, " graphs, appends would have ",
                                  maker.graphs_per_append(), " each, of ", maker.num_graphs()));
  }
  if (info.state == DatasetState::kSealed && n != maker.num_graphs()) {
    return IsForeign(info.name,
                     absl::StrCat("it is sealed with ", n, " graphs of ", maker.num_graphs()));
  }
  if (n == 0) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(
      const MemoryHold memory,
      making.Hold("a reader of the data set that is made",
                  n * (8 * maker.schema().num_components() + 64) + 512 * (info.num_records + 1)));
  PH_ASSIGN_OR_RETURN(const auto reader, store.OpenReader(info.name));
  PH_RETURN_IF_ERROR(CheckDatasetId(info.name, reader->info().id, info.id));
  for (const uint64_t i : {uint64_t{0}, n - 1}) {
    PH_ASSIGN_OR_RETURN(const StoredGraph stored, reader->Graph(i));
    PH_ASSIGN_OR_RETURN(const GraphChunk made, maker.Make(i, i + 1));
    if (!AreEqual(stored, made)) return IsForeign(info.name, absl::StrCat("graph ", i, " differs"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t GraphsPerAppend(uint64_t num_judged, uint64_t bytes) {
  if (num_judged == 0) return 1;
  return std::clamp<uint64_t>(kAppendBytes * num_judged / (bytes + 1), 1, kMostGraphsOfAppend);
}

absl::StatusOr<DatasetInfo> MakeDataset(GraphMaker& maker, const MadeDatasetRequest& request,
                                        DatasetStore& store, const Making& making,
                                        absl::FunctionRef<void(uint64_t num_graphs)> progress) {
  absl::StatusOr<DatasetInfo> info = store.Get(request.dataset);
  if (absl::IsNotFound(info.status())) {
    DatasetOptions options;
    options.max_bytes = request.max_bytes;
    info = store.Create(request.dataset, maker.schema(), options);
    if (absl::IsAlreadyExists(info.status())) info = store.Get(request.dataset);
  }
  PH_RETURN_IF_ERROR(info.status());
  PH_RETURN_IF_ERROR(CheckOwn(*info, store, making, maker));
  if (info->state == DatasetState::kSealed) return info;

  uint64_t done = info->num_graphs;
  const DatasetStore::Target target = {request.dataset, info->id};
  while (done < maker.num_graphs()) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    const uint64_t end = std::min(maker.num_graphs(), done + maker.graphs_per_append());
    PH_ASSIGN_OR_RETURN(const GraphChunk chunk, maker.Make(done, end));
    // Of two calls at the same time each append happens once.
    const ProducerSequence producer = {request.producer, (end - 1) / maker.graphs_per_append() + 1};
    PH_RETURN_IF_ERROR(store.AppendTo(target, chunk, {}, producer).status());
    done = end;
    progress(done);
  }
  return store.Seal(target);
}

}  // namespace packhouse
