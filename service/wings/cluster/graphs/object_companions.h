// Companions of source graphs that many servers share: their files in an object store, what they
// are in a key-value store.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_OBJECT_COMPANIONS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_OBJECT_COMPANIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/datasets/chunk_cache.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/graphs/piece_reader.h"
#include "service/wings/cluster/graphs/piece_upload.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/graphs/source_graphs/shared_companions.h"

namespace packhouse {

// Every server has one. Files are put into the store as those of sealed graphs are, of which
// docs/storage-format.md has the layout; read through the cache. A companion of a graph that was
// deleted is found by nobody, and its keys and objects are removed by RemoveGone() and the sweeps
// of any server.
class ObjectCompanions final : public SharedCompanions {
 public:
  struct Options {
    PieceUpload::Options upload;
    uint64_t max_cache_bytes = uint64_t{64} << 30;
    size_t fetches_at_once = 4;
    std::string server;
    std::string folder;
    // Whether another server, by its address, is there now. Null: all are.
    std::function<bool(absl::string_view server)> lives;
  };

  // What is passed must outlive it.
  ObjectCompanions(const ObjectEngines& engines, ChunkCache* cache, const Options& options)
      : engines_(engines),
        options_(options),
        pieces_(engines, cache, options.fetches_at_once, options.max_cache_bytes) {}

  const std::string& server() const override { return options_.server; }
  const std::string& folder() const override { return options_.folder; }
  absl::StatusOr<SharedCompanion> Find(const CompanionGraph& graph,
                                       absl::string_view name) const override;
  absl::StatusOr<std::vector<SharedCompanion>> List(const CompanionGraph& graph) const override;
  absl::StatusOr<std::vector<SharedCompanion>> ListAll() const override;
  absl::StatusOr<uint64_t> Put(const SharedCompanion& wanted) override;
  absl::Status Tell(const SharedCompanion& claimed, absl::string_view progress) override;
  absl::Status Upload(const SharedCompanion& claimed, const std::string& folder,
                      const CompanionContents& contents,
                      absl::FunctionRef<bool()> goes_on) override;
  absl::Status Delete(const CompanionGraph& graph, absl::string_view name) override;
  absl::Status RemoveGone() override;
  absl::StatusOr<CompanionContents> ContentsOf(const SharedCompanion& companion) const override;
  absl::StatusOr<OwnedBytes> Map(const SharedCompanion& companion, absl::string_view path,
                                 uint64_t offset, uint64_t max_bytes) const override;

  // Reads all of one that is whole, past the cache. DATA_LOSS naming what is damaged.
  absl::Status Verify(const StoredCompanion& companion) const;

 private:
  struct Found {
    // Whether the graph is there, and the revision of its name, whosever it is; 0: nobody's.
    bool has_graph = false;
    Revision graph_revision = 0;
    std::optional<KeyValue> key;  // Unset: there is no such companion.
    // DATA_LOSS of the key.
    absl::StatusOr<StoredCompanion> stored = StoredCompanion();

    Revision revision() const { return key ? key->mod_revision : 0; }
  };

  SharedCompanion Shown(SharedCompanion companion) const;
  absl::StatusOr<Found> Read(const CompanionGraph& graph, absl::string_view name) const;
  absl::StatusOr<std::vector<SharedCompanion>> ListOf(absl::string_view prefix) const;
  // The transaction that makes `into` of the companion, as Put().
  absl::StatusOr<Transaction> Changing(const SharedCompanion& wanted, const Found& now,
                                       const StoredCompanion& into) const;
  // `of_gone_graph`: only if the graph is not there.
  absl::Status Remove(const CompanionGraph& graph, absl::string_view name, bool of_gone_graph);
  // In the manifest's bytes.
  static absl::StatusOr<SharedCompanionManifest> ManifestIn(const StoredCompanion& stored,
                                                            absl::string_view bytes);
  // NOT_FOUND if it is another one by now.
  absl::StatusOr<SharedCompanionManifest> ManifestOf(const SharedCompanion& companion) const;
  // Tells an error of reading objects from that the companion was deleted meanwhile.
  absl::Status Explained(const SharedCompanion& companion, const absl::Status& status) const;

  const ObjectEngines engines_;
  const Options options_;
  const PieceReader pieces_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_OBJECT_COMPANIONS_H_
