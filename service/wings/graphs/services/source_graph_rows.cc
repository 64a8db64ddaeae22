// Reading rows of sealed source graphs back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/services/wire_source_graphs.h"

namespace packhouse {
namespace {

constexpr uint32_t kNoNode = 0xffffffff;

template <typename T>
void AddNumber(T value, std::string& bytes) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

template <typename T>
T NumberAt(absl::string_view bytes, uint64_t row) {
  T value;
  std::memcpy(&value, bytes.data() + row * sizeof(T), sizeof(T));
  return value;
}

absl::string_view RowOf(const SourceColumn& column, uint64_t row) {
  if (column.offsets.empty()) return {column.data + row * column.row_bytes, column.row_bytes};
  return {column.data + column.offsets[row] * column.row_bytes,
          (column.offsets[row + 1] - column.offsets[row]) * column.row_bytes};
}

// Counts the bytes of a response before they are made.
class ResponseBytes {
 public:
  explicit ResponseBytes(size_t most) : most_(most) {}
  absl::Status Add(uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= most_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the rows take more than the ", most_, " bytes that a message may have: ask for fewer"));
  }
  uint64_t bytes() const { return bytes_; }

 private:
  const uint64_t most_;
  uint64_t bytes_ = 0;
};

// Numbers of the columns that a request asks for.
template <typename Request>
absl::StatusOr<std::vector<size_t>> ColumnsOf(const Request& request,
                                              const std::vector<SourceColumnSpec>& specs,
                                              const std::string& set) {
  std::vector<size_t> columns;
  if (request.all_columns()) {
    if (request.columns_size() != 0) {
      return absl::InvalidArgumentError("columns: there are some beside all_columns");
    }
    for (size_t c = 0; c < specs.size(); ++c) columns.push_back(c);
    return columns;
  }
  for (const std::string& name : request.columns()) {
    size_t c = 0;
    while (c < specs.size() && specs[c].name != name) ++c;
    if (c == specs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("columns: ", Quoted(set), " has no column ", Quoted(name)));
    }
    columns.push_back(c);
  }
  return columns;
}

// The rows of one column by `row_at`, which gives nothing where there is no row.
class ColumnRows {
 public:
  using RowAt = absl::FunctionRef<std::optional<uint64_t>(uint64_t)>;

  ColumnRows(const SourceColumnSpec& spec, const SourceColumn& column)
      : spec_(spec), column_(column) {}

  // Checks the rows, too.
  absl::Status Count(uint64_t num_rows, RowAt row_at, ResponseBytes& bytes) const {
    for (uint64_t r = 0; r < num_rows; ++r) {
      if (const auto row = row_at(r)) PH_RETURN_IF_ERROR(column_.CheckRow(*row));
    }
    if (!spec_.ragged) return bytes.Add(num_rows * column_.row_bytes);
    for (uint64_t r = 0; r < num_rows; ++r) {
      const auto row = row_at(r);
      PH_RETURN_IF_ERROR(bytes.Add(sizeof(uint32_t) + (row ? RowOf(column_, *row).size() : 0)));
    }
    return absl::OkStatus();
  }
  void Write(uint64_t num_rows, RowAt row_at, v1::SourceColumnRows& wire) const {
    wire.set_name(spec_.name);
    std::string& data = *wire.mutable_data();
    for (uint64_t r = 0; r < num_rows; ++r) {
      const auto row = row_at(r);
      const absl::string_view bytes = row ? RowOf(column_, *row) : absl::string_view();
      data.append(bytes.data(), bytes.size());
      if (spec_.ragged) {
        AddNumber(static_cast<uint32_t>(bytes.size() / column_.row_bytes), *wire.mutable_lengths());
      } else if (!row) {
        data.append(column_.row_bytes, '\0');
      }
    }
  }

