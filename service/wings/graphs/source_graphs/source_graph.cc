#include "service/wings/graphs/source_graphs/source_graph.h"

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::Status SourceColumn::CheckStoredRow(uint64_t row, bool with_data) const {
  uint64_t begin = row;
  uint64_t end = row + 1;
  if (!offsets.empty()) {
    // A number of a row comes from an array that was checked when it was read.
    if (row + 1 >= offsets.size()) return OutOfPlace(row);
    PH_RETURN_IF_ERROR(checked_offsets.Check(row * sizeof(uint64_t), (row + 2) * sizeof(uint64_t)));
    begin = offsets[row];
    end = offsets[row + 1];
  }
  if (!with_data) return begin <= end ? absl::OkStatus() : OutOfPlace(row);
  if (row_bytes == 0) return absl::OkStatus();
  if (begin > end || end > checked_data.size() / row_bytes) return OutOfPlace(row);
  return checked_data.Check(begin * row_bytes, end * row_bytes);
}

absl::Status SourceGraph::Damaged(absl::string_view why) const {
  return absl::DataLossError(absl::StrCat("the source graph is damaged: ", why));
}

absl::Status SourceColumn::OutOfPlace(uint64_t row) const {
  return checked_data.Damaged(absl::StrCat("row ", row, " lies outside of it"));
}

absl::StatusOr<std::vector<uint32_t>> FindNodesOfRows(const SourceGraph& graph, size_t node_set,
                                                      absl::Span<const uint64_t> rows,
                                                      absl::string_view what) {
  const NodesByRow by_row = graph.NodesOfRows(node_set);
  const std::string& name = graph.schema().node_sets()[node_set].name;
  std::vector<uint32_t> nodes;
  nodes.reserve(rows.size());
  for (const uint64_t row : rows) {
    if (row >= by_row.num_rows()) {
      return absl::OutOfRangeError(absl::StrCat(what, ": row ", row, " at position ", nodes.size(),
                                                ", node set ", Quoted(name), " has ",
                                                by_row.num_rows(), " rows"));
    }
    PH_RETURN_IF_ERROR(by_row.CheckRow(row));
    const uint32_t node = by_row.node(row);
    if (node == NodesByRow::kNone) {
      return absl::OutOfRangeError(absl::StrCat(what, ": row ", row, " at position ", nodes.size(),
                                                ": its node of ", Quoted(name),
                                                " was there twice, and another row was taken"));
    }
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace packhouse
