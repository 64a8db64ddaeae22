// A replica's store of data sets over objects, for tests: its engines are fakes or real.
#ifndef PACKHOUSE_TESTS_DATASETS_OBJECT_OBJECT_REPLICA_H_
#define PACKHOUSE_TESTS_DATASETS_OBJECT_OBJECT_REPLICA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "service/base/memory_budget.h"
#include "service/stores/objects/retrying_object_store.h"
#include "service/wings/cluster/datasets/object_dataset_store.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/simulated_clock.h"

namespace packhouse {

// What all replicas share: time, and numbers that nobody has drawn before.
struct ObjectCluster {
  SimulatedClock clock;
  FakeKeyValueServers keys{&clock, 1};
  std::atomic<uint64_t> drawn = 0;
  // Above one, faults come in another order in each run.
  size_t reads_at_once = 1;
  // Of replicas that are made from now on; null: nothing is counted.
  MemoryBudget* memory = nullptr;

  // The same in every run.
  uint64_t Draw() {
    Random random(++drawn);
    return random.Next() | 1;
  }
};

// One process: its way to the engines, its cache in a folder. Without threads of its own.
class ObjectReplica {
 public:
  // The cluster and `objects` must outlive it; `objects` may fail for now.
  ObjectReplica(ObjectCluster* cluster, ObjectStore* objects, std::string cache_folder,
                const ObjectDatasetStore::Options& options = {},
                uint64_t cache_bytes = uint64_t{1} << 30, StoreFaults faults = nullptr)
      : cluster_(cluster),
        connection_(&cluster->keys, std::move(faults)),
        retrying_(
            objects, &cluster->clock, [this](absl::Duration delay) { Sleep(delay); }, Patient()) {
    ChunkCache::Options cache;
    cache.folder = std::move(cache_folder);
    cache.max_bytes = cache_bytes;
    cache_ = ChunkCache::Open(cache).value();
    store_ = std::make_unique<ObjectDatasetStore>(engines(), cache_.get(), options);
  }

  ObjectDatasetStore& store() { return *store_; }
  ChunkCache& cache() { return *cache_; }
  FakeConnection& connection() { return connection_; }
  ObjectEngines engines() {
    ObjectEngines engines;
    engines.objects = &retrying_;
    engines.keys = &connection_;
    engines.clock = &cluster_->clock;
    engines.sleep = [this](absl::Duration delay) { Sleep(delay); };
    engines.draw = [cluster = cluster_] { return cluster->Draw(); };
    engines.call_time = absl::Hours(100);
    engines.reads_at_once = cluster_->reads_at_once;
    engines.memory = cluster_->memory;
    return engines;
  }

 private:
  static RetryingObjectStore::Options Patient() {
    RetryingObjectStore::Options options;
    options.max_attempts = 1000;
    return options;
  }
  void Sleep(absl::Duration delay) { cluster_->clock.Advance(delay); }

  ObjectCluster* const cluster_;
  FakeConnection connection_;
  RetryingObjectStore retrying_;
  std::unique_ptr<ChunkCache> cache_;
  std::unique_ptr<ObjectDatasetStore> store_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DATASETS_OBJECT_OBJECT_REPLICA_H_
