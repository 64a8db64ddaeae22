// Data sets that many replicas share: graphs in an object store, all else in a key-value store.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_DATASET_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/keys/shared_uses.h"
#include "service/wings/cluster/datasets/chunk_cache.h"
#include "service/wings/cluster/datasets/chunk_fetcher.h"
#include "service/wings/cluster/datasets/object_appender.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/datasets/object_manifest.h"

namespace packhouse {

// Every replica has one; nothing is kept here but the cache. What is committed is in the key-value
// store: an object counts from the transaction on that writes its entry of the manifest
// (ObjectAppender). docs/storage-format.md has the layout.
//
// Differences from the interface's promises, since an engine may be out of reach: UNAVAILABLE may
// mean that it is not known whether a change happened. An append with a producer is sent again
// safely; Create(), Seal() and Delete() too, but may then find what they have done.
//
// A call whose caller (base/caller.h) is gone ends CANCELLED, and leaves what it has fetched in the
// cache. An append that has begun goes on: others may be in the same object.
//
// Opening a reader fetches all objects of the data set that are not in the cache, and keeps them
// there until the reader is destroyed: RESOURCE_EXHAUSTED naming the cache's max_bytes if the
// data sets that are in use do not fit. Graphs are then read without waiting for anything but the
// disk. The objects of a deleted data set go at once; readers have their copies.
class ObjectDatasetStore final : public DatasetStore {
 public:
  struct Options {
    // Of all data sets together; 0: no bound. With a bound, all appends of all replicas write one
    // key. It must be the same for all replicas, always.
    uint64_t max_bytes = 0;
    // Only counted if there is a bound on bytes.
    size_t max_datasets = size_t{1} << 16;
    uint64_t chunks_of_page = 1000;
    // ObjectAppender::Options::later.
    std::function<void(std::function<void()>)> later = {};
    // Objects that a reader fetches at once.
    size_t fetches_at_once = 4;
  };

  // `cache` must outlive the store.
  ObjectDatasetStore(const ObjectEngines& engines, ChunkCache* cache, const Options& options)
      : engines_(engines),
        options_(options),
        fetcher_(engines, cache, options.fetches_at_once),
        appender_(engines, {options.max_bytes, options.chunks_of_page, options.later}) {}

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override;
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override;
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override;
  absl::StatusOr<DatasetInfo> Seal(const Target& target) override;
  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override;
  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override;
  absl::StatusOr<SizeHistogram> GetReservedHistogram(
      absl::string_view name,
      absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const override;
  absl::StatusOr<DatasetList> List(size_t page_size, absl::string_view page_token) const override;
  absl::Status Delete(const Target& target) override { return DeleteIf(target, UsedOrNot); }
  // ABORTED if it was used.
  absl::Status DeleteIf(const Target& target, StillUnused unused);
  absl::StatusOr<VerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const VerifyProgress&)> progress) const override;
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override;
  // Opening reads the manifest alone; sizes are read from the objects' histograms, and objects are
  // fetched by DatasetChunks::Open(), whose readers keep them in the cache.
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override;

 private:
  struct Opened;
  // The head and its manifest, at one revision.
  absl::StatusOr<Opened> Open(absl::string_view name, bool with_pages,
                              bool with_producers = false) const;

  const ObjectEngines engines_;
  const Options options_;
  const ChunkFetcher fetcher_;
  ObjectAppender appender_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_DATASET_STORE_H_
