#include "service/wings/cluster/jobs/etcd_record_log.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/jobs/log_entries.h"

namespace packhouse {
namespace {

// Of entries that are read at once: the first page, and the most. A page of small entries is
// followed by a larger one.
constexpr size_t kFirstPage = 16;
constexpr size_t kLargestPage = 1024;
constexpr size_t kPageBytes = size_t{2} << 20;
// Of somebody else's log, where the revision is compacted before the last page is read.
constexpr int kReadings = 10;

const KeyValue* OnlyOne(const RangeResult& read) {
  return read.values.empty() ? nullptr : &read.values.front();
}

absl::StatusOr<EtcdRecordLog::Owner> OwnerFrom(const KeyValue& value) {
  PH_ASSIGN_OR_RETURN(const OwnerValue owner, OwnerValue::Decode(value.value));
  return EtcdRecordLog::Owner{owner.address, value.create_revision, value.lease};
}

// Why an owner whose key is `now`, null: gone, is no longer it.
absl::Status NoLongerOwner(const std::string& job, const KeyValue* now) {
  if (now == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("job ", Quoted(job), ": this server's ownership has ended"));
  }
  const auto owner = OwnerFrom(*now);
  return absl::UnavailableError(absl::StrCat("job ", Quoted(job), ": ",
                                             owner.ok() ? owner->address : "another server",
                                             " owns it since revision ", now->create_revision));
}

absl::Status NotKnown(const std::string& job, const absl::Status& last) {
  return absl::UnavailableError(
      absl::StrCat("job ", Quoted(job), ": after ", EtcdRecordLog::kTries,
                   " tries it is not known what is stored: ", last.message()));
}

// 0: there is no such key.
absl::StatusOr<uint64_t> MarkFrom(const KeyValue* stored) {
  uint64_t mark = 0;
  if (stored != nullptr && !absl::SimpleAtoi(stored->value, &mark)) {
    return absl::DataLossError(
        absl::StrCat("key ", Quoted(stored->key), " is damaged: ", Quoted(stored->value)));
  }
  return mark;
}

// The first `limit` values of a range of entries, as they are while the log has its head.
using PageReader =
    absl::FunctionRef<absl::StatusOr<RangeResult>(const KeyRange& range, size_t limit)>;

// The entries of a log that has this head. Whether there are more of them, which are no part of it.
absl::StatusOr<bool> ReadEntries(const std::string& job, const LogHead& head, PageReader read_page,
                                 EntryReader& records) {
  const JobKeys keys(job);
  const auto damage = [&](uint64_t number, absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat("job ", Quoted(job), ", entry ", number, " of its log: ", what));
  };
  uint64_t next = head.begin;
  bool has_rest = false;
  KeyRange range = keys.EntriesFrom(head.begin);
  for (size_t limit = kFirstPage;;) {
    PH_ASSIGN_OR_RETURN(const RangeResult page, read_page(range, limit));
    size_t bytes = 0;
    for (const KeyValue& each : page.values) {
      PH_ASSIGN_OR_RETURN(const uint64_t number, keys.NumberOf(each.key));
      has_rest = number >= head.end;
      if (has_rest) break;
      if (number != next) return damage(next, "it is missing");
      const absl::Status added = records.Add(each.value);
      if (!added.ok()) return damage(number, added.message());
      bytes += each.value.size();
      ++next;
    }
    if (has_rest || !page.has_more) break;
    range.begin = absl::StrCat(page.values.back().key, absl::string_view("\0", 1));
    limit = bytes < kPageBytes ? std::min(2 * limit, kLargestPage) : std::max<size_t>(limit / 2, 1);
  }
  if (next != head.end) return damage(next, "it is missing");
  return has_rest;
}

}  // namespace

