#include "service/wings/cluster/jobs/etcd_record_log.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kLengthBytes = 4;
// Of somebody else's log, where the revision is compacted before the last page is read.
constexpr int kReadings = 10;

const KeyValue* OnlyOne(const RangeResult& read) {
  return read.values.empty() ? nullptr : &read.values.front();
}

absl::StatusOr<EtcdRecordLog::Owner> OwnerFrom(const KeyValue& value) {
  PH_ASSIGN_OR_RETURN(const OwnerValue owner, OwnerValue::Decode(value.value));
  return EtcdRecordLog::Owner{owner.address, value.create_revision, value.lease};
}

std::string NamedJob(absl::string_view job) { return absl::StrCat("job ", Quoted(job)); }

// Why an owner whose key is `now`, null: gone, is no longer it.
absl::Status NoLongerOwner(const std::string& job, const KeyValue* now) {
  if (now == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(NamedJob(job), ": this server's ownership has ended"));
  }
  const auto owner = OwnerFrom(*now);
  return absl::UnavailableError(absl::StrCat(NamedJob(job), ": ",
                                             owner.ok() ? owner->address : "another server",
                                             " owns it since revision ", now->create_revision));
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

// Its writer is the owner whose key has this create_revision.
SharedLog LogOf(KeyStore* store, absl::string_view job, Revision owner = 0,
                uint64_t max_bytes = 0) {
  const JobKeys keys(job);
  return SharedLog(store, {.name = NamedJob(job),
                           .keys = keys.log(),
                           .fence = Compare::CreateRevision(keys.owner(), owner),
                           .max_bytes = max_bytes});
}

// The contents of a write are its records, each after its number of bytes (4 bytes, little-endian).
void AddFramed(absl::string_view record, std::string& contents) {
  for (size_t i = 0; i < kLengthBytes; ++i) {
    contents.push_back(static_cast<char>(record.size() >> (8 * i)));
  }
  contents.append(record.data(), record.size());
}

absl::Status AddRecords(absl::string_view job, absl::string_view contents,
                        std::vector<std::string>& records) {
  while (!contents.empty()) {
    size_t bytes = 0;
    for (size_t i = 0; i < std::min(kLengthBytes, contents.size()); ++i) {
      bytes |= size_t{static_cast<unsigned char>(contents[i])} << (8 * i);
    }
    if (contents.size() < kLengthBytes + bytes) {
      return absl::DataLossError(absl::StrCat(NamedJob(job), ": a record of its log is cut off"));
    }
    records.emplace_back(contents.substr(kLengthBytes, bytes));
    contents.remove_prefix(kLengthBytes + bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RecordsOf(absl::string_view job, const SharedLog& log,
                                                   const SharedLogHead& head, Revision as_of) {
  std::vector<std::string> records;
  PH_RETURN_IF_ERROR(log.Read(head, head.begin, as_of, [&](const SharedLog::Written& written) {
    return AddRecords(job, written.contents, records);
  }));
  return records;
}

}  // namespace

absl::StatusOr<EtcdRecordLog::Acquired> EtcdRecordLog::Acquire(KeyValueStore* store,
                                                               const Options& options) {
  const JobKeys keys(options.job);
  const std::string value = OwnerValue{options.address, options.attempt}.Encode();
  Transaction acquire;
  acquire.compares = {Compare::Absent(keys.owner())};
  acquire.otherwise = {Operation::Read(KeyRange::Of(keys.owner())),
                       Operation::Read(KeyRange::Of(keys.log().head)),
                       Operation::Read(KeyRange::Of(JobKeys::kMark))};
  acquire.then = acquire.otherwise;
  acquire.then.push_back(Operation::Put(keys.owner(), value, options.lease));
  absl::Status last;
  for (int i = 0; i < SharedLog::kTries; ++i) {
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
          NamedJob(options.job), ": the store says that there is an owner, and that not"));
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
    SharedLogHead head;
    if (const KeyValue* const stored = OnlyOne(done->reads[1]); stored != nullptr) {
      auto decoded = SharedLogHead::Decode(*stored);
      if (!decoded.ok()) {
        return absl::Status(decoded.status().code(),
                            absl::StrCat(NamedJob(options.job), ": ", decoded.status().message()));
      }
      head = *std::move(decoded);
    }
    PH_ASSIGN_OR_RETURN(const uint64_t mark, MarkFrom(OnlyOne(done->reads[2])));
    return Acquired{absl::WrapUnique(new EtcdRecordLog(
                        store, options, done->succeeded ? done->revision : owner->create_revision,
                        std::move(head), mark)),
                    std::nullopt};
  }
  return absl::UnavailableError(
      absl::StrCat(NamedJob(options.job), ": after ", SharedLog::kTries,
                   " tries it is not known who owns it: ", last.message()));
}

absl::StatusOr<std::optional<EtcdRecordLog::Owner>> EtcdRecordLog::OwnerOf(KeyValueStore& store,
                                                                           absl::string_view job) {
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> value, store.Get(JobKeys(job).owner()));
  if (!value) return std::nullopt;
  PH_ASSIGN_OR_RETURN(Owner owner, OwnerFrom(*value));
  return owner;
}

