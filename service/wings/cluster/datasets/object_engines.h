// What a store of data sets over objects is made of, and how it waits for it.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_ENGINES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_ENGINES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/objects/object_store.h"

namespace packhouse {

// Threads that all calls of a store may have together. Thread-safe; never waits.
class SharedThreads {
 public:
  explicit SharedThreads(size_t most) : num_free_(most) {}

  // How many of `wanted` the caller may begin: at most half of those that are free, rounded up, so
  // that some are left for the next call. May be none: who asks goes on without them.
  size_t Take(size_t wanted);
  void GiveBack(size_t num) { num_free_ += num; }
  size_t num_free() const { return num_free_; }

 private:
  std::atomic<size_t> num_free_;
};

// The pointers must outlive who uses them.
struct ObjectEngines {
  // Tries again what fails for now (RetryingObjectStore).
  ObjectStore* objects = nullptr;
  KeyValueStore* keys = nullptr;
  const Clock* clock = nullptr;
  // Waits that long: Pause(), or a test's.
  std::function<void(absl::Duration)> sleep;
  // A random number that nobody has drawn before: 0 never.
  std::function<uint64_t()> draw;
  // For objects that are being made. May be null: no bound.
  MemoryBudget* memory = nullptr;
  // Time for one call of the object store with all its tries.
  absl::Duration call_time = absl::Minutes(5);
  // Tries of a read, or of a transaction that others came before.
  int max_attempts = 30;
  // Tries of a transfer that gave other bytes than were written. What is wrong on the way is right
  // again then; what is wrong in the store stays so.
  int max_transfers = 5;
  // Small objects that one call reads at once (ObjectReadAhead).
  size_t reads_at_once = 32;
  // Of those reads, all calls together: copies of the engines share it.
  std::shared_ptr<SharedThreads> read_threads = std::make_shared<SharedThreads>(64);

  absl::Time Deadline() const { return clock->Now() + call_time; }
  // Waits before the try after `failures` of them.
  void BackOff(int failures) const;
  // A change of keys, as SharedChanges::Make(). Errors of the store as AsUnavailable().
  absl::Status Change(
      absl::string_view what,
      absl::FunctionRef<absl::StatusOr<std::optional<Transaction>>(bool may_be_done)> next,
      absl::FunctionRef<void(const TransactionResult& result)> done =
          [](const TransactionResult& /*result*/) {}) const;
};

// Numbers from the machine's source of randomness.
uint64_t DrawUniqueNumber();

// The error of an engine as the calls of a data set tell it. An outcome that is not known, an
// engine that is too slow, and one that refuses this server's credentials are all UNAVAILABLE:
// whoever asked did nothing wrong, and may ask again.
absl::Status AsUnavailable(const absl::Status& status);

// Several ranges at one revision, each of at most 128 keys. Tries again while the store is
// UNAVAILABLE and the caller (base/caller.h) is not gone: CANCELLED then.
absl::StatusOr<std::vector<RangeResult>> ReadRanges(const ObjectEngines& engines,
                                                    const std::vector<KeyRange>& ranges);
// All of a range at `revision`, page by page. OUT_OF_RANGE if the revision is gone.
absl::StatusOr<std::vector<KeyValue>> ReadWholeRange(const ObjectEngines& engines,
                                                     const KeyRange& range, Revision revision);

// Bytes of an object from `begin` on, of known number and checksum. `read`: the first transfer. One
// that gave other bytes is tried again, up to engines.max_transfers of them. DATA_LOSS if the
// object is missing, or not as it was written.
absl::StatusOr<std::string> CheckedPart(const ObjectEngines& engines, absl::string_view key,
                                        uint64_t begin, uint64_t num_bytes, uint32_t crc,
                                        absl::StatusOr<std::string> read);
// A whole object, read at once.
absl::StatusOr<std::string> ReadWholeObject(const ObjectEngines& engines, absl::string_view key,
                                            uint64_t num_bytes, uint32_t crc);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_ENGINES_H_
