// Mapped objects as if they were one file.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_JOINED_OBJECTS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_JOINED_OBJECTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/cluster/datasets/chunk_cache.h"

namespace packhouse {

// Objects of the cache, one behind the other in memory: nothing is copied, each is mapped a second
// time where the one before ends. Keeps them in the cache. Thread-safe.
class JoinedObjects {
 public:
  using Objects = std::vector<std::shared_ptr<const MappedObject>>;

  // All but the last have as many bytes, a multiple of the machine's pages. RESOURCE_EXHAUSTED if
  // the process has no more addresses, or `cache` no more mappings.
  static absl::StatusOr<std::shared_ptr<const JoinedObjects>> Join(Objects objects,
                                                                   const ChunkCache& cache);
  ~JoinedObjects();
  JoinedObjects(const JoinedObjects&) = delete;
  JoinedObjects& operator=(const JoinedObjects&) = delete;

  absl::string_view bytes() const { return {begin_, num_bytes_}; }

 private:
  explicit JoinedObjects(Objects objects) : objects_(std::move(objects)) {}

  const Objects objects_;
  std::shared_ptr<const void> counted_;  // By the cache.
  char* begin_ = nullptr;
  uint64_t num_bytes_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_JOINED_OBJECTS_H_
