#include "client/graph/source_graphs/source_graph_wire.h"

#include <string>
#include <vector>

#include "client/cpp/little_endian.h"

namespace packhouse::client {
namespace {

using graph_files::IdRows;

v1::DataType WireType(DType dtype) {
  // The contract numbers types in the order of DType, from 1.
  return static_cast<v1::DataType>(static_cast<int>(dtype) + 1);
}

template <typename Columns>
void AddColumnSpecs(const std::vector<SourceColumnSpec>& specs, Columns* columns) {
  for (const SourceColumnSpec& spec : specs) {
    v1::SourceColumn& column = *columns->Add();
    column.set_name(spec.name);
    column.set_dtype(WireType(spec.dtype));
    for (const uint32_t extent : spec.row_shape) column.add_row_shape(extent);
    column.set_ragged(spec.ragged);
    column.set_text(spec.text);
  }
}

void AppendLengths(const std::vector<uint64_t>& lengths, std::string* bytes) {
  const std::vector<uint32_t> narrow(lengths.begin(), lengths.end());
  AppendLittleEndian(absl::MakeConstSpan(narrow), *bytes);
}

void SetIds(const IdRows& rows, v1::NodeIds* ids) {
  if (!rows.is_text) {
    AppendLittleEndian(absl::MakeConstSpan(rows.numbers), *ids->mutable_integers());
    return;
  }
  v1::TextIds& text = *ids->mutable_text();
  text.set_data(rows.bytes);
  std::vector<uint64_t> lengths;
  for (size_t i = 0; i < rows.size(); ++i) lengths.push_back(rows.text(i).size());
  AppendLengths(lengths, text.mutable_lengths());
}

template <typename Columns>
void AddColumnRows(const std::vector<SourceColumnSpec>& specs, const graph_files::SourceRows& rows,
                   Columns* columns) {
  for (size_t c = 0; c < specs.size(); ++c) {
    v1::SourceColumnRows& column = *columns->Add();
    column.set_name(specs[c].name);
    column.set_data(rows.columns[c].bytes);
    AppendLengths(rows.columns[c].lengths, column.mutable_lengths());
  }
}

}  // namespace

v1::SourceGraphSchema WireSourceSchema(const SourceTables& tables, v1::EdgeLookup lookup) {
  v1::SourceGraphSchema wire;
  const SourceGraphSchema& schema = tables.schema;
  for (const SourceNodeSetSpec& spec : schema.node_sets()) {
    v1::SourceNodeSet& set = *wire.add_node_sets();
    set.set_name(spec.name);
    set.set_id_kind(tables.has_text_ids ? v1::NODE_ID_KIND_TEXT : v1::NODE_ID_KIND_INTEGER);
    AddColumnSpecs(spec.columns, set.mutable_columns());
  }
  for (const SourceEdgeSetSpec& spec : schema.edge_sets()) {
    v1::SourceEdgeSet& set = *wire.add_edge_sets();
    set.set_name(spec.name);
    set.set_source(schema.node_sets()[spec.source].name);
    set.set_target(schema.node_sets()[spec.target].name);
    AddColumnSpecs(spec.columns, set.mutable_columns());
    if (spec.reverse_of.has_value()) {
      set.set_reverse_of(schema.edge_sets()[*spec.reverse_of].name);
    } else {
      set.set_lookup(lookup);
    }
  }
  return wire;
}

v1::AppendSourceGraphRequest WireSourceRows(const SourceGraphSchema& schema,
                                            const graph_files::SourceRows& rows) {
  v1::AppendSourceGraphRequest request;
  if (rows.is_edges) {
    const SourceEdgeSetSpec& spec = schema.edge_sets()[rows.set];
    v1::SourceEdgeRows& edges = *request.add_edges();
    edges.set_edge_set(spec.name);
    SetIds(rows.sources, edges.mutable_sources());
    SetIds(rows.targets, edges.mutable_targets());
    AddColumnRows(spec.columns, rows, edges.mutable_columns());
  } else {
    const SourceNodeSetSpec& spec = schema.node_sets()[rows.set];
    v1::SourceNodeRows& nodes = *request.add_nodes();
    nodes.set_node_set(spec.name);
    SetIds(rows.ids, nodes.mutable_ids());
    AddColumnRows(spec.columns, rows, nodes.mutable_columns());
  }
  return request;
}

}  // namespace packhouse::client
