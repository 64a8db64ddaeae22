// Reads what PieceUpload has put, through the cache.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_PIECE_READER_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_PIECE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/cluster/datasets/chunk_cache.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/graphs/joined_objects.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"

namespace packhouse {

// Thread-safe. Errors as FetchObject().
class PieceReader {
 public:
  // The cache, and what the engines point to, must outlive it. `at_once`: pieces that one call
  // fetches at once. `max_cache_bytes`: of the cache.
  PieceReader(const ObjectEngines& engines, ChunkCache* cache, size_t at_once,
              uint64_t max_cache_bytes)
      : engines_(engines), cache_(cache), at_once_(at_once), max_cache_bytes_(max_cache_bytes) {}

  // One piece; without `cached`, whatever the cache has.
  absl::StatusOr<std::shared_ptr<const MappedObject>> Fetch(const SharedPieces& pieces,
                                                            size_t piece, bool cached) const;
  uint64_t BytesOf(const SharedPieces& pieces, size_t piece) const;
  // RESOURCE_EXHAUSTED naming `what` if so many bytes are more than the cache may have.
  absl::Status CheckFits(absl::string_view what, uint64_t num_bytes) const;
  // The bytes [begin, end) are in the result, behind those of the first piece that are before them.
  absl::StatusOr<std::shared_ptr<const JoinedObjects>> Join(const SharedPieces& pieces,
                                                            uint64_t begin, uint64_t end) const;
  // Past the cache, and through it.
  absl::StatusOr<std::string> ReadManifest(const SharedManifestObject& object) const;
  absl::StatusOr<std::shared_ptr<const MappedObject>> FetchManifest(
      const SharedManifestObject& object) const;

 private:
  const ObjectEngines engines_;
  ChunkCache* const cache_;
  const size_t at_once_;
  const uint64_t max_cache_bytes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_PIECE_READER_H_
