// The store of a cluster in memory, with faults: etcd for tests of what is built on it.
//
// FakeKeyValueServers is the store. Each process of a simulated cluster has a FakeConnection to it,
// whose faults a test chooses: by call, or by a seed (RandomFaults()). A process that crashes
// leaves its connection behind, dead, and its leases, which end when the clock says so. Nothing
// waits, and nothing depends on threads: the same calls with the same seed give the same answers.
#ifndef PACKHOUSE_TESTS_SUPPORT_FAKE_KEY_VALUE_STORE_H_
#define PACKHOUSE_TESTS_SUPPORT_FAKE_KEY_VALUE_STORE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/base/clock.h"
#include "service/stores/keys/key_value_store.h"
#include "tests/support/random.h"

namespace packhouse {

// What happens to one call.
enum class StoreFault {
  kNone,
  // Nothing is done, and the caller knows it.
  kUnreachable,
  // Nothing is done, is done, or is done after some later calls of anyone. The caller does not know
  // which; a read is UNAVAILABLE.
  kRequestLost,
  kReplyLost,
  kDoneLater,
  // The process ends before or after the call is done.
  kCrashBefore,
  kCrashAfter,
};

// Thread-safe. Leases end exactly when they may: the worst case for who relies on one. Old states
// may be gone at every call, as etcd's are that is compacted: nobody may rely on one.
class FakeKeyValueServers {
 public:
  // `clock` must outlive it. `seed` draws when late requests are done, and when old states go.
  explicit FakeKeyValueServers(const Clock* clock, uint64_t seed = 0)
      : clock_(clock), random_(seed), compactions_(~seed) {}

  // Does the requests that are still under way.
  void DoLateRequests() {
    absl::MutexLock lock(&mutex_);
    while (!late_.empty()) DoLate(0);
  }
  // The next change has the revision after `revision`, as if others had made changes.
  void SkipTo(Revision revision) {
    absl::MutexLock lock(&mutex_);
    revision_ = std::max(revision_, revision);
  }
  // States before `revision` can no longer be read.
  void Compact(Revision revision) {
    absl::MutexLock lock(&mutex_);
    compacted_ = std::max(compacted_, revision);
  }
  // False: old states stay until Compact().
  void SetForgetful(bool forgetful) {
    absl::MutexLock lock(&mutex_);
    is_forgetful_ = forgetful;
  }
  // While it is set, transactions that would put anything are RESOURCE_EXHAUSTED.
  void SetFull(bool full) {
    absl::MutexLock lock(&mutex_);
    full_ = full;
  }

  // What a backup has: all keys, the revision, the leases.
  class Backup {
   private:
    friend class FakeKeyValueServers;
    Revision revision = 0;
    std::map<std::string, std::map<Revision, std::optional<KeyValue>>> keys;
  };
  Backup TakeBackup() {
    absl::MutexLock lock(&mutex_);
    EndLeases();
    Backup backup;
    backup.revision = revision_;
    for (const auto& [key, lives] : keys_) {
      if (Now(key) != nullptr) backup.keys[key] = {*lives.rbegin()};
    }
    return backup;
  }
  // All is as it was when the backup was taken: the same revisions name other values from now on.
  // Leases that have begun since are unknown, what was under way is lost.
  void Restore(const Backup& backup) {
    absl::MutexLock lock(&mutex_);
    late_.clear();
    revision_ = compacted_ = backup.revision;
    keys_ = backup.keys;
    std::erase_if(leases_, [&](const auto& lease) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return std::none_of(keys_.begin(), keys_.end(), [&](const auto& key) {
        return key.second.rbegin()->second->lease == lease.first;
      });
    });
  }

  Revision revision() {
    absl::MutexLock lock(&mutex_);
    EndLeases();
    return revision_;
  }
  // Transactions that were done, or refused by their compares.
  uint64_t num_commits() const {
    absl::MutexLock lock(&mutex_);
    return num_commits_;
  }

 private:
  friend class FakeConnection;

