// A source graph with all its node types laid end to end, and its edge types likewise: what
// partitions are made of.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_HOMOGENEOUS_GRAPH_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_HOMOGENEOUS_GRAPH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/graphs/source_graphs/source_graph.h"

namespace packhouse {

struct HomogeneousNodeType {
  std::string name;
  size_t node_set = 0;  // Of the source graph.
  uint32_t start = 0;   // Homogeneous id of the type's node 0.
  uint32_t size = 0;
  // The rows that its nodes were imported from, if they are 0 .. size - 1; otherwise their numbers.
  ImportedRows imported = {};

  uint32_t end() const { return start + size; }
};

struct HomogeneousEdgeType {
  std::string relation;  // The name of the edge set.
  std::string name;      // source:relation:target
  size_t edge_set = 0;   // Of the source graph.
  size_t source = 0;     // Node types, not node sets.
  size_t target = 0;
  uint64_t start = 0;  // Homogeneous id of the type's edge 0.
  uint64_t size = 0;
  Adjacency by_source;
  Adjacency by_target;
  ImportedRows imported;  // Of its edges.
};

// Types have numbers in alphabetical order: node types of their names, edge types of (source type,
// relation, target type). Edge sets that are the reverse of others are types like all. Copyable; a
// view of the source graph, which must outlive it. Thread-safe.
class HomogeneousGraph {
 public:
  // Reads no edges. `graph` must outlive the result.
  //
  // INVALID_ARGUMENT naming the set if a name has a colon (an edge set may be named
  // source:relation:target by its own ends; the relation is then its middle), if two edge sets are
  // the same triple, or if there are more than SourceGraph::kMaxNodes nodes in all.
  // FAILED_PRECONDITION if the graph was sealed without one of the directions of an edge set.
  static absl::StatusOr<HomogeneousGraph> Create(const SourceGraph* graph);

  const SourceGraph& source() const { return *source_; }
  absl::Span<const HomogeneousNodeType> node_types() const { return node_types_; }
  absl::Span<const HomogeneousEdgeType> edge_types() const { return edge_types_; }
  uint32_t num_nodes() const { return num_nodes_; }
  uint64_t num_edges() const { return num_edges_; }

  // O(log types).
  size_t NodeTypeOf(uint32_t node) const { return TypeOf(node_types_, node); }
  size_t EdgeTypeOf(uint64_t edge) const { return TypeOf(edge_types_, edge); }

  // Numbers of the edge types that end, or begin, at a node type; ascending.
  absl::Span<const size_t> EdgeTypesInto(size_t node_type) const { return into_[node_type]; }
  absl::Span<const size_t> EdgeTypesOutOf(size_t node_type) const { return out_of_[node_type]; }

  // Edges of all types that end at `node`, self loops among them.
  uint64_t InDegree(uint32_t node) const {
    const size_t type = NodeTypeOf(node);
    uint64_t degree = 0;
    for (const size_t e : into_[type]) {
      degree += edge_types_[e].by_target.degree(node - node_types_[type].start);
    }
    return degree;
  }
  // Edges of all types at `node`, a self loop twice.
  uint64_t Degree(uint32_t node) const {
    const size_t type = NodeTypeOf(node);
    uint64_t degree = InDegree(node);
    for (const size_t e : out_of_[type]) {
      degree += edge_types_[e].by_source.degree(node - node_types_[type].start);
    }
    return degree;
  }
  // Calls visit(neighbour) for the other end of each edge at `node`, in-edges first; for a self
  // loop twice.
  template <typename Visit>
  void ForEachNeighbour(uint32_t node, Visit&& visit) const {
    const size_t type = NodeTypeOf(node);
    const uint32_t row = node - node_types_[type].start;
    for (const size_t e : into_[type]) {
      VisitRow(edge_types_[e].by_target, row, node_types_[edge_types_[e].source].start, visit);
    }
    for (const size_t e : out_of_[type]) {
      VisitRow(edge_types_[e].by_source, row, node_types_[edge_types_[e].target].start, visit);
    }
  }

  // The same with the edge: visit(neighbour, edge type, number of the edge in its set).
  template <typename Visit>
  void ForEachEdgeAt(uint32_t node, Visit&& visit) const {
    const size_t type = NodeTypeOf(node);
    const uint32_t row = node - node_types_[type].start;
    const auto visit_row = [&](size_t e, const Adjacency& rows, uint32_t start) {
      for (uint64_t at = rows.offsets[row]; at < rows.offsets[row + 1]; ++at) {
        visit(start + rows.neighbours[at], e, rows.edge(at));
      }
    };
    for (const size_t e : into_[type]) {
      visit_row(e, edge_types_[e].by_target, node_types_[edge_types_[e].source].start);
    }
    for (const size_t e : out_of_[type]) {
      visit_row(e, edge_types_[e].by_source, node_types_[edge_types_[e].target].start);
    }
  }
  // visit(neighbour, weight) for each edge at `node`, as ForEachNeighbour. `weights`: of edges, by
  // edge type; empty: 1 each.
  template <typename Visit>
  void ForEachWeighted(uint32_t node, absl::Span<const std::vector<uint64_t>> weights,
                       Visit&& visit) const {
    if (weights.empty()) {
      return ForEachNeighbour(node, [&](uint32_t other) { visit(other, uint64_t{1}); });
    }
    ForEachEdgeAt(node, [&](uint32_t other, size_t type, uint64_t edge) {
      visit(other, weights[type][edge]);
    });
  }

 private:
  explicit HomogeneousGraph(const SourceGraph* source) : source_(source) {}

  template <typename Type>
  static size_t TypeOf(const std::vector<Type>& types, uint64_t id) {
    // Types without nodes share their start with the next one: the last that starts here has it.
    const auto after = std::upper_bound(types.begin(), types.end(), id,
                                        [](uint64_t at, const Type& t) { return at < t.start; });
    return static_cast<size_t>(after - types.begin()) - 1;
  }
  template <typename Visit>
  static void VisitRow(const Adjacency& rows, uint32_t row, uint32_t start, Visit& visit) {
    const uint64_t end = rows.offsets[row + 1];
    for (uint64_t at = rows.offsets[row]; at < end; ++at) visit(start + rows.neighbours[at]);
  }

  const SourceGraph* source_;
  std::vector<HomogeneousNodeType> node_types_;
  std::vector<HomogeneousEdgeType> edge_types_;
  std::vector<std::vector<size_t>> into_;    // By node type.
  std::vector<std::vector<size_t>> out_of_;  // By node type.
  uint32_t num_nodes_ = 0;
  uint64_t num_edges_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_HOMOGENEOUS_GRAPH_H_
