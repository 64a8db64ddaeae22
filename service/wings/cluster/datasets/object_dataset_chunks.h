// A sealed data set in an object store, chunk by chunk.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_DATASET_CHUNKS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_DATASET_CHUNKS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/record_dataset_reader.h"
#include "service/wings/cluster/datasets/chunk_fetcher.h"
#include "service/wings/cluster/datasets/object_manifest.h"

namespace packhouse {

// A chunk is an object.
class ObjectDatasetChunks final : public DatasetChunks {
 public:
  ObjectDatasetChunks(const ChunkFetcher* fetcher, DatasetHead head, ObjectManifest manifest,
                      DatasetInfo info)
      : fetcher_(fetcher),
        head_(std::move(head)),
        manifest_(std::move(manifest)),
        info_(std::move(info)) {
    for (const ObjectChunk& chunk : manifest_.chunks) {
      num_graphs_.push_back(static_cast<uint32_t>(chunk.num_graphs()));
    }
  }

  const DatasetInfo& info() const override { return info_; }
  absl::Span<const uint32_t> num_graphs() const override { return num_graphs_; }
  uint64_t bytes() const override {
    uint64_t bytes = sizeof(uint32_t) * num_graphs_.capacity() +
                     sizeof(ObjectChunk) * manifest_.chunks.capacity();
    for (const ObjectChunk& chunk : manifest_.chunks) {
      bytes += sizeof(ObjectChunk::Record) * chunk.records.capacity() + chunk.run.capacity();
    }
    return bytes;
  }
  // Of the chunk's run, so the object itself is not fetched.
  absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
    return Sizes(*this, {chunk}).AddNext(histogram);
  }
  std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> numbers) const override {
    return std::make_unique<Sizes>(*this, numbers);
  }
  absl::Status CheckFits(absl::Span<const uint32_t> numbers) const override {
    uint64_t bytes = 0;
    for (const uint32_t number : numbers) bytes += manifest_.chunks[number].num_bytes;
    if (bytes <= fetcher_->max_cache_bytes()) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(numbers.size(), " objects of data set '", head_.name, "' have ", bytes,
                     " bytes, more than the ", fetcher_->max_cache_bytes(),
                     " of this server's cache (--cache-bytes)"));
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> numbers) const override {
    PH_ASSIGN_OR_RETURN(FetchedChunks fetched,
                        fetcher_->FetchAll(head_, Find(numbers), /*is_part=*/true));
    return std::make_shared<const RecordDatasetReader>(
        std::move(fetched.dataset), SizeHistogram(info_.schema->num_components()),
        [] { return absl::OkStatus(); }, std::move(fetched.owner));
  }

 private:
  class Sizes final : public ChunkSizes {
   public:
    Sizes(const ObjectDatasetChunks& all, absl::Span<const uint32_t> numbers)
        : all_(all), runs_(all.fetcher_->engines(), all.head_, all.Find(numbers)) {}

    uint64_t bytes() const override { return runs_.bytes(); }
    absl::Status AddNext(SizeHistogram& histogram) override {
      const absl::Status status = runs_.AddNext(histogram);
      return status.ok() ? status : all_.fetcher_->Explained(all_.head_, status);
    }

   private:
    const ObjectDatasetChunks& all_;
    ChunkRuns runs_;
  };

  std::vector<const ObjectChunk*> Find(absl::Span<const uint32_t> numbers) const {
    std::vector<const ObjectChunk*> chunks;
    chunks.reserve(numbers.size());
    for (const uint32_t number : numbers) chunks.push_back(&manifest_.chunks[number]);
    return chunks;
  }

  const ChunkFetcher* const fetcher_;
  const DatasetHead head_;
  const ObjectManifest manifest_;
  const DatasetInfo info_;
  std::vector<uint32_t> num_graphs_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_DATASET_CHUNKS_H_
