#include "service/wire/export_source.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/wire/wire_sizes.h"

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
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets.Get(request.name()));
  MemoryHold memory;
  if (working != nullptr) {
    const uint64_t bytes_of_graph = 16 * info.schema->num_components() + kReaderBytes;
    PH_ASSIGN_OR_RETURN(
        memory, working->Hold(absl::StrCat("data set '", request.name(), "', which is exported"),
                              bytes_of_graph * info.num_graphs));
  }
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const DatasetReader> reader,
                      datasets.OpenReader(request.name()));
  absl::StatusOr<tfgnn::GraphSets> sets = tfgnn::GraphSets::FromSchema(*reader->info().schema);
  if (!sets.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set '", request.name(), "': ", sets.status().message()));
  }
  const size_t n = reader->num_graphs();
  if (request.first_graph() > n) {
    return absl::OutOfRangeError(absl::StrCat("first_graph: ", request.first_graph(),
                                              ", data set '", request.name(), "' has ", n,
                                              " graphs"));
  }
  const size_t first = request.first_graph();
  const uint64_t most = request.num_graphs() == 0 ? UINT64_MAX : request.num_graphs();
  const size_t end = first + std::min<uint64_t>(most, n - first);
  return std::unique_ptr<ExportSource>(new ExportSource(
      std::move(memory), std::move(reader), *std::move(sets), first, end, max_response_bytes));
}

absl::StatusOr<std::optional<v1::ExportDatasetResponse>> ExportSource::Next() {
  if (next_ == end_ && !is_first_) return std::nullopt;
  v1::ExportDatasetResponse response;
  response.set_first_graph(next_);
  std::vector<uint64_t> graph_ids;
  size_t bytes = 0;
  while (next_ < end_ && bytes < kResponseBytes) {
    PH_ASSIGN_OR_RETURN(const StoredGraph graph, reader_->Graph(next_));
    std::string& example = *response.add_examples();
    const absl::Status status = encoder_.Append(*graph.chunk, graph.index, &example);
    if (!status.ok()) return absl::FailedPreconditionError(status.message());
    if (example.size() + kBesides > max_response_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("graph ", next_, " of the data set has an example of ", example.size(),
                       " bytes, a response has at most ", max_response_bytes_));
    }
    // The last one may be large.
    if (bytes != 0 && bytes + example.size() + kBesides > max_response_bytes_) {
      response.mutable_examples()->RemoveLast();
      break;
    }
    bytes += example.size();
    graph_ids.push_back(reader_->graph_ids()[next_]);
    ++next_;
  }
  // The rows were read from the store's file, which may have been lost meanwhile.
  PH_RETURN_IF_ERROR(reader_->CheckIntact());
  response.set_graph_ids(Uint64sToWire(graph_ids));
  if (is_first_) {
    is_first_ = false;
    response.set_num_graphs(reader_->num_graphs());
    response.mutable_tfgnn_schema()->set_text(sets_.ToTfgnnText());
  }
  return response;
}

}  // namespace packhouse
