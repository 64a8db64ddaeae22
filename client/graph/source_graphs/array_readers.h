// Rows of sets from arrays of numpy.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_ARRAY_READERS_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_ARRAY_READERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/graph/source_graphs/npy_stream.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

// A column of a set: arrays one after the other, with as many rows as the set.
struct ArrayColumn {
  std::vector<NpyArray> arrays;
  uint64_t row_elements = 1;
};

// The bytes of a row of these columns. Requires arrays in each.
uint64_t RowBytes(const std::vector<ArrayColumn>& columns);

// Nodes with `columns`, numbered from 0 unless `ids` has an array.
std::unique_ptr<TableReader> ReadNodeArrays(size_t set, uint64_t num_nodes,
                                            std::vector<NpyArray> ids,
                                            std::vector<ArrayColumn> columns);

// One end of all edges.
struct EdgeEnds {
  // Both ends have the same array if its shape is [2, edges].
  NpyArray ids;
  // Of the node set that they end in.
  std::string node_set;
  // Of a node set whose ids are 0 to num_nodes - 1; none if they are any numbers.
  std::optional<uint64_t> num_nodes;
};

// Edges. INVALID_ARGUMENT naming array, edge and id for an end that is no node.
std::unique_ptr<TableReader> ReadEdgeArrays(size_t set, uint64_t num_edges, EdgeEnds sources,
                                            EdgeEnds targets, std::vector<ArrayColumn> columns);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_ARRAY_READERS_H_