absl::StatusOr<EtcdRecordLog::Acquired> EtcdRecordLog::Acquire(KeyValueStore* store,
                                                               const Options& options) {
  const JobKeys keys(options.job);
  const std::string value = OwnerValue{options.address, options.attempt}.Encode();
  Transaction acquire;
  acquire.compares = {Compare::Absent(keys.owner())};
  acquire.then = {Operation::Read(KeyRange::Of(keys.owner())),
                  Operation::Read(KeyRange::Of(keys.head())),
                  Operation::Read(KeyRange::Of(JobKeys::kMark)),
                  Operation::Put(keys.owner(), value, options.lease)};
  acquire.otherwise = {Operation::Read(KeyRange::Of(keys.owner())),
                       Operation::Read(KeyRange::Of(keys.head())),
                       Operation::Read(KeyRange::Of(JobKeys::kMark))};
  absl::Status last;
  for (int i = 0; i < kTries; ++i) {
    const auto done = store->Commit(acquire);
    if (!done.ok()) {
      last = done.status();
      // If it is done after all, the key is taken away by the next attempt.
      if (OutcomeIsUnknown(last)) continue;
      return last;
    }
    const KeyValue* const owner = OnlyOne(done->reads[0]);
    if (!done->succeeded && owner == nullptr) {
      return absl::InternalError(absl::StrCat(
          "job ", Quoted(options.job), ": the store says that there is an owner, and that not"));
    }
    if (!done->succeeded && owner->value != value) {
      if (owner->lease != options.lease) {
        PH_ASSIGN_OR_RETURN(Owner other, OwnerFrom(*owner));
        return Acquired{nullptr, std::move(other)};
      }
      Transaction remove;
      remove.compares = {Compare::CreateRevision(keys.owner(), owner->create_revision)};
      remove.then = {Operation::Delete(KeyRange::Of(keys.owner()))};
      last = store->Commit(remove).status();
      continue;
    }
    LogHead head;
    const KeyValue* const stored = OnlyOne(done->reads[1]);
    if (stored != nullptr) {
      auto decoded = LogHead::Decode(stored->value);
      if (!decoded.ok()) {
        return absl::Status(decoded.status().code(), absl::StrCat("job ", Quoted(options.job), ": ",
                                                                  decoded.status().message()));
      }
      head = *decoded;
    }
    PH_ASSIGN_OR_RETURN(const uint64_t mark, MarkFrom(OnlyOne(done->reads[2])));
    return Acquired{absl::WrapUnique(new EtcdRecordLog(
                        store, options, done->succeeded ? done->revision : owner->create_revision,
                        stored == nullptr ? 0 : stored->mod_revision, head, mark)),
                    std::nullopt};
  }
  return NotKnown(options.job, last);
}

absl::StatusOr<std::optional<EtcdRecordLog::Owner>> EtcdRecordLog::OwnerOf(KeyValueStore& store,
                                                                           absl::string_view job) {
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> value, store.Get(JobKeys(job).owner()));
  if (!value) return std::nullopt;
  PH_ASSIGN_OR_RETURN(Owner owner, OwnerFrom(*value));
  return owner;
}

EtcdRecordLog::EtcdRecordLog(KeyValueStore* store, const Options& options, Revision owner_revision,
                             Revision head_revision, const LogHead& head, uint64_t mark)
    : store_(store),
      options_(options),
      keys_(options.job),
      owner_revision_(owner_revision),
      mark_(mark),
      head_revision_(head_revision),
      head_(head) {}

void EtcdRecordLog::AwaitTurn() { mutex_.Await(absl::Condition(this, &EtcdRecordLog::IsFree)); }

absl::Status EtcdRecordLog::Alone(absl::FunctionRef<absl::Status()> work) {
  {
    absl::MutexLock lock(&mutex_);
    AwaitTurn();
    if (!failure_.ok()) return failure_;
    is_busy_ = true;
  }
  const absl::Cleanup is_done = [this] {
    absl::MutexLock lock(&mutex_);
    is_busy_ = false;
  };
  return work();
}

