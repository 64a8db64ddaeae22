#include "service/wings/graphs/stored/graph_sealer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/memory_budget.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/external_sort.h"
#include "service/wings/graphs/stored/logged_rows.h"
#include "service/wings/graphs/stored/node_ids.h"
#include "service/wings/graphs/stored/seal_nodes.h"
#include "service/wings/graphs/stored/seal_task.h"

namespace packhouse {
namespace {

// An edge by its ends, in the order of rows: `row` is the end by which edges are looked up first.
struct PlacedEdge {
  uint64_t ends = 0;
  uint64_t in_log = 0;  // RowPlace.

  PlacedEdge() = default;
  PlacedEdge(uint32_t row, uint32_t neighbour, uint64_t place)
      : ends(uint64_t{row} << 32 | neighbour), in_log(place) {}
  uint32_t row() const { return static_cast<uint32_t>(ends >> 32); }
  uint32_t neighbour() const { return static_cast<uint32_t>(ends); }
  uint64_t place() const { return in_log; }
};

// An edge with its number, for the other end.
struct NumberedEdge {
  uint64_t number;
  uint32_t row;
  uint32_t neighbour;
};

struct EdgeLess {
  bool operator()(const PlacedEdge& a, const PlacedEdge& b) const {
    return a.ends != b.ends ? a.ends < b.ends : a.in_log < b.in_log;
  }
  bool operator()(const NumberedEdge& a, const NumberedEdge& b) const {
    return a.row != b.row ? a.row < b.row : a.number < b.number;
  }
};

// The arrays of one direction; edges come in the order of rows.
class AdjacencyWriter {
 public:
  static absl::StatusOr<std::unique_ptr<AdjacencyWriter>> Create(SealTask& task, size_t edge_set,
                                                                 bool by_source, bool numbered,
                                                                 uint64_t num_rows) {
    auto writer = std::unique_ptr<AdjacencyWriter>(new AdjacencyWriter(num_rows));
    const auto create = [&](const char* part, std::optional<ArrayWriter>& array) -> absl::Status {
      PH_ASSIGN_OR_RETURN(array, task.NewArray(AdjacencyArray(edge_set, by_source, part)));
      return absl::OkStatus();
    };
    PH_RETURN_IF_ERROR(create(kOffsetsPart, writer->offsets_));
    PH_RETURN_IF_ERROR(create(kNeighboursPart, writer->neighbours_));
    if (numbered) PH_RETURN_IF_ERROR(create(kEdgesPart, writer->edges_));
    return writer;
  }

  absl::Status Add(uint32_t row, uint32_t neighbour, uint64_t edge) {
    PH_RETURN_IF_ERROR(BeginRows(uint64_t{row} + 1));
    ++num_edges_;
    PH_RETURN_IF_ERROR(neighbours_->AppendValue(neighbour));
    return edges_ ? edges_->AppendValue(edge) : absl::OkStatus();
  }

  absl::Status Finish(SealTask& task) {
    PH_RETURN_IF_ERROR(BeginRows(num_rows_ + 1));
    PH_RETURN_IF_ERROR(task.Finish(*offsets_));
    PH_RETURN_IF_ERROR(task.Finish(*neighbours_));
    return edges_ ? task.Finish(*edges_) : absl::OkStatus();
  }

 private:
  explicit AdjacencyWriter(uint64_t num_rows) : num_rows_(num_rows) {}

  // Offsets of rows [.., end): all that begin here.
  absl::Status BeginRows(uint64_t end) {
    for (; begun_ < end; ++begun_) PH_RETURN_IF_ERROR(offsets_->AppendValue(num_edges_));
    return absl::OkStatus();
  }

  const uint64_t num_rows_;
  uint64_t begun_ = 0;
  uint64_t num_edges_ = 0;
  std::optional<ArrayWriter> offsets_;
  std::optional<ArrayWriter> neighbours_;
  std::optional<ArrayWriter> edges_;
};

class EdgeSealer {
 public:
  EdgeSealer(SealTask& task, size_t edge_set, const std::vector<uint64_t>& num_nodes)
      : task_(task),
        set_(edge_set),
        spec_(task.definition->schema->edge_sets()[edge_set]),
        options_(task.definition->options.edge_sets[edge_set]),
        parts_(task.rows->edges(edge_set)),
        num_nodes_(num_nodes) {}

