// Transactions and cursors of an LMDB environment: statuses, checked values, an end with their
// scope.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_TRANSACTION_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_TRANSACTION_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/datasets/lmdb/lmdb_environment.h"

namespace packhouse {

// One thread at a time. What is neither committed nor ended by an error is undone by the end of its
// scope. Views last as long as the transaction, and until the next write in it.
class LmdbTransaction {
 public:
  enum class Kind { kRead, kWrite };

  static absl::StatusOr<LmdbTransaction> Begin(const LmdbEnvironment& environment, Kind kind);
  LmdbTransaction(LmdbTransaction&& other) noexcept;
  LmdbTransaction& operator=(LmdbTransaction&&) = delete;
  ~LmdbTransaction();

  // The value without its checksum; nothing if there is none. DATA_LOSS if the checksum is wrong.
  absl::StatusOr<std::optional<absl::string_view>> Get(absl::string_view key) const;
  // The value as it is, without any checksum of ours.
  absl::StatusOr<std::optional<absl::string_view>> GetRaw(absl::string_view key) const;

  // Puts a value with its checksum, over what is there.
  absl::Status Put(absl::string_view key, std::string payload);
  // Room for a new raw value, for the caller to fill before the next call.
  absl::StatusOr<char*> PutRaw(absl::string_view key, size_t bytes);
  // Nothing happens if there is no such key.
  absl::Status Erase(absl::string_view key);
  // LmdbEnvironment::failure(): whether what was read was there.
  absl::Status failure() const { return environment_->failure(); }
  // Number of writes that were begun.
  size_t num_writes() const { return num_writes_; }

  // Returns when everything is on the disk, in the file that has the store's name. With an error
  // nothing is, or the environment is broken.
  absl::Status Commit();

 private:
  friend class LmdbCursor;
  LmdbTransaction(const LmdbEnvironment* environment, MDB_txn* txn)
      : environment_(environment), txn_(txn) {}

  const LmdbEnvironment* environment_;
  MDB_txn* txn_;
  size_t num_writes_ = 0;
};

// Walks keys in ascending order of their bytes. Must not outlive its transaction, in which nothing
// may be written meanwhile.
class LmdbCursor {
 public:
  // At the first key that is not less than `key`.
  static absl::StatusOr<LmdbCursor> At(const LmdbTransaction& transaction, absl::string_view key);
  LmdbCursor(LmdbCursor&& other) noexcept;
  LmdbCursor& operator=(LmdbCursor&&) = delete;
  ~LmdbCursor();

  // False behind the last key.
  bool valid() const { return valid_; }
  absl::string_view key() const { return key_; }
  absl::string_view raw_value() const { return value_; }
  absl::Status Next();

 private:
  LmdbCursor(const LmdbEnvironment* environment, MDB_cursor* cursor)
      : environment_(environment), cursor_(cursor) {}
  absl::Status Move(absl::string_view key, int operation);

  const LmdbEnvironment* environment_;
  MDB_cursor* cursor_;
  bool valid_ = false;
  absl::string_view key_;
  absl::string_view value_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_TRANSACTION_H_
