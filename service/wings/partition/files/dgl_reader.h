// Reads DGL's two kinds of binary files. dgl_format.h has the words, dgl_writer.h the other way.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_READER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/partition/files/array.h"

namespace packhouse {

struct DglCooView {
  ArrayView sources;
  ArrayView targets;
  ArrayView edges;  // Empty if edge i is at place i.
  bool sources_ascend = false;
  bool targets_ascend = false;
};

struct DglCsrView {
  ArrayView offsets;
  ArrayView neighbours;
  ArrayView edges;
  bool neighbours_ascend = false;
};

struct DglGraphView {
  uint64_t num_nodes = 0;
  std::optional<DglCooView> coo;
  std::optional<DglCsrView> csr;
  std::optional<DglCsrView> csc;
  std::vector<ArrayView> node_data;
  std::vector<ArrayView> edge_data;
};

// The arrays of a whole tensor file, in their order. Nothing is copied: views point into `file`.
//
// Errors: INVALID_ARGUMENT saying what is wrong and at which byte, for any bytes: another kind of
// file, cut short or too long, arrays that are not on a CPU or of a type that we do not have, bytes
// that do not match the shape. The caller names the file. Cost: O(number of arrays).
absl::StatusOr<std::vector<ArrayView>> ReadDglTensorFile(absl::string_view file);

// The graph of a graph file that holds one graph with one node type and one edge type, as
// partitions have it. Checks lengths: of the edges' ends, of offsets, of node data and edge data.
// Does not check that ends of edges are nodes: that costs O(edges). Errors as above.
absl::StatusOr<DglGraphView> ReadDglGraphFile(absl::string_view file);

// The array of that name; nullptr if there is none.
const ArrayView* FindArray(const std::vector<ArrayView>& arrays, absl::string_view name);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_DGL_READER_H_
