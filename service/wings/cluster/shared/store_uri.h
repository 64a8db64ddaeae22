// Stores of data sets by their addresses, for commands that no server is needed for.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_STORE_URI_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_STORE_URI_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/cluster/shared/shared_datasets.h"
#include "service/wings/graphs/stored/sealed_graph_store.h"

namespace packhouse {

// etcd, as the flags of packhoused name it.
struct LedgerAddress {
  std::string uri;               // etcd://HOST[:PORT],...[/PREFIX]
  std::string roots_file;        // PEM; empty: plain text.
  std::string certificate_file;  // PEM, with its key; empty: none.
  std::string key_file;
  std::string user;                           // NAME:PASSWORD; empty: none.
  absl::Duration timeout = absl::Seconds(3);  // Of each call.
};

// A client of it. INVALID_ARGUMENT; NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE
// naming a file that cannot be read. Sends nothing.
absl::StatusOr<std::unique_ptr<KeyValueStore>> ConnectLedger(const LedgerAddress& address);

// A store, and what it needs.
class OpenedStore {
 public:
  virtual ~OpenedStore() = default;
  virtual DatasetStore* store() = 0;
  // Null if there are none, and none may be made; errors of opening them, which is done now.
  virtual absl::StatusOr<SealedGraphStore*> source_graphs() = 0;
};

struct StoreAddress {
  // "lmdb:DIR", a server's data folder, which no server may have open; or "s3://...".
  std::string uri;
  // The rest of the latter; its `uri` and `cache_folder` are not used.
  SharedDatasetsOptions shared;
  LedgerAddress ledger;
  // Otherwise an endpoint in plain text beyond this machine is refused.
  bool allows_plain_text = false;
  // In which a folder for the cache is made that goes with the store.
  std::string cache_parent;
  // Of the former.
  uint64_t max_bytes = uint64_t{64} << 30;
};

// What servers share in S3 and etcd, with a cache that goes with it.
class SharedStore final : public OpenedStore {
 public:
  // INVALID_ARGUMENT without a ledger; errors of ConnectLedger() and SharedDatasets::Open().
  // `clock` must outlive it.
  static absl::StatusOr<std::unique_ptr<SharedStore>> Open(const StoreAddress& address,
                                                           SharedDatasets::Binding binding,
                                                           const Clock* clock);
  ~SharedStore() override;
  DatasetStore* store() override { return shared_->store(); }
  absl::StatusOr<SealedGraphStore*> source_graphs() override { return shared_->source_graphs(); }
  const ObjectCompanions* companions() const { return shared_->companions(); }
  const ObjectEngines& engines() const { return shared_->engines(); }

 private:
  SharedStore() = default;

  std::string folder_;
  std::unique_ptr<KeyValueStore> keys_;
  std::unique_ptr<SharedDatasets> shared_;
};

// `may_make`: a data folder that is missing is made; otherwise it is NOT_FOUND. INVALID_ARGUMENT
// for another kind of address, or one of S3 without a ledger; errors of SharedDatasets::Open() and
// LmdbDatasetStore::Open(). `clock` must outlive the store.
absl::StatusOr<std::unique_ptr<OpenedStore>> OpenStore(const StoreAddress& address, bool may_make,
                                                       const Clock* clock);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_STORE_URI_H_
