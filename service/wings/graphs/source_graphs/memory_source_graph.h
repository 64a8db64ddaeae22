// A source graph whose arrays are in memory: for tests, and for graphs that are not stored.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_MEMORY_SOURCE_GRAPH_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_MEMORY_SOURCE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/wings/graphs/source_graphs/source_graph.h"

namespace packhouse {

// The rows of one column, as SourceColumn has them.
struct MemoryColumn {
  std::string bytes;
  std::vector<uint64_t> offsets;  // Ragged columns: rows + 1. Otherwise empty.
};

struct MemoryNodeSet {
  uint64_t num_nodes = 0;
  std::vector<int64_t> integer_ids;   // One a node; empty: node n has the id n.
  std::vector<std::string> text_ids;  // One a node; not both.
  std::vector<MemoryColumn> columns;  // As the schema has them.
};

struct MemoryEdgeSet {
  // One a node pair, in table order. Empty if the set is the reverse of another.
  std::vector<uint32_t> sources;
  std::vector<uint32_t> targets;
  std::vector<MemoryColumn> columns;  // As the schema has them; empty for a reversed set.
};

// INVALID_ARGUMENT naming the set and the column if an array has a wrong length or an end of an
// edge is no node. Has both directions of every edge set. O(nodes + edges) besides the columns.
absl::StatusOr<std::unique_ptr<const SourceGraph>> MakeMemorySourceGraph(
    SourceGraphSchema schema, uint64_t version, std::vector<MemoryNodeSet> node_sets,
    std::vector<MemoryEdgeSet> edge_sets);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_MEMORY_SOURCE_GRAPH_H_
