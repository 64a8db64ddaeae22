#include "client/graph/source_graphs/graph_import.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/source_graph_appender.h"
#include "client/cpp/source_graph_client.h"
#include "client/graph/source_graphs/source_graph_wire.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

std::string ColumnsText(const google::protobuf::RepeatedPtrField<v1::SourceColumn>& columns) {
  std::string text;
  for (const v1::SourceColumn& column : columns) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", column.name(), " ",
                    column.text() ? "text" : v1::DataType_Name(column.dtype()),
                    column.ragged() && !column.text() ? " ragged" : "", " [",
                    absl::StrJoin(column.row_shape(), ", "), "]");
  }
  return text;
}

std::string NodeSetText(const v1::SourceNodeSet& set) {
  return absl::StrCat(set.name(), " with ",
                      set.id_kind() == v1::NODE_ID_KIND_TEXT ? "texts" : "integers",
                      " as ids and columns (", ColumnsText(set.columns()), ")");
}

std::string EdgeSetText(const v1::SourceEdgeSet& set) {
  return absl::StrCat(set.name(), " from ", set.source(), " to ", set.target(),
                      set.reverse_of().empty() ? "" : " reversing ", set.reverse_of(),
                      " with columns (", ColumnsText(set.columns()), ")");
}

template <typename Sets, typename Text>
std::string SetsDifference(const Sets& there, const Sets& ours, const char* kind, Text text) {
  for (int i = 0; i < std::max(there.size(), ours.size()); ++i) {
    const std::string has = i < there.size() ? text(there[i]) : "none";
    const std::string needs = i < ours.size() ? text(ours[i]) : "none";
    if (has != needs) {
      return absl::StrCat("has the ", kind, " set ", has, ", the source has ", needs);
    }
  }
  return "";
}

absl::StatusOr<v1::SourceGraph> GetOrCreate(const SourceGraphClient& client,
                                            const v1::CreateSourceGraphRequest& wanted) {
  absl::StatusOr<v1::SourceGraph> found = client.Get(wanted.name());
  if (absl::IsNotFound(found.status())) {
    absl::StatusOr<v1::SourceGraph> created = client.Create(wanted);
    if (!absl::IsAlreadyExists(created.status())) return created;
    // Created by another client just now, or by a first try whose answer was lost.
    found = client.Get(wanted.name());
  }
  if (!found.ok()) return found.status();
  const std::string difference = SchemaDifference(found->schema(), wanted.schema());
  if (!difference.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("source graph '", wanted.name(), "' ", difference));
  }
  for (int i = 0; i < wanted.schema().node_sets_size(); ++i) {
    if (wanted.schema().node_sets(i).appended_only() &&
        !found->schema().node_sets(i).appended_only()) {
      return absl::FailedPreconditionError(
          absl::StrCat("source graph '", wanted.name(),
                       "' was created without --appended-only; delete it, or import without"));
    }
  }
  return found;
}

// Whether a row of a sealed set became a node.
absl::StatusOr<bool> IsNodeOfRow(const SourceGraphClient& client, const std::string& graph,
                                 const std::string& set, uint64_t row) {
  v1::LookupNodesRequest request;
  request.set_graph(graph);
  request.set_node_set(set);
  AppendLittleEndian(absl::MakeConstSpan(&row, 1), *request.mutable_rows());
  const absl::Status status = client.Lookup(request).status();
  if (absl::IsOutOfRange(status)) return false;
  if (!status.ok()) return status;
  return true;
}

// How many of the `num_nodes` nodes of a sealed set only edges name, where `rows` rows were
// appended. Of counts alone that cannot be told, if nodes were there twice; but those nodes have
// the rows that follow. O(log num_nodes) calls.
absl::StatusOr<uint64_t> CountNodesWithoutRows(const SourceGraphClient& client,
                                               const std::string& graph, const std::string& set,
                                               uint64_t rows, uint64_t num_nodes) {
  uint64_t low = num_nodes > rows ? num_nodes - rows : 0;
  // Mostly there are no others.
  for (uint64_t high = low; high < num_nodes;) {
    PH_ASSIGN_OR_RETURN(const bool is_one, IsNodeOfRow(client, graph, set, rows + high));
    if (!is_one) {
      num_nodes = high;
      break;
    }
    low = high + 1;
    high = std::min(num_nodes, 2 * high + 1);
  }
  while (low < num_nodes) {
    const uint64_t middle = low + (num_nodes - low) / 2;
    PH_ASSIGN_OR_RETURN(const bool is_one, IsNodeOfRow(client, graph, set, rows + middle));
    if (is_one) {
      low = middle + 1;
    } else {
      num_nodes = middle;
    }
  }
  return low;
}

