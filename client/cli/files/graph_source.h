// Graphs that a command reads in order, to send them on.
#ifndef PACKHOUSE_CLIENT_CLI_FILES_GRAPH_SOURCE_H_
#define PACKHOUSE_CLIENT_CLI_FILES_GRAPH_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/graph/files/fingerprint.h"
#include "client/graph/files/sizes_file.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

struct SourceChunk {
  v1::GraphChunk graphs;
  // Instead of `graphs`: the server decodes them.
  std::optional<v1::Examples> examples;
  // As AppendRequest.group_ids; empty if the source has no groups.
  std::string group_ids;
};

// Not thread-safe.
class GraphSource {
 public:
  virtual ~GraphSource() = default;

  // With components set.
  virtual const v1::GraphSchema& schema() const = 0;
  virtual bool is_grouped() const = 0;
  virtual uint64_t num_graphs() const = 0;
  // The bytes of one graph's sizes and rows in a chunk. Requires graph < num_graphs(). O(tensors).
  virtual uint64_t GraphBytes(uint64_t graph) const = 0;
  // 16 hexadecimal digits, the same for the same graphs, schema and groups wherever they lie.
  virtual std::string fingerprint() const = 0;

  // The next `count` graphs; at least 1, and at most as many as are left. Their ids are their
  // numbers in the source, from 0.
  //
  // Errors: those of the source, naming file and place; after one it cannot be read further.
  virtual absl::StatusOr<SourceChunk> Next(uint64_t count) = 0;

  // Says why the server refused the chunk of the `count` graphs from `first` on, if the source can
  // name the place better than the server; otherwise `refused`, as it is.
  virtual absl::Status Explain(uint64_t /*first*/, uint64_t /*count*/, absl::Status refused) const {
    return refused;
  }
};

// The sizes of a file or histogram as graphs without tensors.
//
// Errors: OUT_OF_RANGE if a histogram has more than 2^28 graphs.
absl::StatusOr<std::unique_ptr<GraphSource>> MakeSizesSource(GraphSizes sizes);

// Opens `path`: a .npz archive of graphs (npz_layout.h), recognised by its content; anything else
// is a file of sizes (sizes_file.h), read from stdin if `path` is `-`. `groups` names the array
// with each graph's group id; empty: none.
//
// Errors: as NpzGraphs::Open, ReadSizesFile; INVALID_ARGUMENT if a file of sizes should have
// groups, and naming the program that reads it for Parquet, Arrow and PyG's .pt.
absl::StatusOr<std::unique_ptr<GraphSource>> OpenGraphSource(const std::string& path,
                                                             const std::string& groups);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_FILES_GRAPH_SOURCE_H_