  // The value since a revision; nullopt: deleted.
  using Lives = std::map<Revision, std::optional<KeyValue>>;

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit, Revision revision) {
    absl::MutexLock lock(&mutex_);
    Begin();
    return Read(range, limit, revision);
  }

  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) {
    absl::MutexLock lock(&mutex_);
    Begin();
    return Do(transaction);
  }

  void CommitLater(Transaction transaction) {
    absl::MutexLock lock(&mutex_);
    late_.push_back(std::move(transaction));
  }

  StoreLease Grant(absl::Duration length) {
    absl::MutexLock lock(&mutex_);
    Begin();
    const absl::Duration whole = absl::Ceil(length, absl::Seconds(1));
    const StoreLease lease{++last_lease_, whole};
    leases_[lease.id] = {whole, clock_->Now() + whole};
    return lease;
  }

  absl::StatusOr<absl::Duration> KeepAlive(LeaseId id) {
    absl::MutexLock lock(&mutex_);
    Begin();
    const auto lease = leases_.find(id);
    if (lease == leases_.end()) return absl::NotFoundError(absl::StrCat("no lease ", id));
    lease->second.end = clock_->Now() + lease->second.length;
    return lease->second.length;
  }

  void Revoke(LeaseId id) {
    absl::MutexLock lock(&mutex_);
    Begin();
    if (leases_.erase(id) != 0) DeleteKeysOf(id);
  }

  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    EndLeases();
    while (!late_.empty() && random_.Below(3) == 0) DoLate(random_.Below(late_.size()));
    if (!is_forgetful_) return;
    // Others change other keys.
    if (compactions_.Below(16) == 0) ++revision_;
    if (compactions_.Below(2) == 0) compacted_ = revision_;
  }

  void DoLate(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Transaction transaction = std::move(late_[index]);
    late_.erase(late_.begin() + static_cast<ptrdiff_t>(index));
    (void)Do(transaction);
  }

  void EndLeases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time now = clock_->Now();
    for (auto it = leases_.begin(); it != leases_.end();) {
      if (it->second.end > now) {
        ++it;
        continue;
      }
      const LeaseId ended = it->first;
      it = leases_.erase(it);
      DeleteKeysOf(ended);
    }
  }

  void DeleteKeysOf(LeaseId lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Revision next = revision_ + 1;
    for (auto& [key, lives] : keys_) {
      const std::optional<KeyValue>& now = lives.rbegin()->second;
      if (!now || now->lease != lease) continue;
      lives[next] = std::nullopt;
      revision_ = next;
    }
  }

  const KeyValue* Now(const std::string& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto lives = keys_.find(key);
    if (lives == keys_.end() || !lives->second.rbegin()->second) return nullptr;
    return &*lives->second.rbegin()->second;
  }

  absl::StatusOr<RangeResult> Read(const KeyRange& range, size_t limit, Revision revision)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (revision == 0) revision = revision_;
    if (revision > revision_ || revision < compacted_) {
      return absl::OutOfRangeError(absl::StrCat("revision ", revision, " is not there, but ",
                                                compacted_, " to ", revision_));
    }
    RangeResult result;
    result.revision = revision_;
    const auto is_in = [&range](const std::string& key) {
      return range.end.empty() ? key == range.begin : key < range.end;
    };
    for (auto it = keys_.lower_bound(range.begin); it != keys_.end() && is_in(it->first); ++it) {
      auto life = it->second.upper_bound(revision);
      if (life == it->second.begin() || !std::prev(life)->second) continue;
      if (limit != 0 && result.values.size() == limit) {
        result.has_more = true;
        break;
      }
      result.values.push_back(*std::prev(life)->second);
    }
    return result;
  }

  absl::StatusOr<TransactionResult> Do(const Transaction& transaction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (absl::Status status = transaction.Check(); !status.ok()) return status;
    TransactionResult result;
    result.succeeded = std::all_of(transaction.compares.begin(), transaction.compares.end(),
                                   [this](const Compare& compare) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                     return compare.Holds(Now(compare.key));
                                   });
    const std::vector<Operation>& steps =
        result.succeeded ? transaction.then : transaction.otherwise;
    for (const Operation& step : steps) {
      if (step.kind != Operation::Kind::kPut) continue;
      if (full_) return absl::ResourceExhaustedError("the store is full");
      if (step.lease != 0 && !leases_.contains(step.lease)) {
        return absl::NotFoundError(absl::StrCat("no lease ", step.lease));
      }
    }
    ++num_commits_;
    const Revision next = revision_ + 1;
    for (const Operation& step : steps) {
      switch (step.kind) {
        case Operation::Kind::kPut: {
          const KeyValue* const old = Now(step.range.begin);
          KeyValue value{step.range.begin, step.value, old == nullptr ? next : old->create_revision,
                         next, step.lease};
          keys_[step.range.begin][next] = std::move(value);
          revision_ = next;
          break;
        }
        case Operation::Kind::kDelete: {
          const auto found = Read(step.range, 0, 0);
          for (const KeyValue& value : found->values) {
            keys_[value.key][next] = std::nullopt;
            revision_ = next;
          }
          break;
        }
        case Operation::Kind::kRead:
          result.reads.push_back(*Read(step.range, step.limit, 0));
          break;
      }
    }
    result.revision = revision_;
    for (RangeResult& read : result.reads) read.revision = revision_;
    return result;
  }

  struct LeaseState {
    absl::Duration length;
    absl::Time end;
  };

  const Clock* const clock_;
  mutable absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  // Its own draws: faults of a seed stay what they are.
  Random compactions_ ABSL_GUARDED_BY(mutex_);
  Revision revision_ ABSL_GUARDED_BY(mutex_) = 1;
  Revision compacted_ ABSL_GUARDED_BY(mutex_) = 0;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_forgetful_ ABSL_GUARDED_BY(mutex_) = true;
  LeaseId last_lease_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_commits_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Lives> keys_ ABSL_GUARDED_BY(mutex_);
  std::map<LeaseId, LeaseState> leases_ ABSL_GUARDED_BY(mutex_);
  std::vector<Transaction> late_ ABSL_GUARDED_BY(mutex_);
};

