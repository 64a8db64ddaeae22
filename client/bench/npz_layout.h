// The meaning of the arrays in a .npz archive of graphs: components, tensors, ends of edges.
//
// Graphs of one kind of nodes and edges. `node_offsets` and `edge_offsets` [graphs + 1] are
// ascending whole numbers from 0. They say which rows of the other arrays belong to a graph.
// `edge_index` [2, edges] holds row numbers within each graph and becomes two int32 index tensors,
// `senders` and `receivers`. Each further array is a tensor with the array's name and type; its
// first extent numbers its rows. `x` and `node_tag` belong to the nodes, `edge_attr` to the edges,
// `y` to the graphs. Any other array belongs to what its number of rows fits. If it fits several,
// its name decides: `node_`, `edge_` or `graph_`.
//
// Heterogeneous graphs. `COMPONENT.offsets` does the same for each component: `paper.offsets`,
// `author.writes.paper.offsets`. `COMPONENT.edge_index` [2, rows] makes the component a set of
// edges, SOURCE.RELATION.TARGET of other components, and becomes two int32 index tensors,
// `COMPONENT.source` into SOURCE and `COMPONENT.target` into TARGET. `COMPONENT.NAME` is a tensor
// of that name with a row for each row of the component; every other array has a row for each
// graph. An archive with any `COMPONENT.offsets` is one of these.
#ifndef PACKHOUSE_CLIENT_BENCH_NPZ_LAYOUT_H_
#define PACKHOUSE_CLIENT_BENCH_NPZ_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/files/npz_archive.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

// One tensor of the schema.
struct NpzColumn {
  // The archive's.
  const NpzArray* array = nullptr;
  // Place in NpzLayout::offsets; offsets.size() for `graphs`.
  std::size_t component = 0;
  // On the wire.
  uint64_t row_bytes = 0;
  // For one end of the edges: the component that it numbers, and the elements of the array before
  // it.
  std::optional<std::size_t> index_into;
  uint64_t first_element = 0;
};

struct NpzLayout {
  uint64_t num_graphs = 0;
  v1::GraphSchema schema;
  // For each component of the schema, num_graphs + 1 offsets.
  std::vector<std::vector<uint64_t>> offsets;
  // In the order of the schema's tensors, which is that of the archive.
  std::vector<NpzColumn> columns;

  // Where the rows of a graph begin; for num_graphs, the end of all rows.
  uint64_t FirstRow(std::size_t component, uint64_t graph) const {
    return component == offsets.size() ? graph : offsets[component][graph];
  }
};

// `groups` names an array that is no tensor; empty: there is none.
//
// Errors: INVALID_ARGUMENT naming file, array and value if offsets are missing, differ in length,
// or fail ReadOffsets; if an array's number of rows fits nothing, or its type or shape is wrong; if
// edges are not named after their ends. Memory: the offsets.
absl::StatusOr<NpzLayout> ReadNpzLayout(const NpzArchive& archive, const std::string& groups);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_NPZ_LAYOUT_H_
