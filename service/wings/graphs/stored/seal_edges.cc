#include "service/wings/graphs/stored/seal_edges.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/external_sort.h"
#include "service/wings/graphs/stored/node_ids.h"
#include "service/wings/graphs/stored/seal_nodes.h"

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

}  // namespace

absl::StatusOr<uint64_t> SealEdges(SealTask& task, size_t edge_set,
                                   const std::vector<uint64_t>& num_nodes) {
  return EdgeSealer(task, edge_set, num_nodes).Seal();
}

}  // namespace packhouse
