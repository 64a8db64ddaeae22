// Reads the objects of a data set's chunks, through the cache.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_FETCHER_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_FETCHER_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/stores/datasets/record_dataset_reader.h"
#include "service/wings/cluster/datasets/chunk_cache.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/datasets/object_manifest.h"

namespace packhouse {

// The object, through the cache or past it. A transfer that gave other bytes than were written is
// tried again, up to engines.max_transfers of them. Errors as ChunkCache::Pin(), of which those of
// the engine are UNAVAILABLE; DATA_LOSS if each transfer gave other bytes.
absl::StatusOr<std::shared_ptr<const MappedObject>> FetchObject(const ObjectEngines& engines,
                                                                ChunkCache& cache,
                                                                absl::string_view key,
                                                                const ChunkCache::Object& object,
                                                                bool cached);

// The objects of some chunks, and what of the data set is in them.
struct FetchedChunks {
  StoredDataset dataset;
  std::shared_ptr<const void> owner;
};

// Thread-safe.
class ChunkFetcher {
 public:
  // The cache, and what the engines point to, must outlive it.
  ChunkFetcher(const ObjectEngines& engines, ChunkCache* cache, size_t at_once)
      : engines_(engines), cache_(cache), at_once_(at_once) {}

  const ObjectEngines& engines() const { return engines_; }
  uint64_t max_cache_bytes() const { return cache_->max_bytes(); }

  absl::StatusOr<std::shared_ptr<const MappedObject>> Fetch(const DatasetHead& head,
                                                            const ObjectChunk& chunk,
                                                            bool cached) const;
  // Several chunks at once, into the cache. `is_part`: they are to look like a data set of their
  // own. What is lost or damaged is an empty record.
  absl::StatusOr<FetchedChunks> FetchAll(const DatasetHead& head,
                                         absl::Span<const ObjectChunk* const> chunks,
                                         bool is_part) const;
  // Tells an error of reading a data set's objects from that it was deleted meanwhile.
  absl::Status Explained(const DatasetHead& head, const absl::Status& status) const;

 private:
  const ObjectEngines engines_;
  ChunkCache* const cache_;
  const size_t at_once_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_FETCHER_H_