  absl::StatusOr<uint64_t> Seal() {
    using Sort = ExternalSort<PlacedEdge, EdgeLess>;
    using OtherSort = ExternalSort<NumberedEdge, EdgeLess>;
    const bool by_source = options_.by_source;
    const uint64_t memory = task_.memory_bytes / 4;
    auto sort = std::make_unique<Sort>(task_.folder, task_.space, memory, task_.work, EdgeLess());
    PH_RETURN_IF_ERROR(AddAll(*sort, by_source));

    PlaceList places(task_.folder, task_.space);
    auto other =
        std::make_unique<OtherSort>(task_.folder, task_.space, memory, task_.work, EdgeLess());
    const bool both = options_.by_source && options_.by_target;
    PH_ASSIGN_OR_RETURN(auto first,
                        AdjacencyWriter::Create(task_, set_, by_source, false, NumRows(by_source)));
    uint64_t number = 0;
    const auto add_first = [&](const PlacedEdge& edge) -> absl::Status {
      PH_RETURN_IF_ERROR(first->Add(edge.row(), edge.neighbour(), number));
      PH_RETURN_IF_ERROR(places.Add(edge.place()));
      if (both) PH_RETURN_IF_ERROR(other->Add({number, edge.neighbour(), edge.row()}));
      ++number;
      return task_.work->Advance(1);
    };
    PH_RETURN_IF_ERROR(sort->Merge(add_first));
    PH_RETURN_IF_ERROR(first->Finish(task_));
    sort.reset();
    if (both) {
      PH_ASSIGN_OR_RETURN(
          auto second, AdjacencyWriter::Create(task_, set_, !by_source, true, NumRows(!by_source)));
      const auto add_second = [&](const NumberedEdge& edge) -> absl::Status {
        PH_RETURN_IF_ERROR(second->Add(edge.row, edge.neighbour, edge.number));
        return task_.work->Advance(1);
      };
      PH_RETURN_IF_ERROR(other->Merge(add_second));
      PH_RETURN_IF_ERROR(second->Finish(task_));
    }
    other.reset();
    for (size_t c = 0; c < spec_.columns.size(); ++c) {
      PH_RETURN_IF_ERROR(WriteColumn(task_, parts_, 2 + c, spec_.columns[c],
                                     EdgeColumnArray(set_, c, ""), places));
    }
    PH_RETURN_IF_ERROR(WriteRows(task_, parts_, EdgeRowsArray(set_), places).status());
    return number;
  }

 private:
  uint64_t NumRows(bool by_source) const {
    return num_nodes_[by_source ? spec_.source : spec_.target];
  }

  absl::Status AddAll(ExternalSort<PlacedEdge, EdgeLess>& sort, bool by_source) {
    PH_ASSIGN_OR_RETURN(const SealedIds source_ids,
                        SealedIds::Open(task_, spec_.source, num_nodes_[spec_.source]));
    PH_ASSIGN_OR_RETURN(const SealedIds target_ids,
                        SealedIds::Open(task_, spec_.target, num_nodes_[spec_.target]));
    const NodeLookup sources = source_ids.Lookup(task_.memory_bytes / 4);
    const NodeLookup targets = target_ids.Lookup(task_.memory_bytes / 4);
    IdColumns source_columns(task_.definition->options.node_sets[spec_.source].integer_ids);
    IdColumns target_columns(task_.definition->options.node_sets[spec_.target].integer_ids);
    for (size_t p = 0; p < parts_.size(); ++p) {
      source_columns.Add(parts_[p].arrays[0], parts_[p].num_rows);
      target_columns.Add(parts_[p].arrays[1], parts_[p].num_rows);
      for (uint64_t row = 0; row < parts_[p].num_rows; ++row) {
        const auto source = sources.Find(source_columns, source_columns.At(p, row));
        const auto target = targets.Find(target_columns, target_columns.At(p, row));
        if (!source || !target) {
          return absl::InternalError(
              absl::StrCat("edge set ", spec_.name, ": an end of an edge has no number"));
        }
        const uint64_t place = RowPlace::Of(p, row);
        PH_RETURN_IF_ERROR(sort.Add(by_source ? PlacedEdge(*source, *target, place)
                                              : PlacedEdge(*target, *source, place)));
        PH_RETURN_IF_ERROR(task_.work->Advance(1));
      }
    }
    return absl::OkStatus();
  }

