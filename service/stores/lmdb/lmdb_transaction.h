// Transactions and cursors of an LMDB environment. They give statuses and checked values, and end
// with their scope.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TRANSACTION_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TRANSACTION_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/lmdb/lmdb_environment.h"

namespace packhouse {

// To be used by one thread at a time. If it is neither committed nor ended by an error, its
// destructor undoes it. Views are valid as long as the transaction, and until the next write in it.
class LmdbTransaction {
 public:
  enum class Kind { kRead, kWrite };

  static absl::StatusOr<LmdbTransaction> Begin(const LmdbEnvironment& environment, Kind kind);
  LmdbTransaction(LmdbTransaction&& other) noexcept;
  LmdbTransaction& operator=(LmdbTransaction&&) = delete;
  ~LmdbTransaction();

  // The value without its checksum; nullopt if there is none. DATA_LOSS if the checksum is wrong.
  absl::StatusOr<std::optional<absl::string_view>> Get(absl::string_view key) const;
  // The value as stored, without a checksum of ours.
  absl::StatusOr<std::optional<absl::string_view>> GetRaw(absl::string_view key) const;

  // Puts a value with its checksum; replaces an existing one.
  absl::Status Put(absl::string_view key, std::string payload);
  // Room for a new raw value, for the caller to fill before the next call.
  absl::StatusOr<char*> PutRaw(absl::string_view key, size_t bytes);
  // Does nothing if there is no such key.
  absl::Status Erase(absl::string_view key);
  // LmdbEnvironment::failure(): whether what was read was there.
  absl::Status failure() const { return environment_->failure(); }
  // The number of writes that have begun.
  size_t num_writes() const { return num_writes_; }

  // Returns OK when everything is on the disk, in the file with the store's name. After an error
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

// Walks keys in ascending order of their bytes. Must not outlive its transaction, and nothing may
// be written in the transaction meanwhile.
class LmdbCursor {
 public:
  // At the first key that is not less than `key`.
  static absl::StatusOr<LmdbCursor> At(const LmdbTransaction& transaction, absl::string_view key);
  LmdbCursor(LmdbCursor&& other) noexcept;
  LmdbCursor& operator=(LmdbCursor&&) = delete;
  ~LmdbCursor();

  // False after the last key.
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

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_TRANSACTION_H_
