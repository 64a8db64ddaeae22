// Puts sealed source graphs into an object store: the pieces first, then one transaction.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_GRAPH_UPLOAD_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_GRAPH_UPLOAD_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/graphs/piece_upload.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/graphs/stored/sealed_graph_store.h"

namespace packhouse {

// One graph's way into the store. An upload that was stopped is gone on with by the next one of the
// same graph, also by another process: what is there is not sent again, unless nobody has gone on
// for so long that it was swept. Thread-compatible.
class GraphUpload {
 public:
  using Options = PieceUpload::Options;
  using Progress = absl::FunctionRef<bool(const SourceGraphProgress&)>;

  // What is passed must outlive it. `server`: the one that has built the graph, whose name is taken
  // by it; empty: the graph comes from another store, and its name must be free.
  GraphUpload(const ObjectEngines& engines, const Options& options, const SealedSourceGraph& from,
              std::string server);

  // As SealedGraphStore::CopyIn(). NOT_FOUND if the graph was deleted while `server` built it.
  absl::StatusOr<SourceGraphCopy> Run(Progress progress);

 private:
  // The bytes [begin, end) of the arrays. DATA_LOSS naming the array that fails a checksum.
  absl::StatusOr<std::string> PieceAt(uint64_t begin, uint64_t end) const;
  // The transaction by which the graph is there. Puts its manifest.
  absl::StatusOr<Transaction> End(const PieceUpload::Begun& begun, Revision name_revision) const;

  const ObjectEngines engines_;
  const SealedSourceGraph& from_;
  const std::string server_;
  const ArrayPlaces places_;
  PieceUpload pieces_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_GRAPH_UPLOAD_H_
