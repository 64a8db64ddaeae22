#include "service/wings/graphs/services/wire_source_graphs.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_graphs.h"

namespace packhouse {
namespace {

absl::StatusOr<SourceColumnSpec> ColumnSpecFromWire(const v1::SourceColumn& wire,
                                                    const std::string& set) {
  const std::optional<DType> dtype = DTypeFromWire(wire.dtype());
  if (!dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "column ", Quoted(wire.name()), " of ", Quoted(set), ": dtype ", wire.dtype(), " is none"));
  }
  SourceColumnSpec spec;
  spec.name = wire.name();
  spec.dtype = *dtype;
  spec.row_shape.assign(wire.row_shape().begin(), wire.row_shape().end());
  spec.ragged = wire.ragged();
  spec.text = wire.text();
  return spec;
}

template <typename Wire>
absl::StatusOr<std::vector<SourceColumnSpec>> ColumnSpecsFromWire(const Wire& wire) {
  std::vector<SourceColumnSpec> specs;
  for (const v1::SourceColumn& column : wire.columns()) {
    PH_ASSIGN_OR_RETURN(SourceColumnSpec spec, ColumnSpecFromWire(column, wire.name()));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// The number of the set with this name.
template <typename Sets>
absl::StatusOr<size_t> NumberOf(const Sets& sets, const std::string& name, absl::string_view what) {
  for (int s = 0; s < sets.size(); ++s) {
    if (sets[s].name() == name) return static_cast<size_t>(s);
  }
  return absl::InvalidArgumentError(absl::StrCat(what, ": there is no set ", Quoted(name)));
}

absl::StatusOr<SourceNodeSetOptions> NodeSetOptionsFromWire(const v1::SourceNodeSet& wire) {
  SourceNodeSetOptions options;
  options.nodes_from_edges = !wire.appended_only();
  switch (wire.id_kind()) {
    case v1::NODE_ID_KIND_UNSPECIFIED:
    case v1::NODE_ID_KIND_INTEGER:
      return options;
    case v1::NODE_ID_KIND_TEXT:
      options.integer_ids = false;
      return options;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("node set ", Quoted(wire.name()), ": id_kind ", wire.id_kind(), " is none"));
  }
}

absl::StatusOr<SourceEdgeSetOptions> EdgeSetOptionsFromWire(const v1::SourceEdgeSet& wire) {
  switch (wire.lookup()) {
    case v1::EDGE_LOOKUP_UNSPECIFIED:
    case v1::EDGE_LOOKUP_BOTH:
      return SourceEdgeSetOptions{true, true};
    case v1::EDGE_LOOKUP_BY_SOURCE:
      return SourceEdgeSetOptions{true, false};
    case v1::EDGE_LOOKUP_BY_TARGET:
      return SourceEdgeSetOptions{false, true};
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("edge set ", Quoted(wire.name()), ": lookup ", wire.lookup(), " is none"));
  }
}

v1::EdgeLookup EdgeLookupToWire(const SourceEdgeSetOptions& options) {
  if (options.by_source && options.by_target) return v1::EDGE_LOOKUP_BOTH;
  return options.by_source ? v1::EDGE_LOOKUP_BY_SOURCE : v1::EDGE_LOOKUP_BY_TARGET;
}

template <typename Wire>
void ColumnSpecsToWire(const std::vector<SourceColumnSpec>& specs, Wire& wire) {
  for (const SourceColumnSpec& spec : specs) {
    v1::SourceColumn& column = *wire.add_columns();
    column.set_name(spec.name);
    column.set_dtype(DTypeToWire(spec.dtype));
    for (const uint32_t extent : spec.row_shape) column.add_row_shape(extent);
    column.set_ragged(spec.ragged);
    column.set_text(spec.text);
  }
}

v1::SourceGraphState SourceStateToWire(SourceGraphState state) {
  switch (state) {
    case SourceGraphState::kOpen:
      return v1::SOURCE_GRAPH_STATE_OPEN;
    case SourceGraphState::kSealing:
      return v1::SOURCE_GRAPH_STATE_SEALING;
    case SourceGraphState::kSealed:
      return v1::SOURCE_GRAPH_STATE_SEALED;
    case SourceGraphState::kDamaged:
      break;
  }
  return v1::SOURCE_GRAPH_STATE_DAMAGED;
}

absl::StatusOr<SourceIdRows> IdRowsFromWire(const v1::NodeIds& wire, const std::string& set) {
  switch (wire.ids_case()) {
    case v1::NodeIds::kIntegers:
      return SourceIdRows{true, wire.integers(), {}};
    case v1::NodeIds::kText:
      return SourceIdRows{false, wire.text().data(), wire.text().lengths()};
    case v1::NodeIds::IDS_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("rows of ", Quoted(set), ": ids are unset"));
}