  SealTask& task_;
  const size_t set_;
  const SourceEdgeSetSpec& spec_;
  const SourceEdgeSetOptions& options_;
  const absl::Span<const StoredRows> parts_;
  const std::vector<uint64_t>& num_nodes_;
};

// Writes the arrays of an edge set that is not reversed; returns the number of its edges.
// `num_nodes` are those of all node sets, whose ids are written. Errors as
// SourceGraphStore::Seal().
absl::StatusOr<uint64_t> SealEdges(SealTask& task, size_t edge_set,
                                   const std::vector<uint64_t>& num_nodes) {
  return EdgeSealer(task, edge_set, num_nodes).Seal();
}

// Blocks of the arrays that are written at the same time, and of lists of places.
constexpr uint64_t kBufferBytes = uint64_t{16} << 20;

uint64_t NewVersion() {
  std::random_device device;
  uint64_t version = 0;
  while (version == 0) version = uint64_t{device()} << 32 | device();
  return version;
}

// An upper bound of the units that the steps count, unless edges make nodes.
uint64_t WorkOf(const GraphDefinition& definition, const LoggedRows& rows) {
  uint64_t units = 1;
  for (size_t n = 0; n < definition.schema->node_sets().size(); ++n) {
    units += LoggedRows::CountRows(rows.nodes(n)) *
             (3 + definition.schema->node_sets()[n].columns.size());
  }
  for (size_t e = 0; e < definition.schema->edge_sets().size(); ++e) {
    const bool both =
        definition.options.edge_sets[e].by_source && definition.options.edge_sets[e].by_target;
    units += LoggedRows::CountRows(rows.edges(e)) *
             ((both ? 6 : 5) + definition.schema->edge_sets()[e].columns.size());
  }
  return units;
}

absl::StatusOr<GraphManifest> Seal(const GraphDefinition& definition, const std::string& folder,
                                   GraphSpace* space, const SealOptions& options,
                                   SealWork::Progress progress) {
  MemoryHold hold;
  if (options.memory != nullptr) {
    PH_ASSIGN_OR_RETURN(
        hold, options.memory->Hold("sealing a source graph", options.memory_bytes + kBufferBytes));
  }
  SealWork work(1, progress);
  PH_ASSIGN_OR_RETURN(const LoggedRows rows, LoggedRows::Open(absl::StrCat(folder, "/", kRowsFile),
                                                              definition, options.memory, work));
  work.AddTotal(WorkOf(definition, rows));
  SealTask task;
  task.definition = &definition;
  task.rows = &rows;
  task.folder = absl::StrCat(folder, "/", kArraysFolder);
  task.space = space;
  task.memory_bytes = options.memory_bytes;
  task.duplicates = options.duplicates;
  task.work = &work;
  GraphManifest manifest;
  manifest.name = definition.name;
  manifest.id = definition.id;
  manifest.version = NewVersion();
  for (size_t n = 0; n < definition.schema->node_sets().size(); ++n) {
    PH_ASSIGN_OR_RETURN(const uint64_t num_nodes, SealNodes(task, n));
    manifest.num_nodes.push_back(num_nodes);
  }
  for (size_t e = 0; e < definition.schema->edge_sets().size(); ++e) {
    if (definition.schema->edge_sets()[e].reverse_of) {
      manifest.num_edges.push_back(0);
      continue;
    }
    PH_ASSIGN_OR_RETURN(const uint64_t num_edges, SealEdges(task, e, manifest.num_nodes));
    manifest.num_edges.push_back(num_edges);
  }
  for (size_t e = 0; e < definition.schema->edge_sets().size(); ++e) {
    if (const auto& of = definition.schema->edge_sets()[e].reverse_of) {
      manifest.num_edges[e] = manifest.num_edges[*of];
    }
  }
  PH_RETURN_IF_ERROR(SyncFolder(task.folder));
  manifest.arrays = std::move(task.arrays);
  return manifest;
}

}  // namespace

absl::StatusOr<GraphManifest> SealGraph(const GraphDefinition& definition,
                                        const std::string& folder, GraphSpace* space,
                                        const SealOptions& options, SealWork::Progress progress) {
  const std::string arrays = absl::StrCat(folder, "/", kArraysFolder);
  PH_RETURN_IF_ERROR(RemoveAll(arrays));
  PH_RETURN_IF_ERROR(MakeFolder(arrays));
  const uint64_t before = space->used();
  // Also if an allocation fails. What remains is removed when the graph is sealed again, or the
  // store is opened.
  absl::Cleanup undo = [&] {
    RunWithinMemory([&] { RemoveAll(arrays).IgnoreError(); });
    space->Give(space->used() - before);
  };
  auto manifest = Seal(definition, folder, space, options, progress);
  if (manifest.ok()) std::move(undo).Cancel();
  return manifest;
}

}  // namespace packhouse
