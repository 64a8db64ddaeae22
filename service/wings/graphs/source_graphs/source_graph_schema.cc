#include "service/wings/graphs/source_graphs/source_graph_schema.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status CheckName(absl::string_view of, absl::string_view name) {
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a name of ", of, " is empty"));
  }
  if (name.size() > SourceGraphSchema::kMaxNameLength) {
    return absl::InvalidArgumentError(
        absl::StrCat(of, " \"", name.substr(0, 40), "...\": the name has ", name.size(),
                     " bytes, beyond ", SourceGraphSchema::kMaxNameLength));
  }
  return absl::OkStatus();
}

absl::Status CheckColumn(absl::string_view where, const SourceColumnSpec& column) {
  if (column.text &&
      (!column.ragged || column.dtype != DType::kUint8 || !column.row_shape.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": text is ragged, of dtype uint8 and of shape []"));
  }
  if (column.row_shape.size() > SourceGraphSchema::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": a row has ", column.row_shape.size(),
                                                   " axes, beyond ", SourceGraphSchema::kMaxRank));
  }
  uint64_t bytes = ElementBytes(column.dtype);
  for (const uint32_t extent : column.row_shape) {
    if (extent == 0)
      return absl::InvalidArgumentError(absl::StrCat(where, ": an extent is 0, at least 1"));
    bytes *= extent;  // No overflow: at most 2^24 * 2^32 before the check.
    if (bytes > SourceGraphSchema::kMaxRowBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": a row has more than ", SourceGraphSchema::kMaxRowBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckColumns(absl::string_view set, const std::vector<SourceColumnSpec>& columns) {
  if (columns.size() > SourceGraphSchema::kMaxColumns) {
    return absl::InvalidArgumentError(absl::StrCat(
        set, " has ", columns.size(), " columns, beyond ", SourceGraphSchema::kMaxColumns));
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const SourceColumnSpec& column : columns) {
    PH_RETURN_IF_ERROR(CheckName(absl::StrCat("a column of ", set), column.name));
    const std::string where = absl::StrCat("column \"", column.name, "\" of ", set);
    if (!names.insert(column.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, " is there twice"));
    }
    PH_RETURN_IF_ERROR(CheckColumn(where, column));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t SourceStepBytes(const SourceColumnSpec& column) {
  uint64_t bytes = ElementBytes(column.dtype);
  for (const uint32_t extent : column.row_shape) bytes *= extent;
  return bytes;
}

absl::StatusOr<SourceGraphSchema> SourceGraphSchema::Create(
    std::vector<SourceNodeSetSpec> node_sets, std::vector<SourceEdgeSetSpec> edge_sets) {
  if (node_sets.empty()) return absl::InvalidArgumentError("the schema has no node set");
  if (node_sets.size() + edge_sets.size() > kMaxSets) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the schema has ", node_sets.size() + edge_sets.size(), " sets, beyond ", kMaxSets));
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const SourceNodeSetSpec& set : node_sets) {
    PH_RETURN_IF_ERROR(CheckName("a node set", set.name));
    const std::string where = absl::StrCat("node set \"", set.name, "\"");
    if (!names.insert(set.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, " is there twice"));
    }
    PH_RETURN_IF_ERROR(CheckColumns(where, set.columns));
  }
  names.clear();
  for (size_t e = 0; e < edge_sets.size(); ++e) {
    const SourceEdgeSetSpec& set = edge_sets[e];
    PH_RETURN_IF_ERROR(CheckName("an edge set", set.name));
    const std::string where = absl::StrCat("edge set \"", set.name, "\"");
    if (!names.insert(set.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, " is there twice"));
    }
    for (const size_t end : {set.source, set.target}) {
      if (end >= node_sets.size()) {
        return absl::InvalidArgumentError(absl::StrCat(where, " names node set number ", end,
                                                       ", but there are ", node_sets.size()));
      }
    }
    PH_RETURN_IF_ERROR(CheckColumns(where, set.columns));
    if (!set.reverse_of.has_value()) continue;
    if (*set.reverse_of >= edge_sets.size() || *set.reverse_of == e) {
      return absl::InvalidArgumentError(absl::StrCat(where, " reverses edge set number ",
                                                     *set.reverse_of, ", which is no other"));
    }
    const SourceEdgeSetSpec& other = edge_sets[*set.reverse_of];
    if (other.reverse_of.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " reverses \"", other.name, "\", which is reversed itself"));
    }
    if (other.source != set.target || other.target != set.source) {
      return absl::InvalidArgumentError(absl::StrCat(where, " reverses \"", other.name,
                                                     "\", but does not join the same node sets"));
    }
    if (!set.columns.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " reverses \"", other.name, "\", and has columns of its own"));
    }
  }
  return SourceGraphSchema(std::move(node_sets), std::move(edge_sets));
}

std::optional<size_t> SourceGraphSchema::NodeSetIndex(absl::string_view name) const {
  for (size_t n = 0; n < node_sets_.size(); ++n) {
    if (node_sets_[n].name == name) return n;
  }
  return std::nullopt;
}

std::optional<size_t> SourceGraphSchema::EdgeSetIndex(absl::string_view name) const {
  for (size_t e = 0; e < edge_sets_.size(); ++e) {
    if (edge_sets_[e].name == name) return e;
  }
  return std::nullopt;
}

}  // namespace packhouse
