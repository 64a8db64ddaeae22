// The engine in a program of one's own: an epoch of a data set on the disk, without a server, a
// socket or a message of the contract.
//
//     embedded_epoch FOLDER BATCHES
//
// The first run makes a data set of a thousand rings in FOLDER. Each run then loads up to BATCHES
// batches of one epoch, and acknowledges each after printing the ids of its graphs, a line a batch.
// The next run goes on after them, however this one ended: each graph comes once in the epoch.
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/jobs/loader.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/logs/lmdb_job_logs.h"

namespace {

using namespace packhouse;  // NOLINT(google-build-using-namespace): a program.

constexpr char kRings[] = "rings";
constexpr uint32_t kNumRings = 1000;

// A row of `x` for each node; an edge is two of its graph's nodes.
absl::StatusOr<GraphSchema> RingSchema() {
  PH_ASSIGN_OR_RETURN(SizeSchema sizes, SizeSchema::Create({"nodes", "edges"}));
  TensorSpec x;
  x.name = "x";
  x.dtype = DType::kFloat32;
  x.component = 0;
  TensorSpec edge_index;
  edge_index.name = "edge_index";
  edge_index.dtype = DType::kInt32;
  edge_index.row_shape = {2};
  edge_index.component = 1;
  edge_index.index_into = 0;
  return GraphSchema::Create(std::move(sizes), {std::move(x), std::move(edge_index)});
}

template <typename T>
absl::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Ring i has 3 to 42 nodes, and as many edges. All are appended at once: after a kill the data set
// is not there, is empty, or has all.
absl::Status MakeRings(DatasetStore& store) {
  PH_ASSIGN_OR_RETURN(const GraphSchema schema, RingSchema());
  auto created = store.Create(kRings, schema, {}).status();
  if (!created.ok() && !absl::IsAlreadyExists(created)) return created;
  std::vector<uint32_t> counts;
  std::vector<float> x;
  std::vector<int32_t> edge_index;
  for (uint32_t ring = 0; ring < kNumRings; ++ring) {
    const auto nodes = static_cast<int32_t>(3 + ring % 40);
    counts.insert(counts.end(), 2, static_cast<uint32_t>(nodes));
    for (int32_t node = 0; node < nodes; ++node) {
      x.push_back(static_cast<float>(ring));
      edge_index.insert(edge_index.end(), {node, (node + 1) % nodes});
    }
  }
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      SizeTable::WithConsecutiveIds(kNumRings, 2, std::move(counts), 0));
  PH_ASSIGN_OR_RETURN(
      const GraphChunk chunk,
      GraphChunk::Create(&schema, std::move(sizes), {BytesOf(x), BytesOf(edge_index)}, nullptr));
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, store.Get(kRings));
  if (info.num_graphs == 0) {
    PH_RETURN_IF_ERROR(store.Append(kRings, chunk, {}, std::nullopt).status());
  }
  return store.Seal(kRings).status();
}

EpochRequest FirstEpoch() {
  EpochRequest request;
  request.dataset = kRings;
  request.key = {.job = "example", .epoch = 0};
  request.seed = 7;
  // Of nodes, edges and graphs of a batch.
  request.rank_groups.push_back({{{512, 512, 64}}, std::nullopt, 1});
  request.padding = Padding::kMasked;
  return request;
}

absl::Status Run(const std::string& folder, uint64_t most_batches) {
  LmdbDatasetStore::Options of_store;
  of_store.folder = folder + "/datasets";
  of_store.max_bytes = uint64_t{1} << 30;
  PH_ASSIGN_OR_RETURN(const auto store, LmdbDatasetStore::Open(of_store));
  const absl::StatusOr<DatasetInfo> rings = store->Get(kRings);
  if (!rings.ok() && !absl::IsNotFound(rings.status())) return rings.status();
  if (!rings.ok() || rings->state != DatasetState::kSealed) PH_RETURN_IF_ERROR(MakeRings(*store));

  // Everything below it holds its memory from the budget, and is destroyed before what it uses.
  MemoryBudget memory(uint64_t{256} << 20);
  LmdbJobLogs::Options of_logs;
  of_logs.folder = folder + "/jobs";
  PH_ASSIGN_OR_RETURN(const auto logs, LmdbJobLogs::Open(of_logs));
  EpochCatalog catalog(store.get(), EpochBounds(), &memory);
  // Without executors the loader does all its work in the calling thread.
  Loader loader(&catalog, &memory);
  PH_ASSIGN_OR_RETURN(const auto jobs, Jobs::Create(&loader, logs.get(), JobsOptions(), &memory));

  const SystemClock clock;
  const EpochRequest request = FirstEpoch();
  PH_ASSIGN_OR_RETURN(const Jobs::Place place, jobs->Open(request.key.job));
  JoinRequest join;
  join.sharing = Sharing::Ranked(1);
  join.now = clock.Now();
  constexpr size_t kMaxInFlight = 2;
  PH_ASSIGN_OR_RETURN(const auto session,
                      loader.Load(place.job, request, join, kMaxInFlight, /*wake=*/[] {}));
  for (uint64_t given = 0; given < most_batches; ++given) {
    PH_ASSIGN_OR_RETURN(const LoadEvent event, session->Next(clock.Now()));
    if (event.kind != LoadEvent::Kind::kBatch) break;
    const Batch& batch = event.built.batch;
    std::cout << absl::StrJoin(batch.graph_ids, " ") << '\n';
    PH_RETURN_IF_ERROR(place.job
                           ->Acknowledge(request.key.epoch, session->start().session,
                                         session->start().join.generation, {event.number},
                                         clock.Now())
                           .status());
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t batches = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &batches)) {
    std::cerr << "usage: embedded_epoch FOLDER BATCHES\n";
    return 2;
  }
  const absl::Status status = Run(argv[1], batches);
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
