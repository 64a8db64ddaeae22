// Source graphs that many servers share: sealed ones in an object store, what they are in a
// key-value store.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_OBJECT_SOURCE_GRAPH_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_OBJECT_SOURCE_GRAPH_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/stores/keys/shared_uses.h"
#include "service/wings/cluster/datasets/chunk_cache.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/graphs/graph_upload.h"
#include "service/wings/cluster/graphs/piece_reader.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "service/wings/graphs/stored/sealed_graph_store.h"

namespace packhouse {

// Every server has one. A sealed graph can be opened by all of them: its arrays are in objects of
// at most 64 MiB, which are fetched into the cache and stay there as long as somebody has the graph
// open (RESOURCE_EXHAUSTED naming the bytes and the bound if they do not fit).
// docs/storage-format.md has the layout.
//
// A graph is built by one server, the one that was asked to create it, in files of its own; only
// there are rows appended, and it is sealed: FAILED_PRECONDITION naming that server elsewhere.
// Sealing puts the graph into the object store as a whole, or not at all.
//
// As of ObjectDatasetStore, UNAVAILABLE may mean that it is not known whether a change happened,
// and calls whose caller (base/caller.h) is gone end CANCELLED.
class ObjectSourceGraphStore final : public SealedGraphStore {
 public:
  struct Options {
    GraphUpload::Options upload;
    // Of the cache: what can be open at once.
    uint64_t max_cache_bytes = uint64_t{64} << 30;
    // Objects of one graph that are fetched at once.
    size_t fetches_at_once = 4;
    // This server, as others are told of it; and where it builds graphs. Null: it builds none, and
    // takes sealed ones only.
    std::string server;
    FileSourceGraphStore* building = nullptr;
  };

  // What is passed must outlive the store.
  ObjectSourceGraphStore(const ObjectEngines& engines, ChunkCache* cache, const Options& options)
      : engines_(engines),
        options_(options),
        pieces_(engines, cache, options.fetches_at_once, options.max_cache_bytes) {}

  absl::StatusOr<SourceGraphInfo> Create(absl::string_view name, const SourceGraphSchema& schema,
                                         const SourceGraphOptions& options) override;
  absl::StatusOr<SourceAppendResult> Append(
      const Target& target, const SourceGraphChunk& chunk,
      const std::optional<ProducerSequence>& producer) override;
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override;
  absl::StatusOr<SourceGraphInfo> Seal(
      const Target& target, const SealOptions& options,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) override;
  absl::StatusOr<SourceGraphInfo> Get(absl::string_view name) const override;
  absl::StatusOr<SourceGraphList> List(size_t page_size,
                                       absl::string_view page_token) const override;
  absl::Status Delete(const Target& target) override { return DeleteIf(target, UsedOrNot); }
  // ABORTED if it was used.
  absl::Status DeleteIf(const Target& target, StillUnused unused);
  // Of a sealed graph, also how its arrays fit together: so all of it must fit into the cache
  // (RESOURCE_EXHAUSTED before anything is read).
  absl::StatusOr<SourceGraphVerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) const override;
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const override;
  // Others may have it open here.
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> OpenIfHere(
      absl::string_view name) const override;
  absl::StatusOr<SealedSourceGraph> OpenSealed(absl::string_view name) const override;
  absl::StatusOr<SourceGraphCopy> CopyIn(
      const SealedSourceGraph& from,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) override;

  // Removes what this server has built or begun of graphs that are sealed, or were deleted, by now;
  // also what is damaged of them, unless its name is. What cannot be read or removed is passed
  // over, and is the error.
  absl::Status RemoveAllBuilt();

 private:
  struct Found {
    SharedGraph graph;
    Revision revision = 0;
  };

  // NOT_FOUND; DATA_LOSS naming the graph.
  absl::StatusOr<Found> Find(absl::string_view name) const;
  // The same of a graph that this server builds, and that is not sealed. FAILED_PRECONDITION naming
  // the server that does.
  absl::Status CheckIsBuiltHere(const SharedGraph& graph) const;
  SourceGraphInfo InfoOf(const SharedGraph& graph) const;
  // Tells an error of reading a graph's objects from that it was deleted meanwhile.
  absl::Status Explained(const SharedGraph& graph, const absl::Status& status) const;
  // This server should have the rows of the graph, and has not: DATA_LOSS, or NOT_FOUND if the
  // graph was deleted meanwhile.
  absl::Status ExplainedHere(const SharedGraph& graph) const;
  // What this server has built of it.
  void RemoveBuilt(const SharedGraph& graph);
  absl::StatusOr<SharedGraphManifest> ReadManifestOf(const SharedGraph& graph) const;
  absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> Map(
      const SharedGraph& graph, const SharedGraphManifest& manifest) const;
  // What somebody has open here already.
  std::optional<SealedSourceGraph> FindOpened(const SharedGraph& graph) const;
  absl::StatusOr<SealedSourceGraph> OpenFound(const SharedGraph& graph) const;

  const ObjectEngines engines_;
  const Options options_;
  const PieceReader pieces_;
  // Held while graphs begin to be built here, and while what is left of them is removed.
  absl::Mutex creating_;
  mutable absl::Mutex mutex_;
  struct Opened {
    std::weak_ptr<const MappedSourceGraph> graph;
    std::shared_ptr<const GraphManifest> manifest;
  };
  // By the number of the objects.
  mutable std::map<uint64_t, Opened> opened_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_OBJECT_SOURCE_GRAPH_STORE_H_