uint64_t NumIds(const SourceIdRows& ids) {
  return ids.integers ? ids.data.size() / sizeof(int64_t) : ids.lengths.size() / sizeof(uint32_t);
}

// Every column of `specs` once, in their order.
template <typename Wire>
absl::StatusOr<std::vector<SourceColumnRows>> ColumnRowsFromWire(
    const Wire& wire, const std::vector<SourceColumnSpec>& specs, const std::string& set) {
  std::vector<std::optional<SourceColumnRows>> found(specs.size());
  for (const v1::SourceColumnRows& rows : wire.columns()) {
    size_t c = 0;
    while (c < specs.size() && specs[c].name != rows.name()) ++c;
    if (c == specs.size() || found[c]) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows of ", Quoted(set), ": column ", Quoted(rows.name()),
                       c == specs.size() ? " is none of the set's" : " is there twice"));
    }
    found[c] = SourceColumnRows{rows.data(), rows.lengths()};
  }
  std::vector<SourceColumnRows> columns;
  for (size_t c = 0; c < specs.size(); ++c) {
    if (!found[c]) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows of ", Quoted(set), ": column ", Quoted(specs[c].name), " is missing"));
    }
    columns.push_back(*found[c]);
  }
  return columns;
}

}  // namespace

absl::StatusOr<NewSourceGraph> NewSourceGraphFromWire(const v1::CreateSourceGraphRequest& wire) {
  SourceGraphOptions options;
  options.max_bytes = wire.max_bytes();
  std::vector<SourceNodeSetSpec> node_sets;
  for (const v1::SourceNodeSet& set : wire.schema().node_sets()) {
    PH_ASSIGN_OR_RETURN(auto columns, ColumnSpecsFromWire(set));
    node_sets.push_back({set.name(), std::move(columns)});
    PH_ASSIGN_OR_RETURN(const SourceNodeSetOptions of_set, NodeSetOptionsFromWire(set));
    options.node_sets.push_back(of_set);
  }
  std::vector<SourceEdgeSetSpec> edge_sets;
  for (const v1::SourceEdgeSet& set : wire.schema().edge_sets()) {
    const std::string what = absl::StrCat("edge set ", Quoted(set.name()));
    SourceEdgeSetSpec spec;
    spec.name = set.name();
    PH_ASSIGN_OR_RETURN(spec.source,
                        NumberOf(wire.schema().node_sets(), set.source(), what + ": source"));
    PH_ASSIGN_OR_RETURN(spec.target,
                        NumberOf(wire.schema().node_sets(), set.target(), what + ": target"));
    PH_ASSIGN_OR_RETURN(spec.columns, ColumnSpecsFromWire(set));
    if (!set.reverse_of().empty()) {
      PH_ASSIGN_OR_RETURN(spec.reverse_of, NumberOf(wire.schema().edge_sets(), set.reverse_of(),
                                                    what + ": reverse_of"));
    }
    edge_sets.push_back(std::move(spec));
    PH_ASSIGN_OR_RETURN(const SourceEdgeSetOptions of_set, EdgeSetOptionsFromWire(set));
    options.edge_sets.push_back(of_set);
  }
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets)));
  return NewSourceGraph{wire.name(), std::move(schema), std::move(options)};
}

absl::StatusOr<SourceGraphChunk> SourceGraphChunkFromWire(const v1::AppendSourceGraphRequest& wire,
                                                          const SourceGraphSchema& schema) {
  SourceGraphChunk chunk;
  for (const v1::SourceNodeRows& from : wire.nodes()) {
    const auto set = schema.NodeSetIndex(from.node_set());
    if (!set) {
      return absl::InvalidArgumentError(
          absl::StrCat("node_set: there is no node set ", Quoted(from.node_set())));
    }
    SourceNodeRows rows;
    rows.node_set = *set;
    PH_ASSIGN_OR_RETURN(rows.ids, IdRowsFromWire(from.ids(), from.node_set()));
    rows.num_rows = NumIds(rows.ids);
    PH_ASSIGN_OR_RETURN(
        rows.columns, ColumnRowsFromWire(from, schema.node_sets()[*set].columns, from.node_set()));
    chunk.nodes.push_back(std::move(rows));
  }
  for (const v1::SourceEdgeRows& from : wire.edges()) {
    const auto set = schema.EdgeSetIndex(from.edge_set());
    if (!set) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge_set: there is no edge set ", Quoted(from.edge_set())));
    }
    SourceEdgeRows rows;
    rows.edge_set = *set;
    PH_ASSIGN_OR_RETURN(rows.sources, IdRowsFromWire(from.sources(), from.edge_set()));
    PH_ASSIGN_OR_RETURN(rows.targets, IdRowsFromWire(from.targets(), from.edge_set()));
    rows.num_rows = NumIds(rows.sources);
    PH_ASSIGN_OR_RETURN(
        rows.columns, ColumnRowsFromWire(from, schema.edge_sets()[*set].columns, from.edge_set()));
    chunk.edges.push_back(std::move(rows));
  }
  return chunk;
}