// `appended`: the graph before it was sealed. "at least" where the server does not let this caller
// look nodes up.
std::vector<std::string> NotesOnNodesWithoutRows(const SourceGraphClient& client,
                                                 const v1::SourceGraph& appended,
                                                 const v1::SourceGraph& sealed) {
  std::vector<std::string> notes;
  const int sets = std::min(appended.num_nodes_size(), sealed.num_nodes_size());
  for (int i = 0; i < std::min(sets, sealed.schema().node_sets_size()); ++i) {
    const v1::SourceNodeSet& set = sealed.schema().node_sets(i);
    const uint64_t rows = appended.num_nodes(i);
    const bool has_table = rows > 0 || set.columns_size() > 0;
    if (!has_table) continue;
    uint64_t without = sealed.num_nodes(i) > rows ? sealed.num_nodes(i) - rows : 0;
    const absl::StatusOr<uint64_t> counted =
        CountNodesWithoutRows(client, sealed.name(), set.name(), rows, sealed.num_nodes(i));
    if (counted.ok()) without = *counted;
    if (without == 0) continue;
    notes.push_back(absl::StrCat(
        "node set '", set.name(), "': of its ", sealed.num_nodes(i), " nodes ",
        counted.ok() ? "" : "at least ", without,
        " have no row: edges end at ids that its table does not have, and their columns are zeros; "
        "--appended-only refuses such edges, and names one"));
  }
  return notes;
}

}  // namespace

std::string SchemaDifference(const v1::SourceGraphSchema& there,
                             const v1::SourceGraphSchema& ours) {
  std::string nodes = SetsDifference(there.node_sets(), ours.node_sets(), "node", NodeSetText);
  if (!nodes.empty()) return nodes;
  return SetsDifference(there.edge_sets(), ours.edge_sets(), "edge", EdgeSetText);
}

namespace {

// Why the files are refused, and what they leave: rows that corrected files would come on top of.
absl::Status WithRowsThere(const absl::Status& refused,
                           const absl::StatusOr<v1::SourceGraph>& graph) {
  if (!graph.ok()) return refused;
  const uint64_t nodes =
      std::accumulate(graph->num_nodes().begin(), graph->num_nodes().end(), uint64_t{0});
  const uint64_t edges =
      std::accumulate(graph->num_edges().begin(), graph->num_edges().end(), uint64_t{0});
  if (nodes + edges == 0) return refused;
  return absl::Status(
      refused.code(),
      absl::StrCat(refused.message(), "; source graph '", graph->name(), "' has ", nodes,
                   " nodes and ", edges,
                   " edges by now: if they are of these files, delete it (packhouse graph delete ",
                   graph->name(), ") before corrected ones are imported"));
}

}  // namespace

absl::StatusOr<GraphImportResult> ImportGraph(const GraphImportOptions& options,
                                              const Servers& servers, const SourceTables& tables) {
  SourceGraphClientOptions client_options;
  client_options.retry = options.retry;
  const SourceGraphClient client(servers, client_options);
  v1::CreateSourceGraphRequest wanted;
  wanted.set_name(options.graph);
  *wanted.mutable_schema() = WireSourceSchema(tables, options.lookup);
  for (v1::SourceNodeSet& set : *wanted.mutable_schema()->mutable_node_sets()) {
    set.set_appended_only(options.appended_only);
  }
  wanted.set_max_bytes(options.max_bytes);
  GraphImportResult result;
  PH_ASSIGN_OR_RETURN(result.graph, GetOrCreate(client, wanted));
  if (result.graph.state() == v1::SOURCE_GRAPH_STATE_SEALED) {
    return absl::FailedPreconditionError(
        absl::StrCat("source graph '", options.graph, "' is sealed: it takes no more rows"));
  }

  SourceGraphAppenderOptions append_options;
  append_options.graph = options.graph;
  append_options.graph_id = result.graph.id();
  append_options.producer = options.producer.empty() ? absl::StrCat("import-", tables.fingerprint,
                                                                    "-", options.chunk_bytes)
                                                     : options.producer;
  // For so long the same command may be run again after a crash.
  if (options.producer.empty()) append_options.forget_after = absl::Hours(24 * 7);
  append_options.retry = options.retry;
  append_options.on_answer = [&](const SourceGraphAnswer& answer) {
    result.totals.nodes += answer.num_nodes;
    result.totals.edges += answer.num_edges;
    result.totals.bytes += answer.bytes;
    if (answer.is_repetition) result.totals.rows_present += answer.num_nodes + answer.num_edges;
    if (options.on_progress) options.on_progress(result.totals, -1);
  };
  SourceGraphAppender appender(servers.current(), append_options);
  SourceTablesReader reader(tables);
  graph_files::SourceRows rows;
  while (true) {
    const absl::StatusOr<bool> has_rows = reader.Read(options.chunk_bytes, &rows);
    if (!has_rows.ok()) {
      // Those before it are sent. Their answers do not matter: the reason is the file's.
      (void)appender.Finish();
      return WithRowsThere(has_rows.status(), client.Get(options.graph));
    }
    if (!*has_rows) break;
    PH_RETURN_IF_ERROR(appender.Append(WireSourceRows(tables.schema, rows)));
  }
  PH_RETURN_IF_ERROR(appender.Finish());

  PH_ASSIGN_OR_RETURN(const v1::SourceGraph appended, client.Get(options.graph));
  if (!options.seal) {
    result.graph = appended;
    return result;
  }
  v1::SealSourceGraphRequest seal;
  seal.set_name(options.graph);
  seal.set_duplicates(options.duplicates);
  PH_ASSIGN_OR_RETURN(result.graph, client.Seal(seal, [&](uint64_t done, uint64_t total) {
    if (!options.on_progress || total == 0) return;
    options.on_progress(result.totals, static_cast<double>(done) / static_cast<double>(total));
  }));
  result.notes = NotesOnNodesWithoutRows(client, appended, result.graph);
  return result;
}

}  // namespace packhouse::client
