// Graphs that the benchmark reads in order, to send them on.
#ifndef PACKHOUSE_CLIENT_BENCH_GRAPH_SOURCE_H_
#define PACKHOUSE_CLIENT_BENCH_GRAPH_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

struct SourceChunk {
  v1::GraphChunk graphs;
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
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_GRAPH_SOURCE_H_
