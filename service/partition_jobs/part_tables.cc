#include "service/partition_jobs/part_tables.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kGatheredBytes = size_t{1} << 18;
constexpr int kBfloat16Shift = 16;

// Row i is row original(i) of the column. bfloat16, which DGL does not have, becomes float32.
template <typename Original>
ArraySource GatheredRows(std::string name, const SourceColumnSpec& spec, const SourceColumn& column,
                         uint64_t rows, Original original) {
  ArraySource array;
  const bool widened = spec.dtype == DType::kBfloat16;
  array.header = {std::move(name), widened ? DType::kFloat32 : spec.dtype, {rows}};
  array.header.shape.insert(array.header.shape.end(), spec.row_shape.begin(), spec.row_shape.end());
  array.write = [column, rows, original, widened](ByteSink& sink) {
    const size_t row_bytes = static_cast<size_t>(column.row_bytes);
    const size_t written_bytes = widened ? 2 * row_bytes : row_bytes;
    std::string block;
    for (uint64_t row = 0; row < rows; ++row) {
      const char* const from = column.data + original(row) * row_bytes;
      if (widened) {
        for (size_t at = 0; at < row_bytes; at += sizeof(uint16_t)) {
          uint16_t half;
          std::memcpy(&half, from + at, sizeof(half));
          const uint32_t whole = static_cast<uint32_t>(half) << kBfloat16Shift;
          block.append(reinterpret_cast<const char*>(&whole), sizeof(whole));
        }
      } else {
        block.append(from, row_bytes);
      }
      if (block.size() + written_bytes <= kGatheredBytes && row + 1 < rows) continue;
      PH_RETURN_IF_ERROR(sink.Write(block));
      block.clear();
    }
    return absl::OkStatus();
  };
  return array;
}

// By type: where its rows in the part were in their set. `originals` are the part's, of which the
// first has the new id `first`.
template <typename Type, typename Id>
std::vector<ArraySource> OriginalRows(absl::Span<const Type> types,
                                      const std::vector<std::vector<IdRange>>& map, size_t part,
                                      absl::Span<const Id> originals, uint64_t first) {
  std::vector<ArraySource> arrays;
  for (size_t t = 0; t < types.size(); ++t) {
    const IdRange range = map[t][part];
    arrays.push_back(MadeArray<int64_t>(
        types[t].name, DType::kInt64, range.size(),
        [of_type = originals.subspan(range.begin - first, range.size()),
         start = types[t].start](uint64_t row) { return of_type[row] - start; }));
  }
  return arrays;
}

void AddLeftOut(absl::string_view set, absl::Span<const SourceColumnSpec> columns,
                std::vector<std::string>& notes) {
  for (const SourceColumnSpec& column : columns) {
    if (!IsLeftOutOfFiles(column)) continue;
    notes.push_back(absl::StrCat(
        "column ", Quoted(column.name), " of ", Quoted(set), " is left out: ",
        column.ragged || column.text ? "its rows have different lengths" : "its name has a slash"));
  }
}

}  // namespace

PartTables::PartTables(const NewIds* ids, const Part* part, absl::Span<const uint32_t> trainers,
                       const GraphForms& forms)
    : ids_(ids), part_(part), trainers_(trainers), forms_(forms) {
  if (forms.csr) by_source_ = {part->nodes.size(), part->sources, part->targets};
  if (forms.csc) by_target_ = {part->nodes.size(), part->targets, part->sources};
}

DglGraphSource PartTables::Graph() const {
  const Part* const part = part_;
  const NewIds* const ids = ids_;
  const HomogeneousGraph* const graph = &ids_->graph();
  const uint64_t nodes = part->nodes.size();
  const uint64_t edges = part->edges.size();
  DglGraphSource source;
  source.num_nodes = nodes;
  if (forms_.coo) {
    source.coo = DglCooSource{Int64Array("sources", absl::MakeConstSpan(part->sources)),
                              Int64Array("targets", absl::MakeConstSpan(part->targets))};
  }
  if (forms_.csr) source.csr = by_source_.Source();
  if (forms_.csc) source.csc = by_target_.Source();
  source.node_data.push_back(Int64Array("_ID", absl::MakeConstSpan(part->nodes)));
  source.node_data.push_back(
      MadeArray<uint8_t>("inner_node", DType::kUint8, nodes,
                         [part](uint64_t i) { return i < part->num_inner_nodes ? 1 : 0; }));
  if (ids->num_parts() > 1) {
    source.node_data.push_back(
        MadeArray<int64_t>("part_id", DType::kInt64, nodes, [part, ids](uint64_t i) {
          return i < part->num_inner_nodes ? part->number : ids->OwnerOfNode(part->nodes[i]);
        }));
  }
  source.node_data.push_back(
      MadeArray<int64_t>("orig_id", DType::kInt64, nodes, [part, graph](uint64_t i) {
        const uint32_t node = part->original_nodes[i];
        return node - graph->node_types()[graph->NodeTypeOf(node)].start;
      }));
  source.edge_data.push_back(Int64Array("_ID", absl::MakeConstSpan(part->edges)));
  source.edge_data.push_back(
      MadeArray<uint8_t>("inner_edge", DType::kUint8, edges,
                         [part](uint64_t i) { return i < part->num_inner_edges ? 1 : 0; }));
  source.edge_data.push_back(
      MadeArray<int64_t>("orig_id", DType::kInt64, edges, [part, graph](uint64_t i) {
        const uint64_t edge = part->original_edges[i];
        return edge - graph->edge_types()[graph->EdgeTypeOf(edge)].start;
      }));
  if (graph->node_types().size() + graph->edge_types().size() > 2) {
    source.node_data.push_back(MadeArray<int32_t>(
        "_TYPE", DType::kInt32, nodes,
        [part, graph](uint64_t i) { return graph->NodeTypeOf(part->original_nodes[i]); }));
    source.edge_data.push_back(MadeArray<int32_t>(
        "_TYPE", DType::kInt32, edges,
        [part, graph](uint64_t i) { return graph->EdgeTypeOf(part->original_edges[i]); }));
  }
  return source;
}