EtcdRecordLog::EtcdRecordLog(KeyValueStore* store, const Options& options, Revision owner_revision,
                             SharedLogHead head, uint64_t mark)
    : store_(store),
      job_(options.job),
      keys_(options.job),
      owner_revision_(owner_revision),
      log_(LogOf(store, options.job, owner_revision, options.max_bytes)),
      mark_(mark),
      head_(std::move(head)) {}

absl::StatusOr<std::vector<std::string>> EtcdRecordLog::Read(KeyValueStore& store,
                                                             const std::string& job) {
  const SharedLog log = LogOf(&store, job);
  absl::Status compacted;
  for (int i = 0; i < kReadings; ++i) {
    PH_ASSIGN_OR_RETURN(const SharedLogHead head, log.Head());
    // Its owner may append meanwhile.
    auto records = RecordsOf(job, log, head, head.as_of);
    if (!absl::IsOutOfRange(records.status())) return records;
    compacted = records.status();
  }
  return absl::UnavailableError(
      absl::StrCat(NamedJob(job), ": its log was read ", kReadings,
                   " times, and dropped from the store's history before it was read whole: ",
                   compacted.message()));
}

absl::StatusOr<std::vector<std::string>> EtcdRecordLog::ReadAll() {
  absl::MutexLock working(&working_);
  PH_RETURN_IF_ERROR(failure());
  auto records = RecordsOf(job_, log_, head_, 0);
  if (absl::IsAborted(records.status())) return FailForOthers();
  return records;
}

absl::Status EtcdRecordLog::Append(absl::Span<const std::string> records) {
  return records.empty() ? failure() : Write(records, /*replaces=*/false);
}

absl::Status EtcdRecordLog::Replace(absl::Span<const std::string> records) {
  return Write(records, /*replaces=*/true);
}

absl::Status EtcdRecordLog::Write(absl::Span<const std::string> records, bool replaces) {
  std::string contents;
  for (const std::string& record : records) {
    if (record.size() > kMaxRecordBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          NamedJob(job_), ": a record of ", record.size(), " bytes, at most ", kMaxRecordBytes));
    }
    AddFramed(record, contents);
  }
  absl::MutexLock working(&working_);
  PH_RETURN_IF_ERROR(failure());
  absl::Status status;
  if (RunWithinMemory([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(working_) {
        status = log_.Write({.name = absl::StrCat(absl::Hex(owner_revision_), "-", ++serial_),
                             .contents = contents,
                             .replaces = replaces},
                            head_);
        if (absl::IsAborted(status)) status = FailForOthers();
        if (OutcomeIsUnknown(status)) status = Fail(absl::UnavailableError(status.message()));
      })) {
    return status;
  }
  // The transaction may be under way.
  return Fail(absl::UnavailableError("no memory for the ledger"));
}

absl::Status EtcdRecordLog::FailForOthers() {
  const auto owner = store_->Get(keys_.owner());
  if (owner.ok() && *owner && (*owner)->create_revision == owner_revision_) {
    return Fail(absl::UnavailableError(
        absl::StrCat(NamedJob(job_), ": somebody else wrote the head of its log")));
  }
  return Fail(NoLongerOwner(job_, owner.ok() && *owner ? &**owner : nullptr));
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
  (void)Fail(NoLongerOwner(job_, nullptr));
  // What is under way ends first: it may still be acknowledged.
  absl::MutexLock working(&working_);
  PH_ASSIGN_OR_RETURN(const TransactionResult done, store_->Commit(release));
  return done.succeeded ? absl::OkStatus() : NoLongerOwner(job_, nullptr);
}

absl::Status EtcdRecordLog::Erase(uint64_t mark) {
  // First: whoever begins a job of this name reads it. Other jobs may raise it meanwhile, and an
  // unknown outcome is seen when it is read again.
  absl::Status last;
  for (int i = 0; i <= SharedLog::kTries; ++i) {
    PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, store_->Get(JobKeys::kMark));
    PH_ASSIGN_OR_RETURN(const uint64_t largest, MarkFrom(stored ? &*stored : nullptr));
    if (largest >= mark) return Release(log_.Erasure());
    last = store_
               ->Commit({{Compare::CreateRevision(keys_.owner(), owner_revision_),
                          Compare::ModRevision(JobKeys::kMark, stored ? stored->mod_revision : 0)},
                         {Operation::Put(JobKeys::kMark, absl::StrCat(mark))},
                         {}})
               .status();
    if (!last.ok() && !OutcomeIsUnknown(last)) return last;
  }
  return absl::UnavailableError(absl::StrCat(NamedJob(job_), ": after ", SharedLog::kTries,
                                             " tries the mark of erased logs is below ", mark,
                                             last.ok() ? "" : ": ", last.message()));
}

absl::Status EtcdRecordLog::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace packhouse