absl::StatusOr<DuplicateNodes> DuplicateNodesFromWire(v1::DuplicateNodes wire) {
  switch (wire) {
    case v1::DUPLICATE_NODES_UNSPECIFIED:
    case v1::DUPLICATE_NODES_REFUSE:
      return DuplicateNodes::kRefuse;
    case v1::DUPLICATE_NODES_FIRST:
      return DuplicateNodes::kFirst;
    case v1::DUPLICATE_NODES_LAST:
      return DuplicateNodes::kLast;
    default:
      return absl::InvalidArgumentError(absl::StrCat("duplicates: ", wire, " is none"));
  }
}

void SourceAppendResultToWire(const SourceAppendResult& result,
                              const v1::AppendSourceGraphRequest& request,
                              v1::AppendSourceGraphResponse& wire) {
  if (request.has_producer_sequence()) {
    *wire.mutable_producer_sequence() = request.producer_sequence();
  }
  wire.set_num_nodes(result.num_nodes);
  wire.set_num_edges(result.num_edges);
  wire.set_is_repetition(result.is_repetition);
  wire.set_total_nodes(result.total_nodes);
  wire.set_total_edges(result.total_edges);
}

void SourceGraphToWire(const SourceGraphInfo& info, v1::SourceGraph& wire) {
  wire.Clear();
  wire.set_name(info.name);
  wire.set_state(SourceStateToWire(info.state));
  if (info.state == SourceGraphState::kDamaged) return;
  for (size_t n = 0; n < info.schema->node_sets().size(); ++n) {
    const SourceNodeSetSpec& spec = info.schema->node_sets()[n];
    v1::SourceNodeSet& set = *wire.mutable_schema()->add_node_sets();
    set.set_name(spec.name);
    set.set_id_kind(info.options.node_sets[n].integer_ids ? v1::NODE_ID_KIND_INTEGER
                                                          : v1::NODE_ID_KIND_TEXT);
    set.set_appended_only(!info.options.node_sets[n].nodes_from_edges);
    ColumnSpecsToWire(spec.columns, set);
  }
  for (size_t e = 0; e < info.schema->edge_sets().size(); ++e) {
    const SourceEdgeSetSpec& spec = info.schema->edge_sets()[e];
    v1::SourceEdgeSet& set = *wire.mutable_schema()->add_edge_sets();
    set.set_name(spec.name);
    set.set_source(info.schema->node_sets()[spec.source].name);
    set.set_target(info.schema->node_sets()[spec.target].name);
    set.set_lookup(EdgeLookupToWire(info.options.edge_sets[e]));
    if (spec.reverse_of) set.set_reverse_of(info.schema->edge_sets()[*spec.reverse_of].name);
    ColumnSpecsToWire(spec.columns, set);
  }
  wire.set_version(info.version);
  for (const uint64_t count : info.num_nodes) wire.add_num_nodes(count);
  for (const uint64_t count : info.num_edges) wire.add_num_edges(count);
  wire.set_num_bytes(info.num_bytes);
  wire.set_max_bytes(info.options.max_bytes);
  wire.set_id(info.id);
}

void SourceGraphListToWire(const SourceGraphList& list, v1::ListSourceGraphsResponse& wire) {
  wire.Clear();
  for (const SourceGraphInfo& info : list.graphs) SourceGraphToWire(info, *wire.add_graphs());
  wire.set_next_page_token(list.next_page_token);
}

void SourceGraphReportToWire(const SourceGraphVerifyReport& report,
                             v1::VerifySourceGraphResponse& wire) {
  wire.set_num_bytes(report.num_bytes);
  wire.set_num_bytes_total(report.num_bytes);
  wire.set_finished(true);
  wire.set_num_damaged(report.num_damaged);
  for (const absl::Status& damage : report.damaged) {
    wire.add_damaged(std::string(damage.message()));
  }
}

}  // namespace packhouse
