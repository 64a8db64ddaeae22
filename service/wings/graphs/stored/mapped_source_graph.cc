#include "service/wings/graphs/stored/mapped_source_graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// What an array without elements points to.
constexpr uint64_t kNothing = 0;

// The arrays of a folder.
struct MappedFiles {
  std::shared_ptr<const GraphSpace> space;
  std::vector<FileMap> maps;
};

absl::Span<const uint64_t> Numbers(const char* data, uint64_t count) {
  return {reinterpret_cast<const uint64_t*>(data), count};
}

// Rows between two calls of `progress`.
constexpr uint64_t kCheckedRows = 4096;

absl::Status CheckOffsets(absl::Span<const uint64_t> offsets, const std::string& what,
                          absl::FunctionRef<bool()> progress) {
  for (size_t r = 0; r + 1 < offsets.size(); ++r) {
    if (r % kCheckedRows == 0 && !progress()) return absl::CancelledError("given up");
    if (offsets[r] > offsets[r + 1]) {
      return absl::DataLossError(absl::StrCat(what, ": the offsets descend after row ", r));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAdjacency(const Adjacency& rows, uint64_t num_neighbours, uint64_t num_edges,
                            const std::string& what, absl::FunctionRef<bool()> progress) {
  PH_RETURN_IF_ERROR(CheckOffsets(rows.offsets, what, progress));
  if (!rows.offsets.empty() && (rows.offsets.front() != 0 || rows.offsets.back() != num_edges)) {
    return absl::DataLossError(
        absl::StrCat(what, ": the offsets are not those of ", num_edges, " edges"));
  }
  for (uint64_t place = 0; place < num_edges; ++place) {
    if (place % kCheckedRows == 0 && !progress()) return absl::CancelledError("given up");
    if (rows.neighbours[place] >= num_neighbours || rows.edge(place) >= num_edges) {
      return absl::DataLossError(absl::StrCat(
          what, ": the edge at place ", place, " ends at node ", rows.neighbours[place], " of ",
          num_neighbours, ", and is edge ", rows.edge(place), " of ", num_edges));
    }
  }
  return absl::OkStatus();
}

}  // namespace

SealedChecks::SealedChecks(absl::string_view graph_name, const GraphManifest& manifest)
    : graph(absl::StrCat("source graph ", Quoted(graph_name))) {
  for (const ArrayInfo& array : manifest.arrays) {
    arrays.emplace(array.name,
                   std::make_unique<const ArrayChecks>(array.name, array.block_crcs, &graph));
  }
}

absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> MappedSourceGraph::Open(
    const std::string& folder, const GraphManifest& manifest, SourceGraphInfo info,
    std::shared_ptr<const GraphSpace> space, std::shared_ptr<SealedChecks> checks) {
  auto files = std::make_shared<MappedFiles>();
  files->space = std::move(space);
  Arrays arrays;
  for (const ArrayInfo& array : manifest.arrays) {
    const std::string path = absl::StrCat(folder, "/", kArraysFolder, "/", array.name);
    auto map = FileMap::Open(path);
    if (absl::IsNotFound(map.status())) {
      return checks->graph.Add(absl::StrCat(path, ": is missing"));
    }
    if (!map.ok()) return map.status();
    if (map->bytes().size() != array.bytes) {
      return checks->graph.Add(absl::StrCat(path, ": has ", map->bytes().size(),
                                            " bytes, was sealed with ", array.bytes));
    }
    arrays.emplace(array.name, map->bytes());
    files->maps.push_back(*std::move(map));
  }
  auto graph = std::shared_ptr<MappedSourceGraph>(
      new MappedSourceGraph(std::move(info), absl::StrCat(folder, "/", kCompanionFolder),
                            std::move(arrays), std::move(files), std::move(checks)));
  PH_RETURN_IF_ERROR(graph->FindArrays());
  return std::shared_ptr<const MappedSourceGraph>(std::move(graph));
}

absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> MappedSourceGraph::OfArrays(
    Arrays arrays, std::shared_ptr<const void> owner, SourceGraphInfo info,
    std::shared_ptr<SealedChecks> checks) {
  auto graph = std::shared_ptr<MappedSourceGraph>(
      new MappedSourceGraph(std::move(info), /*companion_folder=*/"", std::move(arrays),
                            std::move(owner), std::move(checks)));
  PH_RETURN_IF_ERROR(graph->FindArrays());
  return std::shared_ptr<const MappedSourceGraph>(std::move(graph));
}

absl::StatusOr<const char*> MappedSourceGraph::Array(const std::string& name, uint64_t bytes,
                                                     CheckedArray* checked) const {
  const auto found = arrays_.find(name);
  const uint64_t size = found == arrays_.end() ? 0 : found->second.size();
  if (found == arrays_.end() || size != bytes) {
    return checks_->graph.Add(
        absl::StrCat("array ", name, " has ", size, " bytes, must have ", bytes));
  }
  const auto checks = checks_->arrays.find(name);
  if (checks != checks_->arrays.end()) {
    *checked = CheckedArray(found->second, checks->second.get());
  }
  return size == 0 ? reinterpret_cast<const char*>(&kNothing) : found->second.data();
}

absl::StatusOr<SourceColumn> MappedSourceGraph::Column(const std::string& name, uint64_t step_bytes,
                                                       bool ragged, uint64_t num_rows) const {
  SourceColumn column;
  column.row_bytes = step_bytes;
  uint64_t steps = num_rows;
  if (ragged) {
    PH_ASSIGN_OR_RETURN(const char* const offsets,
                        Array(absl::StrCat(name, kOffsetsPart), (num_rows + 1) * sizeof(uint64_t),
                              &column.checked_offsets));
    column.offsets = Numbers(offsets, num_rows + 1);
    const uint64_t end = column.checked_offsets.size();
    PH_RETURN_IF_ERROR(column.checked_offsets.Check(end - sizeof(uint64_t), end));
    steps = column.offsets.back();
  }
  PH_ASSIGN_OR_RETURN(column.data, Array(name, steps * step_bytes, &column.checked_data));
  return column;
}

absl::StatusOr<MappedSourceGraph::CheckedAdjacency> MappedSourceGraph::FindAdjacency(
    size_t edge_set, bool by_source) const {
  const SourceEdgeSetSpec& set = info_.schema->edge_sets()[edge_set];
  const SourceEdgeSetOptions& options = info_.options.edge_sets[edge_set];
  const uint64_t num_rows = info_.num_nodes[by_source ? set.source : set.target];
  const uint64_t num_edges = info_.num_edges[edge_set];
  CheckedAdjacency checked;
  Adjacency& rows = checked.rows;
  PH_ASSIGN_OR_RETURN(const char* const offsets,
                      Array(AdjacencyArray(edge_set, by_source, kOffsetsPart),
                            (num_rows + 1) * sizeof(uint64_t), &checked.offsets));
  rows.offsets = Numbers(offsets, num_rows + 1);
  PH_ASSIGN_OR_RETURN(const char* const neighbours,
                      Array(AdjacencyArray(edge_set, by_source, kNeighboursPart),
                            num_edges * sizeof(uint32_t), &checked.neighbours));
  rows.neighbours = {reinterpret_cast<const uint32_t*>(neighbours), num_edges};
  // Edges are stored in the order of their first direction.
  if (options.by_source && !by_source) {
    PH_ASSIGN_OR_RETURN(const char* const edges,
                        Array(AdjacencyArray(edge_set, by_source, kEdgesPart),
                              num_edges * sizeof(uint64_t), &checked.edges));
    rows.edges = Numbers(edges, num_edges);
  }
  return checked;
}

absl::StatusOr<ImportedRows> MappedSourceGraph::Rows(const std::string& name,
                                                     uint64_t count) const {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) return ImportedRows();
  SourceColumn rows;
  rows.row_bytes =
      found->second.size() == count * sizeof(uint64_t) ? sizeof(uint64_t) : sizeof(uint32_t);
  PH_ASSIGN_OR_RETURN(rows.data, Array(name, count * rows.row_bytes, &rows.checked_data));
  return ImportedRows(rows);
}

absl::StatusOr<NodesByRow> MappedSourceGraph::ByRow(size_t node_set) const {
  const std::string name = NodesByRowArray(node_set);
  const auto found = arrays_.find(name);
  // The two are there together.
  if ((found == arrays_.end()) != node_rows_[node_set].is_identity()) {
    return checks_->graph.Add(absl::StrCat("array ", name, " and ", NodeRowsArray(node_set),
                                           ": one is there without the other"));
  }
  if (found == arrays_.end()) return NodesByRow(info_.num_nodes[node_set]);
  const uint64_t num_rows = found->second.size() / sizeof(uint32_t);
  SourceColumn numbers;
  numbers.row_bytes = sizeof(uint32_t);
  PH_ASSIGN_OR_RETURN(numbers.data,
                      Array(name, num_rows * sizeof(uint32_t), &numbers.checked_data));
  return NodesByRow(numbers, num_rows);
}

absl::Status MappedSourceGraph::FindArrays() {
  const auto node_sets = info_.schema->node_sets();
  node_columns_.resize(node_sets.size());
  for (size_t n = 0; n < node_sets.size(); ++n) {
    const uint64_t num_rows = info_.num_nodes[n];
    PH_ASSIGN_OR_RETURN(
        const SourceColumn ids,
        Column(IdsArray(n, ""), integer_ids(n) ? sizeof(int64_t) : 1, !integer_ids(n), num_rows));
    ids_.push_back(ids);
    PH_ASSIGN_OR_RETURN(const ImportedRows rows, Rows(NodeRowsArray(n), num_rows));
    node_rows_.push_back(rows);
    PH_ASSIGN_OR_RETURN(const NodesByRow by_row, ByRow(n));
    by_row_.push_back(by_row);
    for (size_t c = 0; c < node_sets[n].columns.size(); ++c) {
      const SourceColumnSpec& spec = node_sets[n].columns[c];
      PH_ASSIGN_OR_RETURN(
          const SourceColumn column,
          Column(NodeColumnArray(n, c, ""), SourceStepBytes(spec), spec.ragged, num_rows));
      node_columns_[n].push_back(column);
    }
  }
  const auto edge_sets = info_.schema->edge_sets();
  edge_columns_.resize(edge_sets.size());
  by_source_.resize(edge_sets.size());
  by_target_.resize(edge_sets.size());
  edge_rows_.resize(edge_sets.size());
  for (size_t e = 0; e < edge_sets.size(); ++e) {
    if (edge_sets[e].reverse_of) continue;
    PH_ASSIGN_OR_RETURN(edge_rows_[e], Rows(EdgeRowsArray(e), info_.num_edges[e]));
    if (info_.options.edge_sets[e].by_source) {
      PH_ASSIGN_OR_RETURN(by_source_[e], FindAdjacency(e, true));
    }
    if (info_.options.edge_sets[e].by_target) {
      PH_ASSIGN_OR_RETURN(by_target_[e], FindAdjacency(e, false));
    }
    for (size_t c = 0; c < edge_sets[e].columns.size(); ++c) {
      const SourceColumnSpec& spec = edge_sets[e].columns[c];
      PH_ASSIGN_OR_RETURN(const SourceColumn column,
                          Column(EdgeColumnArray(e, c, ""), SourceStepBytes(spec), spec.ragged,
                                 info_.num_edges[e]));
      edge_columns_[e].push_back(column);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Adjacency> MappedSourceGraph::By(size_t edge_set, bool source) const {
  const size_t stored = Stored(edge_set);
  const bool by_source = source == (stored == edge_set);
  const SourceEdgeSetOptions& options = info_.options.edge_sets[stored];
  if (by_source ? options.by_source : options.by_target) {
    const CheckedAdjacency& found = (by_source ? by_source_ : by_target_)[stored];
    PH_RETURN_IF_ERROR(found.offsets.CheckAll());
    PH_RETURN_IF_ERROR(found.neighbours.CheckAll());
    PH_RETURN_IF_ERROR(found.edges.CheckAll());
    return found.rows;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("source graph ", Quoted(info_.name), ": edge set ",
                   Quoted(info_.schema->edge_sets()[edge_set].name),
                   " was created without edges by ", source ? "source" : "target"));
}

absl::StatusOr<Adjacency> MappedSourceGraph::BySource(size_t edge_set) const {
  return By(edge_set, true);
}

absl::StatusOr<Adjacency> MappedSourceGraph::ByTarget(size_t edge_set) const {
  return By(edge_set, false);
}

absl::Status MappedSourceGraph::CheckStructure(absl::FunctionRef<bool()> progress) const {
  for (size_t n = 0; n < ids_.size(); ++n) {
    PH_RETURN_IF_ERROR(CheckOffsets(ids_[n].offsets, IdsArray(n, kOffsetsPart), progress));
    for (uint64_t row = 0; row < by_row_[n].num_rows(); ++row) {
      if (row % kCheckedRows == 0 && !progress()) return absl::CancelledError("given up");
      const uint32_t node = by_row_[n].node(row);
      if (node == NodesByRow::kNone) continue;
      if (node >= info_.num_nodes[n] || node_rows_[n].row(node) != row) {
        return absl::DataLossError(absl::StrCat(NodesByRowArray(n), ": row ", row, " is node ",
                                                node, ", which is another row"));
      }
    }
    for (size_t c = 0; c < node_columns_[n].size(); ++c) {
      PH_RETURN_IF_ERROR(
          CheckOffsets(node_columns_[n][c].offsets, NodeColumnArray(n, c, kOffsetsPart), progress));
    }
  }
  for (size_t e = 0; e < edge_columns_.size(); ++e) {
    const SourceEdgeSetSpec& set = info_.schema->edge_sets()[e];
    for (size_t c = 0; c < edge_columns_[e].size(); ++c) {
      PH_RETURN_IF_ERROR(
          CheckOffsets(edge_columns_[e][c].offsets, EdgeColumnArray(e, c, kOffsetsPart), progress));
    }
    if (set.reverse_of) continue;
    if (!by_source_[e].rows.offsets.empty()) {
      PH_RETURN_IF_ERROR(CheckAdjacency(by_source_[e].rows, info_.num_nodes[set.target],
                                        info_.num_edges[e], AdjacencyArray(e, true, ""), progress));
    }
    if (!by_target_[e].rows.offsets.empty()) {
      PH_RETURN_IF_ERROR(CheckAdjacency(by_target_[e].rows, info_.num_nodes[set.source],
                                        info_.num_edges[e], AdjacencyArray(e, false, ""),
                                        progress));
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse
