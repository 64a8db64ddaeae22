// A rank's share of a graph: the nodes of its block and the edges that end at them.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_GRAPH_SHARE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_GRAPH_SHARE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

struct SharedNodeType {
  std::string name;
  uint64_t start = 0;  // Homogeneous id of the type's node 0.
  uint64_t size = 0;

  uint64_t end() const { return start + size; }
};

struct SharedEdgeType {
  std::string name;   // source:relation:target
  size_t source = 0;  // Node types.
  size_t target = 0;
  uint64_t start = 0;  // Homogeneous id of the type's edge 0.
  uint64_t size = 0;

  uint64_t end() const { return start + size; }
};

// The types of a graph, laid end to end in alphabetical order as in HomogeneousGraph, but with ids
// of 64 bits. Every rank has them all.
struct SharedTypes {
  std::vector<SharedNodeType> node_types;
  std::vector<SharedEdgeType> edge_types;
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;

  // O(log types). Types without nodes share their start with the next one.
  size_t NodeTypeOf(uint64_t node) const { return TypeOf(node_types, node); }
  size_t EdgeTypeOf(uint64_t edge) const { return TypeOf(edge_types, edge); }

 private:
  template <typename Type>
  static size_t TypeOf(const std::vector<Type>& types, uint64_t id) {
    const auto after = std::upper_bound(types.begin(), types.end(), id,
                                        [](uint64_t at, const Type& t) { return at < t.start; });
    return static_cast<size_t>(after - types.begin()) - 1;
  }
};

// Homogeneous ids.
struct SharedEdge {
  uint64_t target = 0;
  uint64_t source = 0;
  uint64_t edge = 0;
};

// The edges that one rank reads: each edge of the graph is read by one rank.
class EdgeReader {
 public:
  virtual ~EdgeReader() = default;
  // Begins again.
  virtual void Rewind() = 0;
  // Replaces `edges` by the next ones, at least one; false when there are no more. Errors name file
  // and row: an end that is no node of its type is one.
  virtual absl::StatusOr<bool> Next(std::vector<SharedEdge>& edges) = 0;
};

// The edges into this rank's nodes. Edges of a type and target lie together and ascend by their
// number. 16 bytes an edge, and 8 for each edge type that ends at a node.
class GraphShare {
 public:
  // The in-edges of this rank's nodes that are of one type, by rows: the nodes of the target type
  // that are in this rank's block.
  struct TypeRows {
    uint64_t first_node = 0;        // Homogeneous id of row 0.
    std::vector<uint64_t> offsets;  // Rows + 1; places in sources and edges.

    uint64_t num_rows() const { return offsets.size() - 1; }
  };

  // Reads twice: all edges are checked and counted before any is sent. `types` must outlive the
  // result. Errors: those of the readers, the same on every rank. Needs 24 bytes an edge of the
  // share while it works, with what it keeps 40.
  static absl::StatusOr<GraphShare> Create(Ranks& ranks, const SharedTypes* types,
                                           EdgeReader& reader);

  const SharedTypes& types() const { return *types_; }
  const Blocks& blocks() const { return blocks_; }
  uint32_t rank() const { return rank_; }
  uint64_t first_node() const { return blocks_.begin(rank_); }
  uint64_t num_own() const { return blocks_.size(rank_); }
  bool IsOwn(uint64_t node) const { return node - first_node() < num_own(); }

  const std::vector<TypeRows>& rows() const { return rows_; }
  // By place: homogeneous ids.
  const std::vector<uint64_t>& sources() const { return sources_; }
  const std::vector<uint64_t>& edges() const { return edges_; }
  // For the rank that needs other numbers of the sources in their place.
  std::vector<uint64_t>& mutable_sources() { return sources_; }

  // Edges of all types that end at each own node.
  std::vector<uint64_t> InDegrees() const;
  // Calls visit(target, place) for all own in-edges, type after type.
  template <typename Visit>
  void ForEachEdge(const Visit& visit) const {
    for (const TypeRows& rows : rows_) {
      for (uint64_t row = 0; row < rows.num_rows(); ++row) {
        for (uint64_t at = rows.offsets[row]; at < rows.offsets[row + 1]; ++at) {
          visit(rows.first_node + row, at);
        }
      }
    }
  }

 private:
  GraphShare(const SharedTypes* types, Ranks& ranks)
      : types_(types), blocks_(types->num_nodes, ranks.size()), rank_(ranks.rank()) {}

  void Keep(std::vector<SharedEdge> edges);

  const SharedTypes* types_;
  Blocks blocks_;
  uint32_t rank_;
  std::vector<TypeRows> rows_;  // By edge type.
  std::vector<uint64_t> sources_;
  std::vector<uint64_t> edges_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_GRAPH_SHARE_H_
