#include "service/wings/partition/jobs/part_tables.h"

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
      PH_RETURN_IF_ERROR(column.CheckRow(original(row)));
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
