// Writes DGL's two kinds of binary files: tensor files (node_feat.dgl, edge_feat.dgl) and graph
// files (graph.dgl). dgl_format.h has the words.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_WRITER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_WRITER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// The edges of a graph, one a row, in the order of their ids.
struct DglCooSource {
  ArraySource sources;
  ArraySource targets;
  bool sources_ascend = false;
  bool targets_ascend = false;
};

// The edges by one end. CSR: by source, CSC: by target.
struct DglCsrSource {
  ArraySource offsets;     // Nodes + 1.
  ArraySource neighbours;  // One an edge.
  ArraySource edges;       // The ids of the edges.
  bool neighbours_ascend = false;
};

// A graph of one node type "_N" and one edge type "_E", in at least one form.
struct DglGraphSource {
  uint64_t num_nodes = 0;
  std::optional<DglCooSource> coo;
  std::optional<DglCsrSource> csr;
  std::optional<DglCsrSource> csc;
  std::vector<ArraySource> node_data;
  std::vector<ArraySource> edge_data;
};

// DGL has signed and unsigned integers and floating-point numbers. Booleans are written as uint8,
// as DGL does. Arrays stand in the order given.
//
// Errors, before anything is written: INVALID_ARGUMENT naming the array if it is bfloat16, too
// large, or its name is there twice; those of `sink` as they are.
// Memory: O(1) beside what the sources need. The same arguments give the same bytes.
absl::Status WriteDglTensorFile(absl::Span<const ArraySource> arrays, ByteSink& sink);

// The same for a graph. What DGL leaves undefined is 0. INVALID_ARGUMENT also for a graph that is
// in no form.
absl::Status WriteDglGraphFile(const DglGraphSource& graph, ByteSink& sink);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_WRITER_H_
