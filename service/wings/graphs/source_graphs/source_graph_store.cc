#include "service/wings/graphs/source_graphs/source_graph_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

uint32_t LengthAt(absl::string_view lengths, uint64_t row) {
  uint32_t length;
  std::memcpy(&length, lengths.data() + row * sizeof(length), sizeof(length));
  return length;
}

// The sum of one length a row; nothing else than `lengths` having 4 bytes a row is checked before.
absl::StatusOr<uint64_t> SumOfLengths(absl::string_view where, absl::string_view lengths,
                                      uint64_t num_rows) {
  if (lengths.size() != num_rows * sizeof(uint32_t)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": lengths have ", lengths.size(),
                                                   " bytes, ", num_rows, " rows take ",
                                                   num_rows * sizeof(uint32_t)));
  }
  uint64_t sum = 0;  // No overflow: at most 2^24 rows.
  for (uint64_t row = 0; row < num_rows; ++row) sum += LengthAt(lengths, row);
  return sum;
}

absl::Status CheckIdRows(const std::string& where, const SourceIdRows& ids, bool integers,
                         uint64_t num_rows) {
  if (ids.integers != integers) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": ids are ", ids.integers ? "integers" : "text", ", the node set has ",
                     integers ? "integers" : "text"));
  }
  if (integers) {
    if (ids.data.size() == num_rows * sizeof(int64_t)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(where, ": ids have ", ids.data.size(),
                                                   " bytes, ", num_rows, " rows take ",
                                                   num_rows * sizeof(int64_t)));
  }
  PH_ASSIGN_OR_RETURN(const uint64_t bytes, SumOfLengths(where, ids.lengths, num_rows));
  if (bytes != ids.data.size()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ids have ", ids.data.size(),
                                                   " bytes, their lengths add up to ", bytes));
  }
  for (uint64_t row = 0; row < num_rows; ++row) {
    const uint32_t length = LengthAt(ids.lengths, row);
    if (length == 0 || length > SourceGraphStore::kMaxTextId) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": the id of row ", row, " has ",
                                                     length, " bytes, must have 1 to ",
                                                     SourceGraphStore::kMaxTextId));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckColumnRows(const std::string& where, const std::vector<SourceColumnSpec>& specs,
                             const std::vector<SourceColumnRows>& columns, uint64_t num_rows) {
  if (columns.size() != specs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has ", columns.size(), " columns, its set has ", specs.size()));
  }
  for (size_t c = 0; c < specs.size(); ++c) {
    const std::string column = absl::StrCat("column ", Quoted(specs[c].name), " of ", where);
    uint64_t steps = num_rows;
    if (specs[c].ragged) {
      PH_ASSIGN_OR_RETURN(steps, SumOfLengths(column, columns[c].lengths, num_rows));
    } else if (!columns[c].lengths.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(column, ": has lengths, but is not ragged"));
    }
    const uint64_t step_bytes = SourceStepBytes(specs[c]);
    const uint64_t bytes = columns[c].data.size();
    if (bytes % step_bytes != 0 || bytes / step_bytes != steps) {
      return absl::InvalidArgumentError(absl::StrCat(column, ": has ", bytes, " bytes, ", steps,
                                                     specs[c].ragged ? " steps" : " rows", " of ",
                                                     step_bytes, " expected"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSet(const std::string& where, size_t set, std::vector<bool>& seen,
                      uint64_t num_rows) {
  if (set >= seen.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": there is no set number ", set, " of ", seen.size()));
  }
  if (seen[set]) return absl::InvalidArgumentError(absl::StrCat(where, " is there twice"));
  seen[set] = true;
  if (num_rows <= SourceGraphStore::kMaxChunkRows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, " has ", num_rows, " rows, beyond ", SourceGraphStore::kMaxChunkRows));
}

uint64_t BytesOf(const SourceGraphChunk& chunk) {
  uint64_t bytes = 0;
  const auto add_columns = [&bytes](const std::vector<SourceColumnRows>& columns) {
    for (const SourceColumnRows& column : columns) {
      bytes += column.data.size() + column.lengths.size();
    }
  };
  for (const SourceNodeRows& rows : chunk.nodes) {
    bytes += rows.ids.data.size() + rows.ids.lengths.size();
    add_columns(rows.columns);
  }
  for (const SourceEdgeRows& rows : chunk.edges) {
    bytes += rows.sources.data.size() + rows.sources.lengths.size();
    bytes += rows.targets.data.size() + rows.targets.lengths.size();
    add_columns(rows.columns);
  }
  return bytes;
}

bool HasIntegerIds(const SourceGraphOptions& options, size_t node_set) {
  return options.node_sets.empty() || options.node_sets[node_set].integer_ids;
}

// The first row whose id is not below `id`, by a function that compares.
template <typename IsBelow>
uint64_t FirstNotBelow(uint64_t num_nodes, const IsBelow& is_below) {
  uint64_t first = 0;
  uint64_t last = num_nodes;
  while (first < last) {
    const uint64_t middle = first + (last - first) / 2;
    if (is_below(middle)) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

}  // namespace

absl::Status CheckSourceGraphName(absl::string_view name) {
  if (IsValidName(name, SourceGraphStore::kMaxNameLength, "_./-")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("source graph: name ", Quoted(name),
                                                 " is not 1 to ", SourceGraphStore::kMaxNameLength,
                                                 " characters of [A-Za-z0-9_./-]"));
}

absl::Status CheckSourceGraphOptions(const SourceGraphSchema& schema,
                                     const SourceGraphOptions& options) {
  if (!options.node_sets.empty() && options.node_sets.size() != schema.node_sets().size()) {
    return absl::InvalidArgumentError(absl::StrCat("options of ", options.node_sets.size(),
                                                   " node sets, the schema has ",
                                                   schema.node_sets().size()));
  }
  if (!options.edge_sets.empty() && options.edge_sets.size() != schema.edge_sets().size()) {
    return absl::InvalidArgumentError(absl::StrCat("options of ", options.edge_sets.size(),
                                                   " edge sets, the schema has ",
                                                   schema.edge_sets().size()));
  }
  for (size_t e = 0; e < options.edge_sets.size(); ++e) {
    if (options.edge_sets[e].by_source || options.edge_sets[e].by_target) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("edge set ", Quoted(schema.edge_sets()[e].name),
                     " could be looked up neither by its sources nor by its targets"));
  }
  size_t arrays = 0;  // A ragged column has two, an adjacency up to three.
  for (const SourceNodeSetSpec& set : schema.node_sets()) arrays += 2 + 2 * set.columns.size();
  for (const SourceEdgeSetSpec& set : schema.edge_sets()) arrays += 6 + 2 * set.columns.size();
  if (arrays <= SourceGraphStore::kMaxArrays) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the schema needs up to ", arrays,
                                                 " arrays, beyond ", SourceGraphStore::kMaxArrays));
}

