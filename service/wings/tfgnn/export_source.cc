#include "service/wings/tfgnn/export_source.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"

namespace packhouse {
namespace {

// What a response has beside its examples: ids, lengths, the schema.
constexpr size_t kBesides = size_t{64} << 10;
// Memory that a reader takes for each graph, beside its counts (see DatasetStore::OpenReader).
constexpr uint64_t kReaderBytes = 40;

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSource>> ExportSource::Open(
    const v1::ExportDatasetRequest& request, const DatasetStore& datasets,
    size_t max_response_bytes, MemoryBudget* working) {
  const std::string& name = request.name();
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets.Get(name));
  Graphs graphs;
  if (working != nullptr) {
    const uint64_t bytes_of_graph = 16 * info.schema->num_components() + kReaderBytes;
    PH_ASSIGN_OR_RETURN(graphs.memory,
                        working->Hold(absl::StrCat("data set '", name, "', which is exported"),
                                      bytes_of_graph * info.num_graphs));
  }
  PH_ASSIGN_OR_RETURN(graphs.reader, datasets.OpenReader(name));
  return OpenPart(std::move(graphs), request.first_graph(), request.num_graphs(),
                  max_response_bytes);
}

absl::StatusOr<std::unique_ptr<ExportSource>> ExportSource::OpenEpoch(
    const v1::ExportEpochRequest& request, std::unique_ptr<Evaluation> pass,
    size_t max_response_bytes) {
  Graphs graphs;
  graphs.pass = std::move(pass);
  return OpenPart(std::move(graphs), request.first_graph(), request.num_graphs(),
                  max_response_bytes);
}

absl::string_view ExportSource::Graphs::name() const {
  return pass == nullptr ? reader->info().name : pass->epoch().identity().dataset;
}

const GraphSchema& ExportSource::Graphs::schema() const {
  return pass == nullptr ? *reader->info().schema : pass->epoch().schema();
}

uint64_t ExportSource::Graphs::size() const {
  return pass == nullptr ? reader->num_graphs() : pass->epoch().num_graphs();
}

uint64_t ExportSource::Graphs::place(uint64_t next) const {
  return pass != nullptr ? batch[next_of_batch] : next;
}

absl::StatusOr<bool> ExportSource::Graphs::TakeUp() {
  if (pass == nullptr) return true;
  while (next_of_batch >= batch.size()) {
    PH_ASSIGN_OR_RETURN(const LoadEvent event, pass->NextPlace());
    if (event.kind == LoadEvent::Kind::kWait) return false;
    if (event.kind == LoadEvent::Kind::kEnd) {
      return absl::InternalError("export: the epoch has fewer graphs than were counted");
    }
    next_of_batch -= std::exchange(batch, {}).size();
    const uint64_t num_graphs = pass->epoch().NumGraphs(event.number);
    // No batch is empty: 0 is of one that cannot be made now, and GraphsOf() says why.
    if (num_graphs != 0 && next_of_batch >= num_graphs) {
      next_of_batch -= num_graphs;
      continue;
    }
    PH_ASSIGN_OR_RETURN(GraphsOfBatch graphs, pass->epoch().GraphsOf(event.number));
    batch = std::move(graphs.places);
    // The rows of the segment before were read from the store's file, as Next() says.
    if (reader != nullptr && reader != graphs.reader) PH_RETURN_IF_ERROR(reader->CheckIntact());
    reader = std::move(graphs.reader);
  }
  return true;
}

absl::StatusOr<std::unique_ptr<ExportSource>> ExportSource::OpenPart(Graphs graphs, uint64_t first,
                                                                     uint64_t num_graphs,
                                                                     size_t max_response_bytes) {
  absl::StatusOr<tfgnn::GraphSets> sets = tfgnn::GraphSets::FromSchema(graphs.schema());
  if (!sets.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set '", graphs.name(), "': ", sets.status().message()));
  }
  const uint64_t n = graphs.size();
  if (first > n) {
    return absl::OutOfRangeError(absl::StrCat("first_graph: ", first, ", ",
                                              graphs.pass != nullptr ? "the epoch of " : "",
                                              "data set '", graphs.name(), "' has ", n, " graphs"));
  }
  graphs.Advance(first);
  const uint64_t end = first + std::min(num_graphs == 0 ? UINT64_MAX : num_graphs, n - first);
  return std::unique_ptr<ExportSource>(
      new ExportSource(std::move(graphs), *std::move(sets), first, end, max_response_bytes));
}

absl::StatusOr<std::optional<v1::ExportDatasetResponse>> ExportSource::Next() {
  if (next_ == end_ && !is_first_) return std::nullopt;
  v1::ExportDatasetResponse response;
  response.set_first_graph(next_);
  std::vector<uint64_t> graph_ids;
  size_t bytes = 0;
  is_waiting_ = false;
  while (next_ < end_ && bytes < kResponseBytes) {
    PH_ASSIGN_OR_RETURN(const bool is_there, graphs_.TakeUp());
    if (!is_there) {
      is_waiting_ = graph_ids.empty();
      if (is_waiting_) return std::nullopt;
      break;
    }
    const uint64_t place = graphs_.place(next_);
    PH_ASSIGN_OR_RETURN(const StoredGraph graph, graphs_.reader->Graph(place));
    std::string& example = *response.add_examples();
    const absl::Status status = encoder_.Append(*graph.chunk, graph.index, &example);
    if (!status.ok()) return absl::FailedPreconditionError(status.message());
    if (example.size() + kBesides > max_response_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "graph ",
          graphs_.pass == nullptr ? absl::StrCat(place)
                                  : absl::StrCat("with id ", graphs_.reader->graph_ids()[place]),
          " of the data set has an example of ", example.size(), " bytes, a response has at most ",
          max_response_bytes_));
    }
    // The last one may be large.
    if (bytes != 0 && bytes + example.size() + kBesides > max_response_bytes_) {
      response.mutable_examples()->RemoveLast();
      break;
    }
    bytes += example.size();
    graph_ids.push_back(graphs_.reader->graph_ids()[place]);
    ++next_;
    graphs_.Advance(1);
  }
  // The rows were read from the store's file, which may have been lost meanwhile.
  if (graphs_.reader != nullptr) PH_RETURN_IF_ERROR(graphs_.reader->CheckIntact());
  response.set_graph_ids(Uint64sToWire(graph_ids));
  if (is_first_) {
    is_first_ = false;
    response.set_num_graphs(graphs_.size());
    response.mutable_tfgnn_schema()->set_text(sets_.ToTfgnnText());
  }
  return response;
}

}  // namespace packhouse