 private:
  const SourceColumnSpec& spec_;
  const SourceColumn column_;
};

absl::Status HoldBytes(uint64_t bytes, MemoryBudget* working, MemoryHold& hold) {
  if (working == nullptr) return absl::OkStatus();
  // A growing string is there twice for a moment.
  PH_ASSIGN_OR_RETURN(hold, working->Hold("rows of a source graph", 3 * bytes));
  return absl::OkStatus();
}

// int64 of the row of each of `num_rows`; -1 where there is none.
template <typename RowAt>
absl::Status WriteImportedRows(const ImportedRows& rows, uint64_t num_rows, const RowAt& row_at,
                               std::string& wire) {
  for (uint64_t r = 0; r < num_rows; ++r) {
    int64_t row = -1;
    if (const std::optional<uint64_t> number = row_at(r)) {
      if (!rows.is_identity()) PH_RETURN_IF_ERROR(rows.numbers().CheckRow(*number));
      row = static_cast<int64_t>(rows.row(*number));
    }
    wire.append(reinterpret_cast<const char*>(&row), sizeof(row));
  }
  return absl::OkStatus();
}

absl::Status CheckNumRows(uint64_t num_rows) {
  if (num_rows <= SourceGraphStore::kMaxChunkRows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(num_rows, " rows, beyond ", SourceGraphStore::kMaxChunkRows));
}

// The number of the node of each row of the request; kNoNode where there is none.
absl::StatusOr<std::string> NumbersOf(const v1::LookupNodesRequest& request,
                                      const SourceGraph& graph, size_t set) {
  if (request.has_ids() && !request.numbers().empty()) {
    return absl::InvalidArgumentError("numbers: there are some beside ids");
  }
  if (!request.rows().empty()) {
    if (request.has_ids() || !request.numbers().empty()) {
      return absl::InvalidArgumentError("rows: there are some beside ids or numbers");
    }
    const std::string& wire = request.rows();
    if (wire.size() % sizeof(uint64_t) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows: ", wire.size(), " bytes, a row has ", sizeof(uint64_t)));
    }
    std::vector<uint64_t> rows;
    for (uint64_t r = 0; r < wire.size() / sizeof(uint64_t); ++r) {
      rows.push_back(NumberAt<uint64_t>(wire, r));
    }
    PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> nodes,
                        FindNodesOfRows(graph, set, rows, "rows"));
    std::string found;
    for (const uint32_t node : nodes) AddNumber(node, found);
    return found;
  }
  if (!request.has_ids()) {
    const std::string& numbers = request.numbers();
    if (numbers.size() % sizeof(uint32_t) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("numbers: ", numbers.size(), " bytes, a number has ", sizeof(uint32_t)));
    }
    for (uint64_t r = 0; r < numbers.size() / sizeof(uint32_t); ++r) {
      const auto number = NumberAt<uint32_t>(numbers, r);
      if (number < graph.num_nodes(set)) continue;
      return absl::OutOfRangeError(absl::StrCat("numbers: row ", r, " is ", number, ", ",
                                                Quoted(request.node_set()), " has ",
                                                graph.num_nodes(set), " nodes"));
    }
    return numbers;
  }
  const bool integers = request.ids().has_integers();
  if (integers != graph.integer_ids(set) || (!integers && !request.ids().has_text())) {
    return absl::InvalidArgumentError(absl::StrCat("ids: node set ", Quoted(request.node_set()),
                                                   " has ",
                                                   graph.integer_ids(set) ? "integers" : "text"));
  }
  std::string numbers;
  PH_RETURN_IF_ERROR(graph.NodeIds(set).CheckAll());
  if (integers) {
    const std::string& ids = request.ids().integers();
    if (ids.size() % sizeof(int64_t) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("ids: ", ids.size(), " bytes, an id has ", sizeof(int64_t)));
    }
    for (uint64_t r = 0; r < ids.size() / sizeof(int64_t); ++r) {
      AddNumber(FindNode(graph, set, NumberAt<int64_t>(ids, r)).value_or(kNoNode), numbers);
    }
    return numbers;
  }
  absl::string_view data = request.ids().text().data();
  const std::string& lengths = request.ids().text().lengths();
  if (lengths.size() % sizeof(uint32_t) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("ids: lengths have ", lengths.size(), " bytes"));
  }
  for (uint64_t r = 0; r < lengths.size() / sizeof(uint32_t); ++r) {
    const auto length = NumberAt<uint32_t>(lengths, r);
    if (length > data.size()) {
      return absl::InvalidArgumentError(absl::StrCat("ids: the lengths go beyond the ",
                                                     request.ids().text().data().size(),
                                                     " bytes in row ", r));
    }
    AddNumber(FindNode(graph, set, data.substr(0, length)).value_or(kNoNode), numbers);
    data.remove_prefix(length);
  }
  if (data.empty()) return numbers;
  return absl::InvalidArgumentError(
      absl::StrCat("ids: ", data.size(), " bytes more than the lengths say"));
}

}  // namespace

