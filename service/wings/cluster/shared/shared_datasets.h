// The data sets and source graphs of several servers, with what belongs to these: graphs in S3, all
// else in the cluster's store, a cache here.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_SHARED_DATASETS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_SHARED_DATASETS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/access/worker_pool.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/keys/shared_uses.h"
#include "service/stores/keys/uses.h"
#include "service/stores/objects/retrying_object_store.h"
#include "service/wings/cluster/datasets/object_dataset_store.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/cluster/graphs/object_source_graph_store.h"
#include "service/wings/cluster/s3/s3_object_store.h"
#include "service/wings/cluster/shared/s3_address.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"

namespace packhouse {

struct SharedDatasetsOptions {
  // "s3://BUCKET[/PREFIX]".
  std::string uri;
  // Those of S3EndpointOr() and S3RegionOr() if they are empty.
  std::string endpoint;
  std::string region;
  // Empty: the credentials are those of the environment (ReadS3Credentials()).
  std::string credentials_file;
  // PEM of the authorities that vouch for the endpoint; empty: the system's.
  std::string ca_file;
  // Of the cache; no other process may use it.
  std::string cache_folder;
  uint64_t cache_bytes = uint64_t{64} << 30;
  // Of all data sets together; 0: no bound. The same for all servers, always.
  uint64_t max_bytes = 0;
  // Time between two steps of the sweep, for who calls Sweep().
  absl::Duration sweep_period = absl::Minutes(10);
  // This server, as others are told of it: it builds source graphs, in a folder of the cache's.
  // Empty: it takes sealed ones only.
  std::string server;
  // Of those that are being built here.
  uint64_t max_building_bytes = uint64_t{64} << 30;
  size_t max_building = 1024;
  // Whether another server, by its address, is there now. Null: all are.
  std::function<bool(absl::string_view server)> lives;
  // For objects that are being made of appended graphs.
  uint64_t memory_bytes = uint64_t{512} << 20;
};

// Thread-safe.
class SharedDatasets {
 public:
  // What becomes of two stores that are new: they are bound to each other
  // (wings/cluster/datasets/store_identity.h), or not. kNowOrLater: works although the object store
  // does not answer, if the two were bound before; what needs it is UNAVAILABLE until it does.
  // kNever: the two are not looked at, and what is opened is only to be read.
  enum class Binding { kNow, kNowOrLater, kNever };
  // `keys` and `clock` must outlive it. FAILED_PRECONDITION if the stores do not belong together,
  // or the cache's folder is in use; INVALID_ARGUMENT naming what is wrong with an option;
  // UNAVAILABLE if a store does not answer; errors of the disk.
  static absl::StatusOr<std::unique_ptr<SharedDatasets>> Open(const SharedDatasetsOptions& options,
                                                              KeyValueStore* keys,
                                                              const Clock* clock, Binding binding);
  // Readers of the store may be there longer.
  ~SharedDatasets() = default;

  DatasetStore* store() { return store_.get(); }
  SealedGraphStore* source_graphs() { return source_graphs_.get(); }
  ObjectCompanions* companions() { return companions_.get(); }
  // What all are made of.
  const ObjectEngines& engines() const { return engines_; }
  // To be reloaded now and then.
  security::Reloadable* credentials() { return &credentials_; }

  // Of all servers, to be noted and swept as `uses` says; `kind` and what it does with things are
  // set here. Unset if its retention is for ever: what was noted before is removed.
  absl::StatusOr<MakeUses> DatasetUses(SharedUses::Options uses);
  absl::StatusOr<MakeUses> SourceGraphUses(SharedUses::Options uses);

  // Looks whether the object store answers, if it has not since Open(); waits for it. OK once it
  // has; FAILED_PRECONDITION if it is another store's.
  absl::Status ConfirmObjects();
  // What ConfirmObjects() has found last. Does not wait.
  absl::Status objects_status() const { return bound_->status(); }

  // Of the options: time between two calls of Sweep().
  absl::Duration sweep_period() const { return sweep_period_; }

  // One step through the objects, of which it deletes those that nobody has, and through what this
  // server has built of source graphs. All of it, and then the first error. One thread at a time.
  absl::StatusOr<ObjectSweeper::Step> Sweep();

  struct Counts {
    ChunkCache::Counts cache;
    uint64_t max_cache_bytes = 0;
    uint64_t num_retries = 0;  // Of requests to S3.
    uint64_t swept_objects = 0;
    uint64_t swept_bytes = 0;
    uint64_t orphaned_objects = 0;  // Of the swept ones (ObjectSweeper::Step).
    uint64_t failed_sweeps = 0;
  };
  Counts counts() const;

 private:
  SharedDatasets(const SharedDatasetsOptions& options, const Clock* clock)
      : clock_(clock),
        max_cache_bytes_(options.cache_bytes),
        sweep_period_(options.sweep_period),
        credentials_(options.credentials_file),
        memory_(options.memory_bytes),
        later_(clock, 1) {}
  absl::Status Bind(Binding binding);

  const Clock* const clock_;
  const uint64_t max_cache_bytes_;
  const absl::Duration sweep_period_;
  S3CredentialsFile credentials_;
  MemoryBudget memory_;
  std::unique_ptr<S3ObjectStore> s3_;
  std::unique_ptr<RetryingObjectStore> objects_;
  std::unique_ptr<BoundObjectStore> bound_;
  ObjectEngines engines_;
  std::unique_ptr<ChunkCache> cache_;
  std::unique_ptr<ObjectSweeper> sweeper_;
  std::unique_ptr<ObjectDatasetStore> store_;
  std::unique_ptr<FileSourceGraphStore> building_;
  std::unique_ptr<ObjectSourceGraphStore> source_graphs_;
  std::unique_ptr<ObjectCompanions> companions_;
  std::unique_ptr<SourceGraphSweeper> graph_sweeper_;
  std::atomic<uint64_t> swept_objects_ = 0;
  std::atomic<uint64_t> swept_bytes_ = 0;
  std::atomic<uint64_t> orphaned_objects_ = 0;
  std::atomic<uint64_t> failed_sweeps_ = 0;
  // Uses the store: ends first.
  WorkerPool later_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_SHARED_DATASETS_H_
