// A log that several servers may write, as keys: of etcd, or of a server that is alone
// (logged_keys.h). A head says which entries there are.
//
// A write names the head that it follows: all of it happens, or none. Its transaction compares that
// head and puts one that was never there before. So what an unknown outcome was is found by sending
// the same transaction again: it can happen once; if it is refused, and the head or the last entry
// is what this write has put, it has happened. What is too large for a transaction is put ahead,
// where no head reaches yet. A write may take the place of all before it: so a log stays short.
//
// What one server alone writes, without others that might, is a RecordLog (record_log.h).
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_SHARED_LOG_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_SHARED_LOG_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/keys/key_value_store.h"

namespace packhouse {

struct SharedLogKeys {
  std::string head;
  // The keys of entries begin with it, and end with 16 hexadecimal digits.
  std::string entries;

  std::string Entry(uint64_t number) const;
  KeyRange EntriesFrom(uint64_t number) const;
};

struct SharedLogHead {
  // The write that put it.
  std::string write;
  // The log is the entries from `begin` to before `end`; those before `base_end` are of the last
  // write that took the place of all before it. Others are left over from what did not happen, and
  // go with the next such write.
  uint64_t begin = 0;
  uint64_t base_end = 0;
  uint64_t end = 0;
  // Of the entries' contents, and of those of the base.
  uint64_t num_bytes = 0;
  uint64_t base_bytes = 0;
  // What writers say beside the entries.
  std::string value;

  // As it is stored: "2 WRITE BEGIN BASE_END END BYTES BASE_BYTES VALUE", numbers in decimal
  // digits; 2 is the version of the format. Empty: there is no log.
  std::string text;
  // Of its key; 0: there is none.
  Revision revision = 0;
  Revision created = 0;
  // Of the store, when it was read.
  Revision as_of = 0;

  bool is_there() const { return !text.empty(); }
  // DATA_LOSS for other text; FAILED_PRECONDITION naming the version if it is another.
  static absl::StatusOr<SharedLogHead> Decode(const KeyValue& stored);
};

// An entry's value: the CRC32C of what follows it as 8 hexadecimal digits, ' ', the write's name,
// ' ', and what it has of the write's contents.
std::string EncodeSharedLogEntry(absl::string_view write, absl::string_view contents);

struct SharedLogWrite {
  // No other write of any log has the same. No spaces.
  std::string name;
  // Not empty, unless it replaces.
  absl::string_view contents = "";
  // It takes the place of all that is there.
  bool replaces = false;
  // SharedLogHead::value from now on.
  std::string value = "";
};

// Thread-safe, and has no state: a writer keeps the head.
class SharedLog {
 public:
  static constexpr int kTries = 4;
  static constexpr size_t kMaxEntryBytes = size_t{1} << 20;

  struct Options {
    // What messages begin with.
    std::string name;
    SharedLogKeys keys;
    // Must hold for each write, too: so there is one writer at a time. nullopt: all may write.
    std::optional<Compare> fence = std::nullopt;
    // Bound of SharedLogHead::num_bytes.
    uint64_t max_bytes = std::numeric_limits<uint64_t>::max();
    // Of contents in one entry.
    size_t max_entry_bytes = kMaxEntryBytes;
  };

  // `store` must outlive it.
  SharedLog(KeyStore* store, Options options) : store_(store), options_(std::move(options)) {}

  // Now. That of no log, if there is none.
  absl::StatusOr<SharedLogHead> Head() const;

  // A write that is in the log, and the number of the entry after it.
  struct Written {
    std::string name;
    std::string contents;
    uint64_t end = 0;
  };
  // Gives the log's writes in order, from the one on that begins with the entry `from`. `as_of`:
  // that of the head; OUT_OF_RANGE if the store has dropped that state. 0: the caller is the
  // writer, and the entries are those of now; ABORTED if somebody has written since. DATA_LOSS
  // naming the entry that is missing or damaged; errors of `visit`.
  absl::Status Read(const SharedLogHead& head, uint64_t from, Revision as_of,
                    absl::FunctionRef<absl::Status(const Written&)> visit) const;

  // Writes behind `head`, which is then the new one. A round trip for each entry. Besides the
  // store's errors, where nothing is done:
  // - ABORTED: somebody else has written, or the fence does not hold, or what an earlier try put
  //   ahead came late. Nothing is done: read the head anew.
  // - RESOURCE_EXHAUSTED: the log would have more bytes than it may, naming both.
  // - UNKNOWN: it may have been done, or may still be, until somebody else has written.
  absl::Status Write(const SharedLogWrite& write, SharedLogHead& head) const;

  // That it is the head now.
  Compare Is(const SharedLogHead& head) const;
  // Deletes the head and all entries.
  std::vector<Operation> Erasure() const;

 private:
  absl::StatusOr<RangeResult> ReadPage(const SharedLogHead& head, const KeyRange& range,
                                       size_t limit, Revision as_of) const;
  // Sends a transaction until its outcome is known, and gives its revision. `next`: the head that
  // it puts, with the entry before its end; null: it puts none.
  absl::StatusOr<Revision> Send(Transaction transaction, const SharedLogHead* next) const;
  absl::Status Damaged(uint64_t number, absl::string_view what) const;

  KeyStore* const store_;
  const Options options_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_SHARED_LOG_H_
