// Objects in files of a local folder, mapped.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_CACHE_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/objects/object_store.h"

namespace packhouse {

// A file of the cache in memory. It stays there until the last who has it lets go. Thread-safe.
class MappedObject {
 public:
  virtual ~MappedObject() = default;
  virtual absl::string_view bytes() const = 0;
};

// A file for each object, found again by the next process. An object is fetched once, however many
// ask for it; it is checked when it is fetched, and when a process maps a file that an earlier one
// left. Files that nobody has go when room is needed, those first that were not used for longest.
// Only files of the cache's own names (*.chunk) are ever removed. One process at a time has the
// folder. Thread-safe.
class ChunkCache {
 public:
  struct Options {
    std::string folder;
    // Of all files. Files in use are never removed, so it bounds what can be in use at once.
    uint64_t max_bytes = uint64_t{64} << 30;
    // Objects that are mapped at once, and CountMaps(). Each is a mapping of the process: Linux
    // allows vm.max_map_count, 65,530 where nobody has changed it; the rest is for everything else.
    size_t max_maps = 32'765;
  };
  // Which object, and what it must be like. `name` has no '/'.
  struct Object {
    std::string name;
    uint64_t num_bytes = 0;
    uint32_t crc = 0;
  };
  // Gives the whole object to the sink.
  using Fetch = absl::FunctionRef<absl::Status(ObjectSink sink)>;

  struct Counts {
    uint64_t num_bytes = 0;  // Of the files now.
    uint64_t in_use = 0;     // Of those that somebody has.
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t evictions = 0;
  };

  // Makes the folder if it is missing; removes what was half fetched, and what is above max_bytes.
  // FAILED_PRECONDITION if another process has it. Errors of the disk.
  static absl::StatusOr<std::unique_ptr<ChunkCache>> Open(const Options& options);
  // Objects that are in use stay mapped.
  ~ChunkCache();

  // Maps the object, and fetches it first if need be; waits where another call fetches it, unless
  // its own caller (base/caller.h) is gone: CANCELLED. The error of `fetch`; DATA_LOSS if what it
  // gave is not the object: nothing of it stays, and the caller may ask again; RESOURCE_EXHAUSTED
  // naming max_bytes if what is in use leaves no room, or max_maps if as many are mapped; errors of
  // the disk. What `fetch` throws passes through, and leaves nothing.
  absl::StatusOr<std::shared_ptr<const MappedObject>> Pin(const Object& object, Fetch fetch);

  // The same into a file without a name, whatever the cache has: for who checks the store.
  absl::StatusOr<std::shared_ptr<const MappedObject>> FetchUncached(const Object& object,
                                                                    Fetch fetch) const;

  // Counts further maps of objects, which the caller makes, as long as the result lives; it may
  // live longer than the cache. RESOURCE_EXHAUSTED naming max_maps if that were more.
  absl::StatusOr<std::shared_ptr<const void>> CountMaps(size_t num_maps) const;

  Counts counts() const;
  // Of the options.
  uint64_t max_bytes() const;

 private:
  class State;
  explicit ChunkCache(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_CHUNK_CACHE_H_
