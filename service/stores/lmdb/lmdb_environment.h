// LMDB's environment in terms of this service: opening, watching, closing. Transactions are in
// lmdb_transaction.h.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_ENVIRONMENT_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_ENVIRONMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/lmdb/data_file_watch.h"
#include "service/stores/lmdb/map_guard.h"
#include "service/stores/lmdb/store_folder.h"

// LMDB's own names, so that its header stays in the .cc files.
struct MDB_env;
struct MDB_txn;
struct MDB_cursor;

namespace packhouse {

class LmdbCursor;
class LmdbTransaction;

// An opened folder: an environment with one unnamed database, and the lock that keeps all other
// processes out. Thread-safe, except that there may be only one write transaction at a time.
//
// Once its file is lost or cannot be read (DataFileWatch), it answers every call with DATA_LOSS
// naming the file, until the folder is opened anew. Existing views read as before, or as zeros:
// after using one, call CheckFiles() before the result is used.
class LmdbEnvironment {
 public:
  static constexpr size_t kMaxKeyBytes = 511;

  // Creates the folder and its files if they are missing. `map_bytes` is the most that the file can
  // ever grow to; it takes address space, not memory or disk. On a read-only file system, an
  // existing environment is opened for reading.
  //
  // FAILED_PRECONDITION if another process (or this one) has it open, naming it; DATA_LOSS if the
  // page structure is damaged (see CheckLmdbPages); UNAVAILABLE if there is no environment and the
  // file system is read-only; RESOURCE_EXHAUSTED if the disk is full.
  static absl::StatusOr<std::unique_ptr<LmdbEnvironment>> Open(const std::string& folder,
                                                               uint64_t map_bytes);
  ~LmdbEnvironment();
  LmdbEnvironment(const LmdbEnvironment&) = delete;
  LmdbEnvironment& operator=(const LmdbEnvironment&) = delete;

  const std::string& folder() const { return folder_.path(); }
  bool is_read_only() const { return folder_.is_read_only(); }
  size_t page_bytes() const { return page_bytes_; }
  // Bytes that a value of a record's size takes: whole pages, the first with a header.
  uint64_t BytesOnDisk(uint64_t value_bytes) const;
  // Values of at least this many bytes have pages of their own. LMDB never moves these: a view of
  // such a value stays valid until the value is erased, even beyond its transaction. Smaller values
  // share a page, which is rewritten with its neighbours.
  uint64_t MinBytesOfOwnPages() const { return page_bytes_ / 2; }

  // As DataFileWatch::Check(): after an OK, everything that views gave before is what was stored.
  // Two system calls; thread-safe.
  absl::Status CheckFiles() const { return file_.Check(); }
  // As DataFileWatch::failure(); no system call.
  absl::Status failure() const { return file_.failure(); }
  // RESOURCE_EXHAUSTED unless the disk has room for this many bytes more. Takes the room for a
  // moment.
  absl::Status CheckRoom(uint64_t bytes) const { return folder_.CheckRoom(bytes); }

  // Writes the pages in use to a new file, without those that are free. Others may read and write
  // meanwhile. Call CheckFiles() before the copy is used. O(bytes in use).
  absl::Status CopyCompactly(const std::string& path) const;

  // LMDB's return code as a status for the caller of the store.
  absl::Status StatusOf(int lmdb_code, absl::string_view what) const;

 private:
  friend class LmdbTransaction;
  friend class LmdbCursor;

  // A code that neither LMDB nor the system returns.
  static constexpr int kBroken = -(1 << 20);

  LmdbEnvironment() = default;

  absl::Status OpenIn(uint64_t map_bytes);
  // Runs a function of LMDB, and returns its code; kBroken if the file is or becomes broken.
  template <typename Call>
  int Run(const Call& call) const {
    if (file_.is_broken()) return kBroken;
    int code = 0;
    const bool has_ended = RunOrEscape([&] { code = call(); });
    if (has_ended && !file_.has_unreadable()) return code;
    file_.BreakUnreadable().IgnoreError();
    return kBroken;
  }
  // Keeps the memory of a broken environment, which LMDB cannot free any more, where leak checkers
  // find it.
  static void LeaveBehind(void* what);

  // Constant after Open(). The folder is unlocked last.
  StoreFolder folder_;
  MDB_env* env_ = nullptr;
  unsigned database_ = 0;
  uint64_t map_bytes_ = 0;
  size_t page_bytes_ = 0;
  DataFileWatch file_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_ENVIRONMENT_H_