absl::Status EtcdRecordLog::Append(absl::Span<const std::string> records) {
  Waiter own{records, 0, absl::OkStatus(), false};
  for (const std::string& record : records) {
    if (record.size() > kMaxRecordBytes) {
      return absl::InvalidArgumentError(absl::StrCat("job ", Quoted(options_.job), ": a record of ",
                                                     record.size(), " bytes, at most ",
                                                     kMaxRecordBytes));
    }
    own.num_bytes += record.size() + sizeof(uint32_t);
  }
  absl::MutexLock lock(&mutex_);
  if (!records.empty()) queue_.push_back(&own);
  const auto may_go_on = [this, &own]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return own.is_done || !is_busy_;
  };
  while (!records.empty() && !own.is_done) {
    mutex_.Await(absl::Condition(&may_go_on));
    if (own.is_done) break;
    // This thread commits what waits, as far as it fits into one entry; later ones come after it.
    is_busy_ = true;
    size_t count = 0;
    size_t bytes = 0;
    while (count < queue_.size() &&
           (count == 0 || bytes + queue_[count]->num_bytes <= kMaxContentBytes)) {
      bytes += queue_[count++]->num_bytes;
    }
    num_under_way_ = count;
    absl::Status status = failure_;
    if (status.ok()) {
      mutex_.Unlock();
      if (!HasMemoryFor([&] {
            const std::vector<Waiter*> group = [&] {
              absl::MutexLock again(&mutex_);
              return std::vector<Waiter*>(queue_.begin(),
                                          queue_.begin() + static_cast<ptrdiff_t>(count));
            }();
            status = AppendTogether(group);
          })) {
        // The transaction may be under way.
        status = Fail(absl::UnavailableError("no memory for the ledger"));
      }
      mutex_.Lock();
    }
    for (; count != 0; --count) {
      Waiter& waiter = *queue_.front();
      if (waiter.status.ok()) waiter.status = status;
      waiter.is_done = true;
      queue_.pop_front();
    }
    num_under_way_ = 0;
    is_busy_ = false;
  }
  return records.empty() ? failure_ : own.status;
}