absl::StatusOr<v1::LookupNodesResponse> LookUpNodes(const v1::LookupNodesRequest& request,
                                                    const SourceGraph& graph, size_t max_bytes,
                                                    MemoryBudget* working, MemoryHold& hold) {
  const auto set = graph.schema().NodeSetIndex(request.node_set());
  if (!set) {
    return absl::InvalidArgumentError(
        absl::StrCat("node_set: there is no node set ", Quoted(request.node_set())));
  }
  const std::vector<SourceColumnSpec>& specs = graph.schema().node_sets()[*set].columns;
  PH_ASSIGN_OR_RETURN(const auto columns, ColumnsOf(request, specs, request.node_set()));
  v1::LookupNodesResponse response;
  response.set_version(graph.version());
  // Of whichever kind they are, before one is looked up.
  PH_RETURN_IF_ERROR(CheckNumRows(std::max(
      {request.rows().size() / sizeof(uint64_t), request.numbers().size() / sizeof(uint32_t),
       request.ids().integers().size() / sizeof(int64_t),
       request.ids().text().lengths().size() / sizeof(uint32_t)})));
  PH_ASSIGN_OR_RETURN(*response.mutable_numbers(), NumbersOf(request, graph, *set));
  const std::string& numbers = response.numbers();
  const uint64_t num_rows = numbers.size() / sizeof(uint32_t);
  const auto row_at = [&numbers](uint64_t row) -> std::optional<uint64_t> {
    const auto number = NumberAt<uint32_t>(numbers, row);
    return number == kNoNode ? std::nullopt : std::optional<uint64_t>(number);
  };
  const SourceColumn ids = graph.NodeIds(*set);
  const SourceColumnSpec id_spec = {"", DType::kUint8, {}, !graph.integer_ids(*set), false};
  const ColumnRows id_rows(id_spec, ids);
  ResponseBytes bytes(max_bytes);
  PH_RETURN_IF_ERROR(bytes.Add(numbers.size() + 1024));
  if (request.with_rows()) PH_RETURN_IF_ERROR(bytes.Add(num_rows * sizeof(int64_t)));
  if (!request.has_ids()) PH_RETURN_IF_ERROR(id_rows.Count(num_rows, row_at, bytes));
  for (const size_t c : columns) {
    PH_RETURN_IF_ERROR(
        ColumnRows(specs[c], graph.NodeColumn(*set, c)).Count(num_rows, row_at, bytes));
  }
  PH_RETURN_IF_ERROR(HoldBytes(bytes.bytes(), working, hold));
  if (!request.has_ids()) {
    v1::SourceColumnRows rows;
    id_rows.Write(num_rows, row_at, rows);
    if (graph.integer_ids(*set)) {
      response.mutable_ids()->set_integers(std::move(*rows.mutable_data()));
    } else {
      response.mutable_ids()->mutable_text()->set_data(std::move(*rows.mutable_data()));
      response.mutable_ids()->mutable_text()->set_lengths(std::move(*rows.mutable_lengths()));
    }
  }
  for (const size_t c : columns) {
    ColumnRows(specs[c], graph.NodeColumn(*set, c))
        .Write(num_rows, row_at, *response.add_columns());
  }
  if (request.with_rows()) {
    PH_RETURN_IF_ERROR(
        WriteImportedRows(graph.NodeRows(*set), num_rows, row_at, *response.mutable_rows()));
  }
  return response;
}

