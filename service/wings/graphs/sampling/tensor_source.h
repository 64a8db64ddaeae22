// Where the rows of a sub-graph's tensors come from.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_TENSOR_SOURCE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_TENSOR_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/wings/graphs/sampling/sampled_graph.h"
#include "service/wings/graphs/source_graphs/source_graph.h"

namespace packhouse {

// A node set or edge set of sub-graphs.
struct RowsOf {
  enum class Kind : uint8_t {
    kNodes,         // SampledGraph::node_sets[position].
    kEdges,         // SampledGraph::edge_sets[position].
    kReadout,       // `_readout`.
    kReadoutEdges,  // The edges from the seeds number `position` of each of its rows.
  };
  Kind kind = Kind::kNodes;
  size_t position = 0;

  friend bool operator==(const RowsOf&, const RowsOf&) = default;
};

struct TensorSource {
  enum class Kind : uint8_t {
    kRows,          // Rows of `column`.
    kLengths,       // Of the rows of `column`, which is ragged.
    kSteps,         // All steps of the rows of `column`.
    kNumbers,       // Of nodes or edges in the source graph.
    kImportedRows,  // The rows of nodes or edges: `column` has them. Not where they are numbers.
    kInner,         // Whether a node is the part's own.
    kSources,
    kTargets,
    kReadout,  // Given with the seeds.
  };
  Kind kind = Kind::kRows;
  RowsOf rows;
  SourceColumn column;
  size_t readout_column = 0;
  // Of the tensor. With kSteps: of a step.
  uint64_t row_bytes = 0;
};

// A component that counts the steps of a ragged column.
struct RaggedSource {
  RowsOf rows;
  SourceColumn column;
};

struct SampledTensors {
  // As GraphSchema::tensors().
  std::vector<TensorSource> sources;
  // The first components; those of `ragged` follow.
  std::vector<RowsOf> components;
  std::vector<RaggedSource> ragged;
  size_t seeds_per_row = 1;
  size_t num_readout_columns = 0;
  // Whether some tensor or component needs the numbers of edges of a set, by position.
  std::vector<bool> needs_edge_numbers;

  uint64_t Count(const SampledGraph& sampled, const RowsOf& rows) const {
    switch (rows.kind) {
      case RowsOf::Kind::kNodes:
        return sampled.node_sets[rows.position].numbers.size();
      case RowsOf::Kind::kEdges:
        return sampled.edge_sets[rows.position].sources.size();
      default:
        return sampled.seeds.size() / seeds_per_row;
    }
  }
};

// Calls `visit` with the vector of the rows' numbers in the source graph.
template <typename Visit>
void VisitNumbers(const SampledGraph& sampled, const RowsOf& rows, const Visit& visit) {
  if (rows.kind == RowsOf::Kind::kNodes) {
    visit(sampled.node_sets[rows.position].numbers);
  } else {
    visit(sampled.edge_sets[rows.position].numbers);
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_TENSOR_SOURCE_H_
