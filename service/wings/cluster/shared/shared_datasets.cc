#include "service/wings/cluster/shared/shared_datasets.h"

#include <cstddef>
#include <fstream>
#include <functional>
#include <utility>

#include "service/base/execution.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// A server that starts waits so long for a store that does not answer.
constexpr absl::Duration kStartWithoutObjects = absl::Seconds(10);

// Half of the process' mappings; the rest is for memory, threads and other files.
size_t MostMaps() {
  size_t most = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  return most == 0 ? ChunkCache::Options().max_maps : most / 2;
}

absl::StatusOr<MakeUses> UsesOf(KeyStore& keys, SharedUses::Options uses) {
  if (uses.retention.is_for_ever()) {
    PH_RETURN_IF_ERROR(SharedUses::RemoveAll(keys, uses.kind));
    return nullptr;
  }
  return [keys = &keys, uses](LastUses::InUse in_use) {
    return Uses(std::make_unique<SharedUses>(keys, uses, std::move(in_use)));
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedDatasets>> SharedDatasets::Open(
    const SharedDatasetsOptions& options, KeyValueStore* keys, const Clock* clock,
    Binding binding) {
  PH_ASSIGN_OR_RETURN(const S3Address address, ParseS3Uri(options.uri));
  auto shared = std::unique_ptr<SharedDatasets>(new SharedDatasets(options, clock));
  PH_RETURN_IF_ERROR(shared->credentials_.Reload().status());
  S3ObjectStore::Options s3;
  s3.endpoint = S3EndpointOr(options.endpoint, options.region);
  s3.region = S3RegionOr(options.region);
  s3.bucket = address.bucket;
  s3.prefix = address.prefix;
  s3.current_credentials = [credentials = &shared->credentials_] { return credentials->current(); };
  s3.ca_file = options.ca_file;
  s3.clock = clock;
  PH_ASSIGN_OR_RETURN(shared->s3_, S3ObjectStore::Create(s3));
  RetryingObjectStore::Options tries;
  tries.seed = DrawUniqueNumber();
  shared->objects_ = std::make_unique<RetryingObjectStore>(shared->s3_.get(), clock, Pause, tries);
  ChunkCache::Options cache;
  cache.folder = options.cache_folder;
  cache.max_bytes = options.cache_bytes;
  cache.max_maps = MostMaps();
  PH_ASSIGN_OR_RETURN(shared->cache_, ChunkCache::Open(cache));
  shared->bound_ = std::make_unique<BoundObjectStore>(shared->objects_.get());
  ObjectEngines& engines = shared->engines_;
  engines.objects = shared->bound_.get();
  engines.keys = keys;
  engines.clock = clock;
  engines.sleep = Pause;
  engines.draw = DrawUniqueNumber;
  engines.memory = &shared->memory_;
  engines.max_attempts = 20;
  PH_RETURN_IF_ERROR(shared->Bind(binding));
  ObjectDatasetStore::Options store;
  store.max_bytes = options.max_bytes;
  store.later = [later = &shared->later_](std::function<void()> work) {
    later->Submit(/*client=*/"", std::move(work));
  };
  shared->store_ = std::make_unique<ObjectDatasetStore>(engines, shared->cache_.get(), store);
  shared->sweeper_ = std::make_unique<ObjectSweeper>(engines, ObjectSweeper::Options());
  shared->graph_sweeper_ = std::make_unique<SourceGraphSweeper>(engines, ObjectSweeper::Options());
  ObjectSourceGraphStore::Options graphs;
  graphs.upload.max_bytes = options.max_bytes;
  graphs.max_cache_bytes = options.cache_bytes;
  if (!options.server.empty()) {
    FileSourceGraphStore::Options building;
    building.folder = options.cache_folder + "/source_graphs";
    building.max_bytes = options.max_building_bytes;
    building.max_graphs = options.max_building;
    PH_ASSIGN_OR_RETURN(shared->building_, FileSourceGraphStore::Open(building));
    graphs.server = options.server;
    graphs.building = shared->building_.get();
  }
  shared->source_graphs_ =
      std::make_unique<ObjectSourceGraphStore>(engines, shared->cache_.get(), graphs);
  ObjectCompanions::Options companions;
  companions.upload = graphs.upload;
  companions.max_cache_bytes = options.cache_bytes;
  companions.server = options.server;
  companions.folder = options.cache_folder + "/companions";
  companions.lives = options.lives;
  shared->companions_ =
      std::make_unique<ObjectCompanions>(engines, shared->cache_.get(), companions);
  return shared;
}

absl::Status SharedDatasets::Bind(Binding binding) {
  if (binding == Binding::kNever) return absl::OkStatus();
  if (binding == Binding::kNow) return BindStores(engines_);
  ObjectEngines impatient = engines_;
  impatient.call_time = kStartWithoutObjects;
  return BindStoresNowOrLater(impatient, *bound_);
}

absl::StatusOr<MakeUses> SharedDatasets::DatasetUses(SharedUses::Options uses) {
  uses.kind = "ds";
  uses.id_of = [store = store_.get()](absl::string_view name) -> absl::StatusOr<uint64_t> {
    PH_ASSIGN_OR_RETURN(const DatasetInfo info, store->Get(name));
    return info.id;
  };
  uses.erase = [store = store_.get()](const std::string& name, uint64_t id, StillUnused unused) {
    return store->DeleteIf({name, id}, unused);
  };
  return UsesOf(*engines_.keys, uses);
}

absl::StatusOr<MakeUses> SharedDatasets::SourceGraphUses(SharedUses::Options uses) {
  uses.kind = "sg";
  uses.id_of = [graphs = source_graphs_.get()](absl::string_view name) -> absl::StatusOr<uint64_t> {
    PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, graphs->Get(name));
    return info.id;
  };
  uses.erase = [graphs = source_graphs_.get()](const std::string& name, uint64_t id,
                                               StillUnused unused) {
    return graphs->DeleteIf({name, id}, unused);
  };
  return UsesOf(*engines_.keys, uses);
}

absl::Status SharedDatasets::ConfirmObjects() {
  return bound_->Confirm(clock_->Now() + kStartWithoutObjects);
}

absl::StatusOr<ObjectSweeper::Step> SharedDatasets::Sweep() {
  ObjectSweeper::Step all;
  // Each by itself: what fails for one may work for the others.
  absl::Status first_failure;
  const auto add = [&](const absl::StatusOr<ObjectSweeper::Step>& step) {
    first_failure.Update(step.status());
    if (!step.ok()) return;
    all.num_listed += step->num_listed;
    all.num_deleted += step->num_deleted;
    all.num_bytes += step->num_bytes;
    all.num_orphans += step->num_orphans;
    swept_objects_ += step->num_deleted;
    swept_bytes_ += step->num_bytes;
    orphaned_objects_ += step->num_orphans;
  };
  add(sweeper_->Run());
  add(graph_sweeper_->Run());
  first_failure.Update(source_graphs_->RemoveAllBuilt());
  first_failure.Update(companions_->RemoveGone());
  if (first_failure.ok()) return all;
  ++failed_sweeps_;
  return first_failure;
}

SharedDatasets::Counts SharedDatasets::counts() const {
  return {cache_->counts(), max_cache_bytes_,  objects_->num_retries(), swept_objects_,
          swept_bytes_,     orphaned_objects_, failed_sweeps_};
}

}  // namespace packhouse