absl::Status CheckSourceGraphChunk(const SourceGraphSchema& schema,
                                   const SourceGraphOptions& options,
                                   const SourceGraphChunk& chunk) {
  if (const uint64_t bytes = BytesOf(chunk); bytes > SourceGraphStore::kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk of ", bytes, " bytes, beyond ", SourceGraphStore::kMaxChunkBytes));
  }
  std::vector<bool> seen(schema.node_sets().size());
  for (const SourceNodeRows& rows : chunk.nodes) {
    const std::string where =
        rows.node_set < seen.size()
            ? absl::StrCat("node set ", Quoted(schema.node_sets()[rows.node_set].name))
            : "a node set";
    PH_RETURN_IF_ERROR(CheckSet(where, rows.node_set, seen, rows.num_rows));
    PH_RETURN_IF_ERROR(
        CheckIdRows(where, rows.ids, HasIntegerIds(options, rows.node_set), rows.num_rows));
    PH_RETURN_IF_ERROR(CheckColumnRows(where, schema.node_sets()[rows.node_set].columns,
                                       rows.columns, rows.num_rows));
  }
  seen.assign(schema.edge_sets().size(), false);
  for (const SourceEdgeRows& rows : chunk.edges) {
    const std::string where =
        rows.edge_set < seen.size()
            ? absl::StrCat("edge set ", Quoted(schema.edge_sets()[rows.edge_set].name))
            : "an edge set";
    PH_RETURN_IF_ERROR(CheckSet(where, rows.edge_set, seen, rows.num_rows));
    const SourceEdgeSetSpec& set = schema.edge_sets()[rows.edge_set];
    if (set.reverse_of.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " reverses ", Quoted(schema.edge_sets()[*set.reverse_of].name),
                       ", and has no edges of its own"));
    }
    PH_RETURN_IF_ERROR(CheckIdRows(absl::StrCat("sources of ", where), rows.sources,
                                   HasIntegerIds(options, set.source), rows.num_rows));
    PH_RETURN_IF_ERROR(CheckIdRows(absl::StrCat("targets of ", where), rows.targets,
                                   HasIntegerIds(options, set.target), rows.num_rows));
    PH_RETURN_IF_ERROR(CheckColumnRows(where, set.columns, rows.columns, rows.num_rows));
  }
  return absl::OkStatus();
}

std::optional<uint32_t> FindNode(const SourceGraph& graph, size_t node_set, int64_t id) {
  if (!graph.integer_ids(node_set)) return std::nullopt;
  const SourceColumn ids = graph.NodeIds(node_set);
  const uint64_t num_nodes = graph.num_nodes(node_set);
  const auto at = [&ids](uint64_t row) {
    int64_t value;
    std::memcpy(&value, ids.data + row * sizeof(value), sizeof(value));
    return value;
  };
  if (num_nodes == 0 || id < at(0)) return std::nullopt;
  // Ids are often consecutive.
  const uint64_t guess = static_cast<uint64_t>(id) - static_cast<uint64_t>(at(0));
  if (guess < num_nodes && at(guess) == id) return static_cast<uint32_t>(guess);
  const uint64_t row = FirstNotBelow(num_nodes, [&](uint64_t r) { return at(r) < id; });
  if (row == num_nodes || at(row) != id) return std::nullopt;
  return static_cast<uint32_t>(row);
}

std::optional<uint32_t> FindNode(const SourceGraph& graph, size_t node_set, absl::string_view id) {
  if (graph.integer_ids(node_set)) return std::nullopt;
  const SourceColumn ids = graph.NodeIds(node_set);
  const uint64_t num_nodes = graph.num_nodes(node_set);
  const auto at = [&ids](uint64_t row) {
    return absl::string_view(ids.data + ids.offsets[row], ids.offsets[row + 1] - ids.offsets[row]);
  };
  const uint64_t row = FirstNotBelow(num_nodes, [&](uint64_t r) { return at(r) < id; });
  if (row == num_nodes || at(row) != id) return std::nullopt;
  return static_cast<uint32_t>(row);
}

}  // namespace packhouse