absl::StatusOr<v1::ReadEdgesResponse> ReadEdges(const v1::ReadEdgesRequest& request,
                                                const SourceGraph& graph, size_t max_bytes,
                                                MemoryBudget* working, MemoryHold& hold) {
  const auto asked_set = graph.schema().EdgeSetIndex(request.edge_set());
  if (!asked_set) {
    return absl::InvalidArgumentError(
        absl::StrCat("edge_set: there is no edge set ", Quoted(request.edge_set())));
  }
  const uint64_t all = graph.num_edges(*asked_set);
  if (request.first_edge() > all) {
    return absl::OutOfRangeError(absl::StrCat("first_edge: ", request.first_edge(), ", ",
                                              Quoted(request.edge_set()), " has ", all, " edges"));
  }
  PH_RETURN_IF_ERROR(CheckNumRows(request.num_edges()));
  const uint64_t first = request.first_edge();
  const uint64_t num_rows = std::min(request.num_edges(), all - first);
  // The rows of a reversed set are those of the other.
  const size_t stored = graph.schema().edge_sets()[*asked_set].reverse_of.value_or(*asked_set);
  const std::vector<SourceColumnSpec>& specs = graph.schema().edge_sets()[stored].columns;
  PH_ASSIGN_OR_RETURN(const auto columns, ColumnsOf(request, specs, request.edge_set()));
  // Edges are in the order of one of the two: there the number of an edge is its place.
  absl::StatusOr<Adjacency> rows = graph.BySource(*asked_set);
  if (absl::IsDataLoss(rows.status())) return rows.status();
  const bool by_source = rows.ok() && rows->edges.empty();
  if (!by_source) rows = graph.ByTarget(*asked_set);
  if (!rows.ok()) return rows.status();
  const auto row_at = [first](uint64_t row) -> std::optional<uint64_t> { return first + row; };
  ResponseBytes bytes(max_bytes);
  PH_RETURN_IF_ERROR(bytes.Add(2 * num_rows * sizeof(uint32_t) + 1024));
  if (request.with_rows()) PH_RETURN_IF_ERROR(bytes.Add(num_rows * sizeof(int64_t)));
  for (const size_t c : columns) {
    PH_RETURN_IF_ERROR(
        ColumnRows(specs[c], graph.EdgeColumn(stored, c)).Count(num_rows, row_at, bytes));
  }
  PH_RETURN_IF_ERROR(HoldBytes(bytes.bytes(), working, hold));
  v1::ReadEdgesResponse response;
  response.set_version(graph.version());
  std::string& at_row = *(by_source ? response.mutable_sources() : response.mutable_targets());
  std::string& at_other = *(by_source ? response.mutable_targets() : response.mutable_sources());
  const auto begin = std::upper_bound(rows->offsets.begin(), rows->offsets.end(), first);
  auto row = static_cast<uint64_t>(begin - rows->offsets.begin()) - 1;
  for (uint64_t edge = first; edge < first + num_rows; ++edge) {
    while (edge >= rows->offsets[row + 1]) ++row;
    AddNumber(static_cast<uint32_t>(row), at_row);
    AddNumber(rows->neighbours[edge], at_other);
  }
  for (const size_t c : columns) {
    ColumnRows(specs[c], graph.EdgeColumn(stored, c))
        .Write(num_rows, row_at, *response.add_columns());
  }
  if (request.with_rows()) {
    PH_RETURN_IF_ERROR(
        WriteImportedRows(graph.EdgeRows(*asked_set), num_rows, row_at, *response.mutable_rows()));
  }
  return response;
}

}  // namespace packhouse
