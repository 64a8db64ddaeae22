// Keys of a server that is alone: in memory, and in a log.
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_LOGGED_KEYS_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_LOGGED_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/logs/record_log.h"

namespace packhouse {

// Its log, among those of jobs: no job has this name.
inline constexpr char kKeysLog[] = "*keys";

// The other store of keys is a cluster's (KeyValueStore). A change is answered when it is in the
// log; nobody who reads waits for that. There are no leases, and no states but the present one: an
// older revision is OUT_OF_RANGE. When the log has several times the bytes of the keys, it is
// written anew. Thread-safe. Memory: that of all keys and values.
//
// Errors of a commit: those of the log; UNKNOWN if the log refuses all calls after it.
class LoggedKeys final : public KeyStore {
 public:
  // The log is written anew once it has twice the bytes of the keys, and these more.
  static constexpr uint64_t kSpareBytes = uint64_t{4} << 20;

  // Reads the log, which nobody else uses. Null: in memory alone. DATA_LOSS if a record is none;
  // the log's errors.
  static absl::StatusOr<std::unique_ptr<LoggedKeys>> Open(std::unique_ptr<RecordLog> log);
  static std::unique_ptr<LoggedKeys> InMemory();
  // DATA_LOSS if no store of keys wrote it.
  static absl::Status CheckRecord(absl::string_view record);

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override;
  // In one answer.
  absl::StatusOr<RangeResult> ReadAll(KeyRange range, size_t page) override;
  // NOT_FOUND for a put with a lease.
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override;

 private:
  // What a transaction makes of keys; nullopt: deleted.
  using Changes = std::map<std::string, std::optional<KeyValue>, std::less<>>;

  explicit LoggedKeys(std::unique_ptr<RecordLog> log) : log_(std::move(log)) {}

  absl::Status Load();
  // The present value; null: there is none.
  const KeyValue* Find(absl::string_view key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With `changes` over what is there.
  RangeResult Read(const KeyRange& range, size_t limit, const Changes& changes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All keys, with `changes` over them, as records.
  std::vector<std::string> RecordsOf(const Changes& changes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(committing_);
  absl::Status Append(const Changes& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(committing_);
  // Writes the log anew.
  absl::Status Rewrite(const Changes& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(committing_);

  const std::unique_ptr<RecordLog> log_;
  // Held while a change is decided, and waits for the log; taken before mutex_.
  absl::Mutex committing_;
  uint64_t log_bytes_ ABSL_GUARDED_BY(committing_) = 0;
  uint64_t rewrite_at_ ABSL_GUARDED_BY(committing_) = kSpareBytes;
  mutable absl::Mutex mutex_;
  std::map<std::string, KeyValue, std::less<>> values_ ABSL_GUARDED_BY(mutex_);
  Revision revision_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_LOGGED_KEYS_H_
