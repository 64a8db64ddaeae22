// LMDB in terms of this service: statuses, checked values, transactions that end with their scope.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_ENVIRONMENT_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_ENVIRONMENT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
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
#include "service/datasets/lmdb/map_guard.h"

// LMDB's own names, so that its header stays in the .cc files.
struct MDB_env;
struct MDB_txn;
struct MDB_cursor;

namespace packhouse {

class LmdbCursor;

// An opened folder: an environment with one unnamed database, and the lock that keeps all others
// out. Thread-safe, but for write transactions, of which one may be at a time.
//
// Its file may be removed, replaced or cut off while it is open, and a page of it may turn out to
// be unreadable. None of this ends the process (MapGuard), and nothing is made durable in a file
// that is not there any more: from then on the environment is broken, all that it is asked is
// answered with DATA_LOSS naming the file, until the folder is opened anew. Views that are held
// read as they were, or as zeros: who has used one asks CheckFiles() before the result goes
// anywhere.
//
// A file that is cut off while a commit is written may be made as long again by it: the hole that
// is left tells. What is not seen: that no more was cut off meanwhile than the commit wrote, or
// part of a page; and any such cut on a file system that does not tell of holes at once, as ZFS.
class LmdbEnvironment {
 public:
  // Creates the folder and what is in it if need be. `map_bytes` is the most the file can ever
  // grow to; it takes address space, not memory or disk. Where the file system is read-only, an
  // environment that is there is opened for reading.
  //
  // FAILED_PRECONDITION if another process (or this one) has it open, naming it; DATA_LOSS if the
  // page structure is damaged (see CheckLmdbPages); UNAVAILABLE if nothing is there and the file
  // system is read-only; RESOURCE_EXHAUSTED if the disk is full.
  static absl::StatusOr<std::unique_ptr<LmdbEnvironment>> Open(const std::string& folder,
                                                               uint64_t map_bytes);
  ~LmdbEnvironment();
  LmdbEnvironment(const LmdbEnvironment&) = delete;
  LmdbEnvironment& operator=(const LmdbEnvironment&) = delete;

  const std::string& folder() const { return folder_; }
  bool is_read_only() const { return is_read_only_; }
  size_t page_bytes() const { return page_bytes_; }
  // Bytes that a value of a record's size takes: whole pages, the first with a header.
  uint64_t BytesOnDisk(uint64_t value_bytes) const;
  // Values of at least so many bytes have pages of their own. LMDB never moves these, whatever is
  // written beside them: a view of one stays good until it is erased, even beyond its transaction.
  // Smaller ones share a page that is written anew with its neighbours.
  uint64_t MinBytesOfOwnPages() const { return page_bytes_ / 2; }

  // DATA_LOSS naming the file if it is not what it was: the one under its name is another or none,
  // it has become shorter, or some of it could not be read. UNAVAILABLE if that cannot be told. Two
  // system calls; thread-safe. What views gave before an OK is what was stored.
  absl::Status CheckFiles() const;
  // DATA_LOSS once the above has been noticed by any call, or by reading; no system call.
  absl::Status failure() const;
  // RESOURCE_EXHAUSTED unless the disk has room for so many bytes more. Takes the room for a
  // moment.
  absl::Status CheckRoom(uint64_t bytes) const;

  // What LMDB returned, for the caller of the store.
  absl::Status StatusOf(int lmdb_code, absl::string_view what) const;

 private:
  friend class LmdbTransaction;
  friend class LmdbCursor;
  LmdbEnvironment() = default;

  absl::Status TakeLock();
  // Finds LMDB's maps, those that were not in the process before, and guards them.
  absl::Status GuardMaps(const std::vector<const void*>& maps_before);

  // Runs a function of LMDB's, and returns its code; kBroken if the environment is or becomes
  // broken.
  template <typename Call>
  int Run(const Call& call) const;
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  // The first to notice says why; all others are told the same.
  absl::Status Break(absl::string_view why) const;
  absl::Status BreakUnreadable() const;

  // Around a commit, by the thread that makes it: nobody else has written to the meta pages, of
  // which a commit leaves one as it was, and no hole has come where the file was.
  absl::Status CheckBeforeCommit() const;
  absl::Status CheckAfterCommit(int code) const;
  using MetaPages = std::array<std::string, 2>;
  MetaPages ReadMetaPages() const;
  // In what is looked at of the file; the end of that if there is none.
  uint64_t FirstHole() const;

  // Constant after Open().
  std::string folder_;
  int lock_fd_ = -1;
  MDB_env* env_ = nullptr;
  unsigned database_ = 0;
  int data_fd_ = -1;   // LMDB's own.
  int holes_fd_ = -1;  // Ours, where the file system tells of holes.
  size_t page_bytes_ = 0;
  bool is_read_only_ = false;
  // Where one file system lies over another, the file under the name may seem to be another.
  bool names_tell_files_ = true;
  MapGuard data_guard_;
  MapGuard table_guard_;

  // The longest that the file was.
  mutable std::atomic<uint64_t> file_bytes_ = 0;
  // Of the one thread that commits.
  mutable MetaPages meta_pages_;
  // Set by that thread before a commit. What is looked at for holes is the file's last part as it
  // was then: whatever is cut off, that is part of it.
  mutable std::atomic<uint64_t> looked_from_ = 0;
  mutable std::atomic<uint64_t> looked_to_ = 0;
  mutable std::atomic<uint64_t> first_hole_ = 0;
  // Until it has been looked at again.
  mutable std::atomic<bool> is_committing_ = false;

  mutable std::atomic<bool> is_broken_ = false;
  mutable absl::Mutex mutex_;
  mutable absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// Whether there is something in the environment: then it has this format, a version by itself under
// a key of its own. FAILED_PRECONDITION naming both versions for another one, naming the first key
// for a database of something else.
absl::StatusOr<bool> CheckFormat(const LmdbEnvironment& environment, absl::string_view key,
                                 uint32_t version);

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

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_ENVIRONMENT_H_