absl::Status EtcdRecordLog::AppendTogether(absl::Span<Waiter* const> group) {
  std::string contents;
  size_t num_records = 0;
  for (const Waiter* waiter : group) {
    for (const std::string& record : waiter->records) AddFramed(record, contents);
    num_records += waiter->records.size();
  }
  absl::Status status = Write(contents, num_records, /*replaces=*/false);
  if (group.size() == 1 || !absl::IsResourceExhausted(status)) return status;
  // One that is small may fit where all do not.
  for (Waiter* const waiter : group) {
    waiter->status = AppendTogether({&waiter, 1});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> EtcdRecordLog::Read(KeyValueStore& store,
                                                             const std::string& job) {
  absl::Status compacted;
  for (int i = 0; i < kReadings; ++i) {
    PH_ASSIGN_OR_RETURN(const RangeResult now, store.Range(KeyRange::Of(JobKeys(job).head())));
    const KeyValue* const stored = OnlyOne(now);
    if (stored == nullptr) return std::vector<std::string>();
    const auto head = LogHead::Decode(stored->value);
    if (!head.ok()) {
      return absl::Status(head.status().code(),
                          absl::StrCat("job ", Quoted(job), ": ", head.status().message()));
    }
    // Its owner may append meanwhile.
    const auto read_page = [&](const KeyRange& range, size_t limit) {
      return store.Range(range, limit, now.revision);
    };
    EntryReader records;
    const absl::Status read = ReadEntries(job, *head, read_page, records).status();
    if (read.ok()) return records.Finish();
    if (!absl::IsOutOfRange(read)) return read;
    compacted = read;
  }
  return absl::UnavailableError(
      absl::StrCat("job ", Quoted(job), ": its log was read ", kReadings,
                   " times, and dropped from the store's history before it was read whole: ",
                   compacted.message()));
}

absl::StatusOr<std::vector<std::string>> EtcdRecordLog::ReadAll() {
  EntryReader records;
  PH_RETURN_IF_ERROR(Alone([&]() -> absl::Status {
    LogHead head;
    Revision head_revision = 0;
    {
      absl::MutexLock lock(&mutex_);
      head = head_;
      head_revision = head_revision_;
    }
    // Nobody but the owner changes entries, so there is no older state to ask for, which the store
    // may have dropped: each page is of now, and the head says that it is still this log.
    const auto read_page = [&](const KeyRange& range, size_t limit) -> absl::StatusOr<RangeResult> {
      Transaction read;
      read.compares = {Compare::ModRevision(keys_.head(), head_revision)};
      read.then = {Operation::Read(range, limit)};
      PH_ASSIGN_OR_RETURN(TransactionResult done, store_->Commit(read));
      if (!done.succeeded) return Fail(NoLongerOwner(options_.job, nullptr));
      return std::move(done.reads[0]);
    };
    PH_ASSIGN_OR_RETURN(const bool has_rest, ReadEntries(options_.job, head, read_page, records));
    if (!has_rest) return absl::OkStatus();
    bool was_uncertain = false;
    const absl::Status cleaned =
        Send({Operation::Delete(keys_.EntriesFrom(head.end))}, nullptr, was_uncertain);
    // A first try with an unknown outcome may still be done later, and would delete what is written
    // from now on: the head has not changed by it.
    if (was_uncertain) return Fail(NotKnown(options_.job, cleaned));
    return absl::OkStatus();
  }));
  return records.Finish();
}

absl::Status EtcdRecordLog::Replace(absl::Span<const std::string> records) {
  std::string contents;
  for (const std::string& record : records) AddFramed(record, contents);
  return Alone([&] { return Write(contents, records.size(), /*replaces=*/true); });
}

absl::Status EtcdRecordLog::Write(absl::string_view contents, size_t num_records, bool replaces) {
  const std::vector<std::string> entries = CutIntoEntries(contents);
  LogHead old;
  LogHead next;
  {
    absl::MutexLock lock(&mutex_);
    old = head_;
    next = head_;
    next.serial = ++serial_;
  }
  next.owner = owner_revision_;
  if (replaces) {
    next.begin = old.end;
    next.num_records = 0;
    next.num_bytes = 0;
  }
  next.end = old.end + entries.size();
  next.num_records += num_records;
  for (const std::string& entry : entries) next.num_bytes += entry.size();
  if (next.num_bytes > options_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("job ", Quoted(options_.job), ": its log has ",
                                                     next.num_bytes, " bytes, at most ",
                                                     options_.max_bytes));
  }
  bool was_uncertain = false;
  absl::Status status;
  // What the head does not reach yet is no part of the log.
  for (size_t i = 0; i + 1 < entries.size() && status.ok(); ++i) {
    status = Send({Operation::Put(keys_.Entry(old.end + i), entries[i])}, nullptr, was_uncertain);
  }
  if (status.ok()) {
    std::vector<Operation> steps;
    if (!entries.empty()) {
      steps.push_back(Operation::Put(keys_.Entry(next.end - 1), entries.back()));
    }
    if (replaces && old.begin != old.end) {
      steps.push_back(Operation::Delete(keys_.Entries(old.begin, old.end)));
    }
    status = Send(std::move(steps), &next, was_uncertain);
  }
  // A lost part that comes late would write over the next change's.
  return !status.ok() && was_uncertain ? Fail(status) : status;
}

absl::Status EtcdRecordLog::Send(std::vector<Operation> steps, const LogHead* next,
                                 bool& was_uncertain) {
  Transaction transaction;
  const std::string value = next == nullptr ? "" : next->Encode();
  {
    absl::MutexLock lock(&mutex_);
    transaction.compares = {Compare::CreateRevision(keys_.owner(), owner_revision_),
                            Compare::ModRevision(keys_.head(), head_revision_)};
  }
  transaction.then = std::move(steps);
  if (next != nullptr) transaction.then.push_back(Operation::Put(keys_.head(), value));
  transaction.otherwise = {Operation::Read(KeyRange::Of(keys_.owner())),
                           Operation::Read(KeyRange::Of(keys_.head()))};
  const auto happened = [&](Revision revision) {
    if (next == nullptr) return;
    absl::MutexLock lock(&mutex_);
    head_ = *next;
    head_revision_ = revision;
  };
  bool is_uncertain = false;
  absl::Status last;
  for (int i = 0; i < kTries; ++i) {
    {
      absl::MutexLock lock(&mutex_);
      ++num_sent_;
    }
    const auto done = store_->Commit(transaction);
    if (!done.ok()) {
      last = done.status();
      if (OutcomeIsUnknown(last)) is_uncertain = was_uncertain = true;
      // This try was not done; an earlier one may have been.
      if (!is_uncertain) return last;
      continue;
    }
    if (done->succeeded) {
      happened(done->revision);
      return absl::OkStatus();
    }
    const KeyValue* const owner = OnlyOne(done->reads[0]);
    const KeyValue* const head = OnlyOne(done->reads[1]);
    const bool is_owner = owner != nullptr && owner->create_revision == owner_revision_;
    const bool has_happened = next != nullptr && head != nullptr && head->value == value;
    if (has_happened) happened(head->mod_revision);
    if (!is_owner) {
      const absl::Status fenced = Fail(NoLongerOwner(options_.job, owner));
      return has_happened ? absl::OkStatus() : fenced;
    }
    if (has_happened) return absl::OkStatus();
    return Fail(absl::UnavailableError(
        absl::StrCat("job ", Quoted(options_.job), ": somebody else wrote the head of its log: ",
                     head == nullptr ? "it is gone" : Quoted(head->value))));
  }
  return Fail(NotKnown(options_.job, last));
}

absl::Status EtcdRecordLog::Fail(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = std::move(why);
  return failure_;
}

absl::Status EtcdRecordLog::Release(std::vector<Operation> also) {
  Transaction release;
  release.compares = {Compare::CreateRevision(keys_.owner(), owner_revision_)};
  release.then = std::move(also);
  release.then.push_back(Operation::Delete(KeyRange::Of(keys_.owner())));
  (void)Fail(NoLongerOwner(options_.job, nullptr));
  {
    // What is under way ends first: it may still be acknowledged.
    absl::MutexLock lock(&mutex_);
    AwaitTurn();
  }
  PH_ASSIGN_OR_RETURN(const TransactionResult done, store_->Commit(release));
  return done.succeeded ? absl::OkStatus() : NoLongerOwner(options_.job, nullptr);
}

absl::Status EtcdRecordLog::Erase(uint64_t mark) {
  // First: whoever begins a job of this name reads it. Other jobs may raise it meanwhile, and an
  // unknown outcome is seen when it is read again.
  absl::Status last;
  for (int i = 0; i <= kTries; ++i) {
    PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, store_->Get(JobKeys::kMark));
    PH_ASSIGN_OR_RETURN(const uint64_t largest, MarkFrom(stored ? &*stored : nullptr));
    if (largest >= mark) {
      return Release(
          {Operation::Delete(KeyRange::Of(keys_.head())), Operation::Delete(keys_.EntriesFrom(0))});
    }
    last = store_
               ->Commit({{Compare::CreateRevision(keys_.owner(), owner_revision_),
                          Compare::ModRevision(JobKeys::kMark, stored ? stored->mod_revision : 0)},
                         {Operation::Put(JobKeys::kMark, absl::StrCat(mark))},
                         {}})
               .status();
    if (!last.ok() && !OutcomeIsUnknown(last)) return last;
  }
  return absl::UnavailableError(absl::StrCat("job ", Quoted(options_.job), ": after ", kTries,
                                             " tries the mark of erased logs is below ", mark,
                                             last.ok() ? "" : ": ", last.message()));
}

absl::Status EtcdRecordLog::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

uint64_t EtcdRecordLog::num_records() const {
  absl::MutexLock lock(&mutex_);
  return head_.num_records;
}

uint64_t EtcdRecordLog::num_bytes() const {
  absl::MutexLock lock(&mutex_);
  return head_.num_bytes;
}

size_t EtcdRecordLog::num_waiting() const {
  absl::MutexLock lock(&mutex_);
  return queue_.size() - num_under_way_;
}

uint64_t EtcdRecordLog::num_sent() const {
  absl::MutexLock lock(&mutex_);
  return num_sent_;
}

}  // namespace packhouse
