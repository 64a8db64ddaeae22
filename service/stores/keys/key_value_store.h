// Small values under keys, changed by transactions: what a cluster of replicas must agree on, and
// what a server that is alone keeps.
//
// Start here. KeyValueStore is what etcd offers, as far as packhouse uses it: keys in one order,
// one revision for the whole store, transactions that compare before they change, and leases whose
// end deletes keys. `cluster/etcd` has it over gRPC; `tests/support/fake_key_value_store.h` has it
// in memory, with faults. There are no watches: who wants to see changes reads again now and then,
// and who must not miss one compares revisions in the transaction.
//
// Use cases. A ledger's owner: its key is created under a lease, and each append compares the key's
// create_revision, so that who was replaced is refused, whatever the clocks say. A head: each
// change compares its mod_revision, and writes a value that nobody else writes, by which a
// transaction with an unknown outcome is found again.
#ifndef PACKHOUSE_SERVICE_STORES_KEYS_KEY_VALUE_STORE_H_
#define PACKHOUSE_SERVICE_STORES_KEYS_KEY_VALUE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse {

// Numbers a state of the whole store: each transaction that changes something takes the next one.
// The first is 1; 0 is no state.
using Revision = uint64_t;
// 0 is no lease.
using LeaseId = uint64_t;

struct KeyValue {
  std::string key;
  std::string value;
  // Of the transaction that created the key since it was last deleted. It names this life of the
  // key: no other life of any key of the store has it, except keys of the same transaction.
  Revision create_revision = 0;
  // Of the transaction that last wrote it.
  Revision mod_revision = 0;
  LeaseId lease = 0;

  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// The keys from `begin` to before `end`, compared byte by byte. An empty `end` means the one key
// `begin`.
struct KeyRange {
  std::string begin;
  std::string end;

  static KeyRange Of(absl::string_view key) { return {std::string(key), ""}; }
  // The keys that begin with `prefix`, which is not empty and has a byte other than 0xff.
  static KeyRange Prefix(absl::string_view prefix);

  bool Contains(absl::string_view key) const {
    return end.empty() ? key == begin : begin <= key && key < end;
  }
};

struct RangeResult {
  // By key.
  std::vector<KeyValue> values;
  // There are more than the asked number; go on with a range that begins at the last key and a zero
  // byte, at the same revision.
  bool has_more = false;
  // The store's revision as it answered, also where an older state was asked for.
  Revision revision = 0;
};

// One condition of a transaction: a property of a key equals a number or a value.
struct Compare {
  enum class Target { kCreateRevision, kModRevision, kValue };
  Target target = Target::kCreateRevision;
  std::string key;
  Revision revision = 0;
  std::string value;

  // There is no such key.
  static Compare Absent(absl::string_view key) {
    return {Target::kCreateRevision, std::string(key), 0, ""};
  }
  static Compare CreateRevision(absl::string_view key, Revision revision) {
    return {Target::kCreateRevision, std::string(key), revision, ""};
  }
  // 0: there is no such key.
  static Compare ModRevision(absl::string_view key, Revision revision) {
    return {Target::kModRevision, std::string(key), revision, ""};
  }
  // False for a key that is not there, even if `value` is empty.
  static Compare Value(absl::string_view key, absl::string_view value) {
    return {Target::kValue, std::string(key), 0, std::string(value)};
  }

  // Of what is under the key now; null: nothing is.
  bool Holds(const KeyValue* now) const;
};

// One step of a transaction.
struct Operation {
  enum class Kind { kPut, kDelete, kRead };
  Kind kind = Kind::kRead;
  // kPut: one key.
  KeyRange range;
  // kPut.
  std::string value;
  LeaseId lease = 0;
  // kRead: the most values; 0: all.
  size_t limit = 0;

  // The key lives until the lease ends; without a lease, until it is deleted. A later Put of the
  // key replaces its lease, by none too.
  static Operation Put(absl::string_view key, absl::string_view value, LeaseId lease = 0) {
    return {Kind::kPut, KeyRange::Of(key), std::string(value), lease, 0};
  }
  // Keys that are not there are no error.
  static Operation Delete(KeyRange range) { return {Kind::kDelete, std::move(range), "", 0, 0}; }
  static Operation Read(KeyRange range, size_t limit = 0) {
    return {Kind::kRead, std::move(range), "", 0, limit};
  }
};

// If all of `compares` hold, `then` happens, else `otherwise`: all steps in order, at one revision.
// No key may be put twice, or put and deleted, in one branch. A step reads what earlier steps of
// its branch have written.
struct Transaction {
  // The most of each: compares, steps of a branch (etcd's --max-txn-ops, by default).
  static constexpr size_t kMaxOperations = 128;
  // The most bytes of a request (etcd's --max-request-bytes, by default), as NumBytes() counts
  // them.
  static constexpr size_t kMaxBytes = size_t{3} << 19;  // 1.5 MiB
  // What NumBytes() counts for a compare or step besides its keys and value.
  static constexpr size_t kBytesPerOperation = 64;