// Decides about each call; called by one thread at a time.
using StoreFaults = std::function<StoreFault()>;

// Of 100 calls, about `percent` have a fault of those given; none if there are none.
inline StoreFaults RandomFaults(uint64_t seed, uint64_t percent, std::vector<StoreFault> faults) {
  return [random = Random(seed), percent, faults = std::move(faults)]() mutable {
    if (faults.empty() || random.Below(100) >= percent) return StoreFault::kNone;
    return faults[random.Below(faults.size())];
  };
}

// One process's way to the store. Thread-safe.
class FakeConnection final : public KeyValueStore {
 public:
  // `servers` must outlive it. Without `faults` nothing goes wrong.
  explicit FakeConnection(FakeKeyValueServers* servers, StoreFaults faults = nullptr)
      : servers_(servers), faults_(std::move(faults)) {}

  // The process ends: all later calls fail, and do nothing. `crashed` tells.
  void Crash() {
    absl::MutexLock lock(&mutex_);
    crashed_ = true;
  }
  bool crashed() const {
    absl::MutexLock lock(&mutex_);
    return crashed_;
  }
  void SetFaults(StoreFaults faults) {
    absl::MutexLock lock(&mutex_);
    faults_ = std::move(faults);
  }

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    const StoreFault fault = Draw();
    if (fault != StoreFault::kNone && fault != StoreFault::kCrashAfter) {
      return absl::UnavailableError("fake: not answered");
    }
    auto result = servers_->Range(range, limit, revision);
    if (fault == StoreFault::kCrashAfter) return absl::UnavailableError("fake: crashed");
    return result;
  }

  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    if (absl::Status status = transaction.Check(); !status.ok()) return status;
    return Change<absl::StatusOr<TransactionResult>>([&] { return servers_->Commit(transaction); },
                                                     [&] { servers_->CommitLater(transaction); });
  }

  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    if (length <= absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("lease: ", absl::FormatDuration(length), " is not positive"));
    }
    return Change<absl::StatusOr<StoreLease>>(
        [&]() -> absl::StatusOr<StoreLease> { return servers_->Grant(length); }, [] {});
  }

  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override {
    return Change<absl::StatusOr<absl::Duration>>([&] { return servers_->KeepAlive(lease); },
                                                  [] {});
  }

  absl::Status RevokeLease(LeaseId lease) override {
    return Change<absl::Status>(
        [&] {
          servers_->Revoke(lease);
          return absl::OkStatus();
        },
        [] {});
  }

 private:
  // A dead process asks nothing.
  StoreFault Draw() {
    absl::MutexLock lock(&mutex_);
    if (crashed_) return StoreFault::kCrashBefore;
    const StoreFault fault = faults_ ? faults_() : StoreFault::kNone;
    crashed_ = fault == StoreFault::kCrashBefore || fault == StoreFault::kCrashAfter;
    return fault;
  }

  template <typename Result>
  Result Change(const std::function<Result()>& change, const std::function<void()>& later) {
    switch (Draw()) {
      case StoreFault::kNone:
        return change();
      case StoreFault::kUnreachable:
        return absl::UnavailableError("fake: unreachable");
      case StoreFault::kReplyLost:
      case StoreFault::kCrashAfter:
        (void)change();
        break;
      case StoreFault::kDoneLater:
        later();
        break;
      case StoreFault::kRequestLost:
      case StoreFault::kCrashBefore:
        break;
    }
    return absl::UnknownError("fake: not answered");
  }

  FakeKeyValueServers* const servers_;
  mutable absl::Mutex mutex_;
  StoreFaults faults_ ABSL_GUARDED_BY(mutex_);
  bool crashed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FAKE_KEY_VALUE_STORE_H_
