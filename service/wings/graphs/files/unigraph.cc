#include "service/wings/graphs/files/unigraph.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "tensorflow/core/framework/types.pb.h"

namespace packhouse::graph_files {
namespace {

constexpr std::pair<tensorflow::DataType, DType> kColumnDtypes[] = {
    {tensorflow::DT_BOOL, DType::kBool},         {tensorflow::DT_INT8, DType::kInt8},
    {tensorflow::DT_INT16, DType::kInt16},       {tensorflow::DT_INT32, DType::kInt32},
    {tensorflow::DT_INT64, DType::kInt64},       {tensorflow::DT_UINT8, DType::kUint8},
    {tensorflow::DT_UINT16, DType::kUint16},     {tensorflow::DT_UINT32, DType::kUint32},
    {tensorflow::DT_UINT64, DType::kUint64},     {tensorflow::DT_HALF, DType::kFloat16},
    {tensorflow::DT_BFLOAT16, DType::kBfloat16}, {tensorflow::DT_FLOAT, DType::kFloat32},
    {tensorflow::DT_DOUBLE, DType::kFloat64},
};

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Whether `word` is in `text` after one of `_.-`.
bool HasEnding(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    if (at > 0 && absl::StrContains("_.-", text.substr(at - 1, 1))) return true;
  }
  return false;
}

bool HasWord(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordCharacter(text[at - 1]);
    const bool ends = end == text.size() || !IsWordCharacter(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

template <typename Map>
std::vector<std::string> SortedNames(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsAuxiliary(absl::string_view name) { return absl::StartsWith(name, "_"); }

template <typename... Parts>
absl::Status BadSchema(const std::string& where, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("graph schema: ", where, ": ", parts...));
}

absl::StatusOr<SourceColumnSpec> ColumnOf(const std::string& where, const std::string& name,
                                          const tensorflow_gnn::Feature& feature) {
  const std::string place = absl::StrCat(where, ": feature ", Quoted(name));
  SourceColumnSpec column;
  column.name = name;
  std::vector<int64_t> dims;
  for (const auto& dim : feature.shape().dim()) dims.push_back(dim.size());
  if (feature.dtype() == tensorflow::DT_STRING) {
    if (!dims.empty()) {
      return BadSchema(place, "strings are one a row here, the shape has ", dims.size(),
                       " dimensions");
    }
    column.dtype = DType::kUint8;
    column.ragged = true;
    column.text = true;
    return column;
  }
  const auto* const found =
      std::find_if(std::begin(kColumnDtypes), std::end(kColumnDtypes),
                   [&](const auto& pair) { return pair.first == feature.dtype(); });
  if (found == std::end(kColumnDtypes)) {
    return BadSchema(place, "packhouse has no dtype ", tensorflow::DataType_Name(feature.dtype()));
  }
  column.dtype = found->second;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i == 0 && dims[i] == -1) {
      column.ragged = true;
    } else if (dims[i] < 1 || dims[i] > int64_t{0xffffffff}) {
      return BadSchema(place, "dimension ", i, " is ", dims[i],
                       "; it must be at least 1, or -1 for the first");
    } else {
      column.row_shape.push_back(static_cast<uint32_t>(dims[i]));
    }
  }
  return column;
}

template <typename Set>
absl::StatusOr<std::vector<SourceColumnSpec>> ColumnsOf(const std::string& where, const Set& set) {
  std::vector<SourceColumnSpec> columns;
  for (const std::string& name : SortedNames(set.features())) {
    if (name == "#id" || name == "#source" || name == "#target") continue;
    PH_ASSIGN_OR_RETURN(SourceColumnSpec column, ColumnOf(where, name, set.features().at(name)));
    columns.push_back(std::move(column));
  }
  return columns;
}

bool IsReversed(const tensorflow_gnn::EdgeSet& set) {
  for (const auto& extra : set.metadata().extra()) {
    if (extra.key() == "edge_type" && extra.value() == "reversed") return true;
  }
  return false;
}

absl::StatusOr<SetTable> TableOf(const std::string& where, const std::string& filename) {
  SetTable table;
  table.filename = filename;
  const absl::StatusOr<TableFormat> format = TableFormatOf(filename);
  if (!format.ok()) return BadSchema(where, format.status().message());
  table.format = *format;
  return table;
}

size_t PlaceOf(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::lower_bound(names.begin(), names.end(), name) - names.begin());
}