std::vector<ArraySource> PartTables::NodeFeatures() const {
  const HomogeneousGraph& graph = ids_->graph();
  std::vector<ArraySource> arrays;
  for (size_t t = 0; t < graph.node_types().size(); ++t) {
    const HomogeneousNodeType& type = graph.node_types()[t];
    const auto range = ids_->node_map()[t][part_->number];
    const absl::Span<const uint32_t> originals =
        ids_->original_of_node().subspan(range.begin, range.size());
    const auto original = [originals, start = type.start](uint64_t row) {
      return uint64_t{originals[row] - start};
    };
    const auto& columns = graph.source().schema().node_sets()[type.node_set].columns;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (IsLeftOutOfFiles(columns[c])) continue;
      arrays.push_back(GatheredRows(absl::StrCat(type.name, "/", columns[c].name), columns[c],
                                    graph.source().NodeColumn(type.node_set, c), range.size(),
                                    original));
    }
    if (trainers_.empty()) continue;
    arrays.push_back(MadeArray<int64_t>(
        absl::StrCat(type.name, "/trainer_id"), DType::kInt64, range.size(),
        [originals, trainers = trainers_](uint64_t row) { return trainers[originals[row]]; }));
  }
  return arrays;
}

std::vector<ArraySource> PartTables::EdgeFeatures() const {
  const HomogeneousGraph& graph = ids_->graph();
  const uint64_t first = ids_->EdgesOfPart(part_->number).begin;
  std::vector<ArraySource> arrays;
  for (size_t t = 0; t < graph.edge_types().size(); ++t) {
    const HomogeneousEdgeType& type = graph.edge_types()[t];
    const auto range = ids_->edge_map()[t][part_->number];
    // Inner edges are local ids by their new ids.
    const uint64_t local = range.begin - first;
    const Part* const part = part_;
    const auto original = [part, local, start = type.start](uint64_t row) {
      return part->original_edges[local + row] - start;
    };
    // A reversed set has the columns of the other.
    const SourceEdgeSetSpec& spec = graph.source().schema().edge_sets()[type.edge_set];
    const auto& columns = spec.reverse_of
                              ? graph.source().schema().edge_sets()[*spec.reverse_of].columns
                              : spec.columns;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (IsLeftOutOfFiles(columns[c])) continue;
      arrays.push_back(GatheredRows(absl::StrCat(type.name, "/", columns[c].name), columns[c],
                                    graph.source().EdgeColumn(type.edge_set, c), range.size(),
                                    original));
    }
    if (trainers_.empty()) continue;
    arrays.push_back(
        MadeArray<int64_t>(absl::StrCat(type.name, "/trainer_id"), DType::kInt64, range.size(),
                           [part, local, trainers = trainers_](uint64_t row) {
                             return trainers[part->original_nodes[part->targets[local + row]]];
                           }));
  }
  return arrays;
}

std::vector<ArraySource> PartTables::OriginalNodes() const {
  return OriginalRows(absl::MakeConstSpan(ids_->graph().node_types()), ids_->node_map(),
                      part_->number, absl::MakeConstSpan(part_->original_nodes),
                      ids_->NodesOfPart(part_->number).begin);
}

std::vector<ArraySource> PartTables::OriginalEdges() const {
  return OriginalRows(absl::MakeConstSpan(ids_->graph().edge_types()), ids_->edge_map(),
                      part_->number, absl::MakeConstSpan(part_->original_edges),
                      ids_->EdgesOfPart(part_->number).begin);
}

uint64_t PartTables::CutEdges() const {
  uint64_t cut = 0;
  for (uint64_t edge = 0; edge < part_->num_inner_edges; ++edge) {
    cut += part_->sources[edge] >= part_->num_inner_nodes ? 1 : 0;
  }
  return cut;
}

bool IsLeftOutOfFiles(const SourceColumnSpec& column) {
  return column.ragged || column.text || absl::StrContains(column.name, '/');
}

ArraySource RowsOfColumn(const SourceColumnSpec& spec, const SourceColumn& column, uint64_t first,
                         uint64_t rows) {
  return GatheredRows("", spec, column, rows, [first](uint64_t row) { return first + row; });
}

std::vector<std::string> LeftOutColumns(const SourceGraph& graph) {
  std::vector<std::string> notes;
  for (const SourceNodeSetSpec& set : graph.schema().node_sets()) {
    AddLeftOut(set.name, set.columns, notes);
  }
  for (const SourceEdgeSetSpec& set : graph.schema().edge_sets()) {
    AddLeftOut(set.name, set.columns, notes);
  }
  return notes;
}

}  // namespace packhouse
