// Objects: bytes under a key, in a store that many machines share.
//
// Start here: ObjectStore is the interface; S3ObjectStore (s3/) is the client of a real store,
// RetryingObjectStore tries again what failed for now. tests/objects/object_store_test.cc states
// the laws that every implementation keeps.
#ifndef PACKHOUSE_SERVICE_STORES_OBJECTS_OBJECT_STORE_H_
#define PACKHOUSE_SERVICE_STORES_OBJECTS_OBJECT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse {

// Takes the next bytes of an object. If it returns an error, the call ends with that error.
using ObjectSink = absl::FunctionRef<absl::Status(absl::string_view bytes)>;

// Bytes [begin, end) of an object.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = std::numeric_limits<uint64_t>::max();  // The maximum: to the object's end.

  bool is_whole() const { return begin == 0 && end == std::numeric_limits<uint64_t>::max(); }
};

struct ObjectInfo {
  std::string key;
  uint64_t num_bytes = 0;
  // By the store's clock.
  absl::Time modified = absl::InfinitePast();
};

struct ObjectList {
  std::vector<ObjectInfo> objects;
  // Whether there are more after the last of these.
  bool has_more = false;
};

// Thread-safe; all calls block. A key is 1 to kMaxKeyLength characters of [A-Za-z0-9_./-], and no
// part between two '/' is empty, "." or "..": INVALID_ARGUMENT.
//
// `deadline` is the wall time at which a call gives up. Errors of all calls:
// - UNAVAILABLE if the store did not answer, or answered that it cannot now; DEADLINE_EXCEEDED at
//   the deadline. A Put or Delete may have happened all the same. Both may be done again.
// - CANCELLED if the call that this thread works for (base/caller.h) is gone, of stores that look.
// - PERMISSION_DENIED if the store refuses the credentials.
// - INTERNAL for an answer that makes no sense; names the store's own code.
class ObjectStore {
 public:
  static constexpr size_t kMaxKeyLength = 512;
  static constexpr uint64_t kMaxObjectBytes = uint64_t{5} << 30;  // What S3 takes in one PUT.
  static constexpr size_t kMaxListed = 1000;

  virtual ~ObjectStore() = default;

  // Stores an object as a whole; one that is there is replaced. Durable when it returns OK, and
  // seen by every later call. INVALID_ARGUMENT above kMaxObjectBytes.
  virtual absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) = 0;

  // Gives the bytes of the range to `sink` in order, in pieces. What the range has beyond the
  // object's end is left out. After an error, `sink` has a beginning of the bytes. NOT_FOUND.
  virtual absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                           absl::Time deadline) = 0;

  // The objects whose keys begin with `prefix` and come after `after`, in ascending order of bytes:
  // at most `limit` of them, which counts as kMaxListed if it is 0 or above. `prefix` is empty, or
  // a key or the beginning of one.
  virtual absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after,
                                          size_t limit, absl::Time deadline) = 0;

  // OK if there is no such object.
  virtual absl::Status Delete(absl::string_view key, absl::Time deadline) = 0;
};

// INVALID_ARGUMENT.
absl::Status CheckObjectKey(absl::string_view key);
// The same for the beginning of a key; OK for an empty one.
absl::Status CheckObjectPrefix(absl::string_view prefix);

// The whole object, or the range of it. RESOURCE_EXHAUSTED naming the bound if it is larger than
// `max_bytes`.
absl::StatusOr<std::string> ReadObject(ObjectStore& store, absl::string_view key,
                                       const ByteRange& range, uint64_t max_bytes,
                                       absl::Time deadline);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_OBJECTS_OBJECT_STORE_H_