// Where the reversed set's edges are stored already, if anywhere.
std::optional<size_t> ForwardSet(const tensorflow_gnn::GraphSchema& schema,
                                 const std::vector<std::string>& names,
                                 const tensorflow_gnn::EdgeSet& reversed) {
  for (size_t e = 0; e < names.size(); ++e) {
    const tensorflow_gnn::EdgeSet& set = schema.edge_sets().at(names[e]);
    if (!IsReversed(set) && set.metadata().filename() == reversed.metadata().filename() &&
        set.source() == reversed.target() && set.target() == reversed.source()) {
      return e;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<TableFormat> TableFormatOf(absl::string_view filename) {
  if (HasEnding(filename, "tfrecord") || HasWord(filename, "tfr")) return TableFormat::kTfrecord;
  if (HasEnding(filename, "csv")) return TableFormat::kCsv;
  return absl::InvalidArgumentError(
      absl::StrCat("the table ", Quoted(filename),
                   " is neither CSV nor TFRecord by its name (.csv, .tfrecord)"));
}

absl::StatusOr<Unigraph> ParseUnigraph(absl::string_view schema_bytes) {
  PH_ASSIGN_OR_RETURN(const tensorflow_gnn::GraphSchema proto,
                      tfgnn::ParseGraphSchema(schema_bytes));
  if (const auto warnings = tfgnn::ValidateGraphSchema(proto); !warnings.ok()) {
    return warnings.status();
  }
  std::vector<SetTable> tables;
  std::vector<std::string> node_names = SortedNames(proto.node_sets());
  std::vector<std::string> edge_names = SortedNames(proto.edge_sets());
  node_names.erase(std::remove_if(node_names.begin(), node_names.end(), IsAuxiliary),
                   node_names.end());
  edge_names.erase(std::remove_if(edge_names.begin(), edge_names.end(), IsAuxiliary),
                   edge_names.end());
  std::vector<SourceNodeSetSpec> node_sets;
  for (const std::string& name : node_names) {
    const std::string where = absl::StrCat("node set ", Quoted(name));
    const tensorflow_gnn::NodeSet& set = proto.node_sets().at(name);
    SourceNodeSetSpec& spec = node_sets.emplace_back();
    spec.name = name;
    PH_ASSIGN_OR_RETURN(spec.columns, ColumnsOf(where, set));
    if (set.metadata().filename().empty()) {
      if (spec.columns.empty()) continue;
      return BadSchema(where, "has features, but no table (metadata.filename)");
    }
    PH_ASSIGN_OR_RETURN(SetTable table, TableOf(where, set.metadata().filename()));
    table.set = node_sets.size() - 1;
    tables.push_back(std::move(table));
  }
  std::vector<SourceEdgeSetSpec> edge_sets;
  for (const std::string& name : edge_names) {
    const std::string where = absl::StrCat("edge set ", Quoted(name));
    const tensorflow_gnn::EdgeSet& set = proto.edge_sets().at(name);
    for (const std::string& end : {set.source(), set.target()}) {
      if (IsAuxiliary(end))
        return BadSchema(where, "its nodes are the auxiliary set ", Quoted(end));
    }
    SourceEdgeSetSpec& spec = edge_sets.emplace_back();
    spec.name = name;
    spec.source = PlaceOf(node_names, set.source());
    spec.target = PlaceOf(node_names, set.target());
    if (set.metadata().filename().empty()) {
      return BadSchema(where, "has no table (metadata.filename)");
    }
    const bool is_reversed = IsReversed(set);
    if (is_reversed) {
      spec.reverse_of = ForwardSet(proto, edge_names, set);
      if (spec.reverse_of.has_value()) continue;
    }
    PH_ASSIGN_OR_RETURN(spec.columns, ColumnsOf(where, set));
    PH_ASSIGN_OR_RETURN(SetTable table, TableOf(where, set.metadata().filename()));
    table.is_edges = true;
    table.set = edge_sets.size() - 1;
    table.is_swapped = is_reversed;
    tables.push_back(std::move(table));
  }
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets)));
  return Unigraph{std::move(schema), std::move(tables)};
}

}  // namespace packhouse::graph_files
