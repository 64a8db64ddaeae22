// Sealed source graphs as they are stored, to be copied from one store to another.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEALED_GRAPH_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEALED_GRAPH_STORE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/mapped_source_graph.h"

namespace packhouse {

struct SealedSourceGraph {
  GraphDefinition definition;
  std::shared_ptr<const GraphManifest> manifest;
  // Its arrays.
  std::shared_ptr<const MappedSourceGraph> graph;
};

struct SourceGraphCopy {
  uint64_t num_bytes = 0;
  // Of these, those that were there before.
  uint64_t num_old_bytes = 0;
};

class SealedGraphStore : public SourceGraphStore {
 public:
  // As Open().
  virtual absl::StatusOr<SealedSourceGraph> OpenSealed(absl::string_view name) const = 0;

  // A graph of another store under its name, with its version and an id of its own. What else is
  // in its companion folder stays behind. Checks all checksums. The graph is there as a whole, or
  // not at all. OK also if it is there: a graph with that name and version.
  //
  // ALREADY_EXISTS for another graph with that name; DATA_LOSS naming the array that fails a
  // checksum; CANCELLED if `progress`, of bytes, says so; errors as Append().
  virtual absl::StatusOr<SourceGraphCopy> CopyIn(
      const SealedSourceGraph& from,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEALED_GRAPH_STORE_H_