  std::vector<Compare> compares;
  std::vector<Operation> then;
  std::vector<Operation> otherwise;

  // Whether a step puts or deletes.
  bool ChangesSomething() const;
  // Not less than the bytes of the request.
  size_t NumBytes() const;
  // INVALID_ARGUMENT naming the bound and the value, or the key that is put twice or is empty.
  absl::Status Check() const;
};

struct TransactionResult {
  // Whether `then` happened; otherwise `otherwise` did.
  bool succeeded = false;
  // Of the store after the transaction. If the transaction put or deleted something, this is its
  // own: the mod_revision of what it put, and the create_revision of keys that it created.
  Revision revision = 0;
  // One for each kRead of the branch that happened, in order.
  std::vector<RangeResult> reads;
};

struct StoreLease {
  LeaseId id = 0;
  // What the store granted; not shorter than what was asked for.
  absl::Duration length;
};

// Keys that transactions change: of a cluster (KeyValueStore), or of a server that is alone
// (stores/logs/logged_keys.h). Thread-safe. Every call blocks until the answer or its deadline,
// which the implementation sets (a few seconds). All calls together are strictly serializable: what
// one call was told, each call that begins later sees.
//
// Errors of all calls, besides those that they name:
// - UNAVAILABLE: no server could be asked, or a majority of them cannot be reached. Nothing was
//   changed by this call. Reads return it also if they were not answered in time.
// - UNKNOWN: only of calls that change something. The request may have been done, may not have
//   been, and may still be done later, after other calls. OutcomeIsUnknown() tells. Find out by a
//   read and a compare: change something that the lost request compares, and it can no longer be
//   done.
// - INTERNAL: only of calls that change nothing. The store's answer makes no sense. (Of a call that
//   changes something, its outcome is then UNKNOWN.)
// - RESOURCE_EXHAUSTED: the store is full, or has too many requests. Nothing was changed.
// - UNAUTHENTICATED, PERMISSION_DENIED: the credentials are wrong, or do not suffice for these
//   keys. Nothing was changed.
class KeyStore {
 public:
  virtual ~KeyStore() = default;

  // The value now; nullopt if there is none. O(log keys), a round trip between the servers.
  absl::StatusOr<std::optional<KeyValue>> Get(absl::string_view key);

  // The first `limit` values of a range, 0: all, at `revision`, 0: now. The answer must be below
  // the implementation's largest message (4 MiB): page through what may be more. OUT_OF_RANGE if
  // `revision` is so old that the store has dropped it (compaction), or has not come yet.
  virtual absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit = 0,
                                            Revision revision = 0) = 0;

  // All values of a range at one revision, which is the result's: `page` of them in each answer.
  // UNAVAILABLE also if the store drops its history again and again before all is read.
  virtual absl::StatusOr<RangeResult> ReadAll(KeyRange range, size_t page);

  // INVALID_ARGUMENT as Transaction::Check(). NOT_FOUND if a put names a lease that has ended;
  // nothing was changed.
  virtual absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) = 0;
};

// Those of a cluster, with leases.
class KeyValueStore : public KeyStore {
 public:
  // A lease of at least `length`, counted by the store from some moment of the call on. `length` is
  // rounded up to whole seconds; the store may grant more. INVALID_ARGUMENT if it is not positive.
  // With an unknown outcome a lease may be left over, with no key; it ends by itself.
  virtual absl::StatusOr<StoreLease> GrantLease(absl::Duration length) = 0;

  // The lease lasts its whole length again, counted from some moment of the call on. So it has not
  // ended before the call's *beginning* plus the returned length; read the clock before the call.
  // NOT_FOUND if it has ended: its keys are deleted.
  virtual absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) = 0;

  // Ends the lease, and deletes its keys, in one transaction. OK if it had ended before.
  virtual absl::Status RevokeLease(LeaseId lease) = 0;
};

// Whether a call that changes something may have been done, though it returned an error.
inline bool OutcomeIsUnknown(const absl::Status& status) { return absl::IsUnknown(status); }

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_KEYS_KEY_VALUE_STORE_H_
