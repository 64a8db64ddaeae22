#include "service/stores/logs/lmdb_job_logs.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"
#include "service/stores/logs/logged_keys.h"

namespace packhouse {
namespace {

using Kind = LmdbTransaction::Kind;

constexpr size_t kNumberBytes = sizeof(uint64_t);

uint64_t MapBytes(uint64_t max_bytes) {
  constexpr uint64_t kRoom = uint64_t{256} << 20;
  constexpr uint64_t kMost = uint64_t{1} << 46;  // Of 47 bits of address space.
  return (4 * std::min(max_bytes, kMost / 8) + kRoom) / kRoom * kRoom;
}

absl::Status Lost(absl::string_view folder, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("store '", folder, "': ", what));
}

// Of what was read. What cannot be read now is not lost.
absl::Status IfLost(absl::string_view folder, const absl::Status& read) {
  return absl::IsDataLoss(read) ? Lost(folder, read.message()) : read;
}

absl::Status LostOf(absl::string_view folder, absl::string_view job, uint64_t sequence,
                    absl::string_view what) {
  return Lost(folder, absl::StrCat("job ", Quoted(job), ": record ", sequence, ": ", what));
}

// The numbers of a value that has `count` of them.
absl::StatusOr<std::vector<uint64_t>> DecodeNumbers(absl::string_view payload, size_t count) {
  if (payload.size() != count * kNumberBytes) {
    return absl::DataLossError(
        absl::StrCat(payload.size(), " bytes in place of ", count, " numbers"));
  }
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < count; ++i) {
    PH_ASSIGN_OR_RETURN(const uint64_t number,
                        DecodeNumber(payload.substr(i * kNumberBytes, kNumberBytes)));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<std::optional<LmdbLogHead>> ReadHead(const LmdbTransaction& transaction,
                                                    absl::string_view job) {
  PH_ASSIGN_OR_RETURN(const auto payload, transaction.Get(NameKey(job)));
  if (!payload) return std::nullopt;
  return LmdbLogHead::Decode(*payload);
}

absl::StatusOr<LmdbLogsTail> ReadTail(const LmdbTransaction& transaction) {
  PH_ASSIGN_OR_RETURN(const auto payload, transaction.Get(LogTailKey()));
  if (!payload) return absl::DataLossError("it does not say which log is the next");
  return LmdbLogsTail::Decode(*payload);
}

// That of a job that may have no log yet.
absl::StatusOr<LmdbLogHead> ReadOrMakeHead(LmdbTransaction& transaction, absl::string_view job) {
  PH_ASSIGN_OR_RETURN(const auto found, ReadHead(transaction, job));
  if (found) return *found;
  PH_ASSIGN_OR_RETURN(LmdbLogsTail tail, ReadTail(transaction));
  LmdbLogHead head;
  head.number = tail.next_number++;
  PH_RETURN_IF_ERROR(transaction.Put(LogTailKey(), tail.Encode()));
  return head;
}

absl::Status EraseRecords(LmdbTransaction& transaction, const LmdbLogHead& head) {
  for (uint64_t sequence = head.begin; sequence != head.end; ++sequence) {
    PH_RETURN_IF_ERROR(transaction.Erase(RecordKey(head.number, sequence)));
  }
  return absl::OkStatus();
}

absl::Status PutRecords(LmdbTransaction& transaction, absl::string_view job, LmdbLogHead& head,
                        absl::Span<const std::string> records) {
  for (const std::string& record : records) {
    PH_RETURN_IF_ERROR(transaction.Put(RecordKey(head.number, head.end++), record));
  }
  return transaction.Put(NameKey(job), head.Encode());
}

// A record as it is stored, and whose it is.
struct StoredRecord {
  absl::string_view job;
  uint64_t sequence;
  absl::string_view key;
  absl::string_view raw_value;
};

// Visits all records, log by log, whose sequence numbers have no gap. Checks all keys, since a
// damaged one may be anywhere. LMDB orders the heads before the records.
absl::Status ForEachRecord(const LmdbTransaction& transaction, absl::string_view folder,
                           absl::FunctionRef<absl::Status(const StoredRecord&)> visit) {
  struct Log {
    std::string job;
    LmdbLogHead head;
    uint64_t next;
  };
  std::map<uint64_t, Log> logs;
  const auto missing = [&](const Log& log, absl::string_view found) {
    return Lost(folder, absl::StrCat("job ", Quoted(log.job), ": record ", log.next,
                                     " is missing, there is ", found));
  };
  const auto not_ended = [&]() -> const Log* {
    for (const auto& [number, log] : logs) {
      if (log.next != log.head.end) return &log;
    }
    return nullptr;
  };
  if (const auto tail = ReadTail(transaction); !tail.ok()) {
    return IfLost(folder, tail.status());
  }
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, absl::string_view("\0", 1)));
  for (; cursor.valid();) {
    const absl::string_view key = cursor.key();
    const auto number = NumberBeforeEnd(key);
    const auto sequence = NumberAtEnd(key);
    if (absl::StartsWith(key, kNamePrefix)) {
      const std::string job(key.substr(kNamePrefix.size()));
      const auto payload = CheckedPayload(key, cursor.raw_value());
      const auto head = payload.ok() ? LmdbLogHead::Decode(*payload) : payload.status();
      if (!head.ok()) {
        return Lost(folder, absl::StrCat("the head of the log of job ", Quoted(job), ": ",
                                         head.status().message()));
      }
      if (!logs.try_emplace(head->number, Log{job, *head, head->begin}).second) {
        return Lost(folder, absl::StrCat("job ", Quoted(job), ": its log is that of another job"));
      }
    } else if (absl::StartsWith(key, kRecordPrefix) && number && logs.contains(*number)) {
      Log& log = logs.at(*number);
      if (*sequence != log.next || log.next == log.head.end) {
        return missing(log, absl::StrCat("'", absl::CHexEscape(key), "'"));
      }
      if (const absl::Status status = visit({log.job, log.next, key, cursor.raw_value()});
          !status.ok()) {
        return LostOf(folder, log.job, log.next, status.message());
      }
      ++log.next;
    } else if (key != LogTailKey() && key != LogFormatKey()) {
      const Log* const log = not_ended();
      const std::string found = absl::StrCat("'", absl::CHexEscape(key), "'");
      return log != nullptr ? missing(*log, found)
                            : Lost(folder, absl::StrCat(found, " is of no log"));
    }
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  if (const Log* const log = not_ended()) return missing(*log, "nothing more of it");
  return absl::OkStatus();
}

}  // namespace

std::string LmdbLogHead::Encode() const {
  return absl::StrCat(EncodeNumber(number), EncodeNumber(begin), EncodeNumber(end),
                      EncodeNumber(num_bytes));
}

absl::StatusOr<LmdbLogHead> LmdbLogHead::Decode(absl::string_view payload) {
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, DecodeNumbers(payload, 4));
  const LmdbLogHead head = {numbers[0], numbers[1], numbers[2], numbers[3]};
  if (head.begin <= head.end) return head;
  return absl::DataLossError(
      absl::StrCat("begins at record ", head.begin, ", behind its end at ", head.end));
}

std::string LmdbLogsTail::Encode() const {
  return absl::StrCat(EncodeNumber(next_number), EncodeNumber(mark));
}

absl::StatusOr<LmdbLogsTail> LmdbLogsTail::Decode(absl::string_view payload) {
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers, DecodeNumbers(payload, 2));
  return LmdbLogsTail{numbers[0], numbers[1]};
}

class LmdbJobLogs::Log final : public RecordLog {
 public:
  Log(LmdbJobLogs* logs, std::string job, uint64_t revision)
      : logs_(logs), job_(std::move(job)), revision_(revision) {}

  absl::Status Append(absl::Span<const std::string> records) override {
    return logs_->Append(job_, records);
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return logs_->Read(job_); }
  absl::Status Replace(absl::Span<const std::string> records) override {
    return logs_->Replace(job_, records);
  }
  uint64_t owner_revision() const override { return revision_; }
  absl::Status Erase(uint64_t mark) override { return logs_->Erase(job_, mark); }
  absl::StatusOr<uint64_t> mark() const override {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, logs_->BeginReading());
    return logs_->MarkAt(transaction);
  }

 private:
  LmdbJobLogs* const logs_;
  const std::string job_;
  const uint64_t revision_;
};

absl::StatusOr<std::unique_ptr<LmdbJobLogs>> LmdbJobLogs::Open(const Options& options) {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<LmdbEnvironment> environment,
                      LmdbEnvironment::Open(options.folder, MapBytes(options.max_bytes)));
  auto logs = std::unique_ptr<LmdbJobLogs>(new LmdbJobLogs(std::move(environment), options));
  PH_RETURN_IF_ERROR(logs->Load());
  if (options.observer != nullptr) options.observer->OnStoreBytes(logs->num_bytes());
  return logs;
}

absl::Status LmdbJobLogs::Load() {
  PH_ASSIGN_OR_RETURN(const bool has_format,
                      CheckFormat(*environment_, LogFormatKey(), kLogFormatVersion));
  StoreTotals totals;
  if (!has_format) {
    if (environment_->is_read_only()) return environment_->StatusOf(EROFS, "cannot create it");
    const auto begin = [&](LmdbTransaction& transaction, StoreTotals&) -> absl::Status {
      PH_RETURN_IF_ERROR(TouchFormat(transaction, LogFormatKey(), kLogFormatVersion));
      return transaction.Put(LogTailKey(), LmdbLogsTail().Encode());
    };
    PH_RETURN_IF_ERROR(commits_.Run(begin, 2 * kBytesPerRecord));
  } else {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                        LmdbTransaction::Begin(*environment_, Kind::kRead));
    const auto count = [&](const StoredRecord& record) {
      ++totals.num_entries;
      totals.num_bytes += BytesOf(*environment_, record.raw_value.size());
      return absl::OkStatus();
    };
    PH_RETURN_IF_ERROR(ForEachRecord(transaction, environment_->folder(), count));
  }
  commits_.SetTotals(totals);
  PH_ASSIGN_OR_RETURN(const auto format, ReadFormat(*environment_, LogFormatKey()));
  identity_ = format ? format->identity : 0;
  return absl::OkStatus();
}

absl::StatusOr<JobPlace> LmdbJobLogs::Open(const std::string& job) {
  JobPlace place;
  place.log = std::make_unique<Log>(this, job, next_revision_++);
  return place;
}

absl::StatusOr<std::vector<std::string>> LmdbJobLogs::Names() {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, BeginReading());
  std::vector<std::string> names;
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, kNamePrefix));
  while (cursor.valid() && absl::StartsWith(cursor.key(), kNamePrefix)) {
    const absl::string_view name = cursor.key().substr(kNamePrefix.size());
    if (name != kKeysLog) names.emplace_back(name);
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  return names;
}

absl::Status LmdbJobLogs::Append(const std::string& job, absl::Span<const std::string> records) {
  if (records.empty()) return health();
  PH_ASSIGN_OR_RETURN(const uint64_t num_bytes, BytesOf(records));
  const auto append = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_RETURN_IF_ERROR(CheckRoom(totals.num_bytes, num_bytes));
    PH_ASSIGN_OR_RETURN(LmdbLogHead head, ReadOrMakeHead(transaction, job));
    head.num_bytes += num_bytes;
    PH_RETURN_IF_ERROR(PutRecords(transaction, job, head, records));
    totals.num_entries += records.size();
    totals.num_bytes += num_bytes;
    return absl::OkStatus();
  };
  return commits_.Run(append, num_bytes);
}

absl::Status LmdbJobLogs::Replace(const std::string& job, absl::Span<const std::string> records) {
  PH_ASSIGN_OR_RETURN(const uint64_t num_bytes, BytesOf(records));
  const auto replace = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_ASSIGN_OR_RETURN(LmdbLogHead head, ReadOrMakeHead(transaction, job));
    PH_RETURN_IF_ERROR(CheckRoom(totals.num_bytes - head.num_bytes, num_bytes));
    PH_RETURN_IF_ERROR(EraseRecords(transaction, head));
    totals.num_entries += records.size() - (head.end - head.begin);
    totals.num_bytes += num_bytes - head.num_bytes;
    head.begin = head.end;
    head.num_bytes = num_bytes;
    return PutRecords(transaction, job, head, records);
  };
  return commits_.Run(replace, num_bytes);
}

absl::Status LmdbJobLogs::Erase(const std::string& job, uint64_t mark) {
  const auto erase = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_ASSIGN_OR_RETURN(LmdbLogsTail tail, ReadTail(transaction));
    tail.mark = std::max(tail.mark, mark);
    PH_ASSIGN_OR_RETURN(const auto head, ReadHead(transaction, job));
    if (head) {
      PH_RETURN_IF_ERROR(EraseRecords(transaction, *head));
      PH_RETURN_IF_ERROR(transaction.Erase(NameKey(job)));
      totals.num_entries -= head->end - head->begin;
      totals.num_bytes -= head->num_bytes;
    }
    return transaction.Put(LogTailKey(), tail.Encode());
  };
  return commits_.Run(erase, kBytesPerRecord);
}

absl::Status LmdbJobLogs::TryCommit(uint64_t bytes) {
  PH_RETURN_IF_ERROR(environment_->CheckRoom(bytes));
  return commits_.Run(
      [](LmdbTransaction& transaction, StoreTotals&) {
        return TouchFormat(transaction, LogFormatKey(), kLogFormatVersion);
      },
      kBytesPerRecord);
}

absl::StatusOr<std::vector<std::string>> LmdbJobLogs::Read(const std::string& job) {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, BeginReading());
  std::vector<std::string> records;
  const auto read = [&]() -> absl::Status {
    const auto found = ReadHead(transaction, job);
    if (!found.ok()) return IfLost(environment_->folder(), found.status());
    if (!*found) return absl::OkStatus();
    const LmdbLogHead& head = **found;
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor,
                        LmdbCursor::At(transaction, RecordKey(head.number, head.begin)));
    for (uint64_t sequence = head.begin; sequence != head.end; ++sequence) {
      const std::string key = RecordKey(head.number, sequence);
      if (!cursor.valid() || cursor.key() != key) {
        return LostOf(environment_->folder(), job, sequence, "is missing");
      }
      const auto record = CheckedPayload(key, cursor.raw_value());
      if (!record.ok()) {
        return LostOf(environment_->folder(), job, sequence, record.status().message());
      }
      records.emplace_back(*record);
      PH_RETURN_IF_ERROR(cursor.Next());
    }
    return absl::OkStatus();
  };
  const absl::Status status = read();
  PH_RETURN_IF_ERROR(environment_->CheckFiles());
  PH_RETURN_IF_ERROR(status);
  return records;
}

absl::StatusOr<LmdbTransaction> LmdbJobLogs::BeginReading() const {
  PH_RETURN_IF_ERROR(commits_.failure());
  return LmdbTransaction::Begin(*environment_, Kind::kRead);
}

absl::Status LmdbJobLogs::ForEach(
    const LmdbTransaction& moment,
    absl::FunctionRef<absl::Status(absl::string_view job, absl::string_view record)> visit) const {
  // An error of `visit` is not the logs'.
  absl::Status stopped;
  const auto read = [&](const StoredRecord& stored) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const absl::string_view record,
                        CheckedPayload(stored.key, stored.raw_value));
    stopped = visit(stored.job, record);
    return stopped;
  };
  const absl::Status end = ForEachRecord(moment, environment_->folder(), read);
  PH_RETURN_IF_ERROR(stopped);
  PH_RETURN_IF_ERROR(environment_->CheckFiles());
  return end;
}

absl::StatusOr<uint64_t> LmdbJobLogs::MarkAt(const LmdbTransaction& moment) const {
  const auto tail = ReadTail(moment);
  if (!tail.ok()) return IfLost(environment_->folder(), tail.status());
  return tail->mark;
}

absl::Status LmdbJobLogs::health() const {
  PH_RETURN_IF_ERROR(commits_.failure());
  return environment_->CheckFiles();
}

uint64_t LmdbJobLogs::BytesOf(const LmdbEnvironment& environment, uint64_t value_bytes) {
  return kBytesPerRecord + (value_bytes < environment.MinBytesOfOwnPages()
                                ? value_bytes
                                : environment.BytesOnDisk(value_bytes));
}

absl::StatusOr<uint64_t> LmdbJobLogs::BytesOf(absl::Span<const std::string> records) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].size() > kMaxRecordBytes) {
      return absl::InvalidArgumentError(absl::StrCat("store '", environment_->folder(),
                                                     "': record ", i, " has ", records[i].size(),
                                                     " bytes, at most ", kMaxRecordBytes));
    }
    bytes += BytesOf(*environment_, records[i].size() + kChecksumBytes);
  }
  return bytes;
}

absl::Status LmdbJobLogs::CheckRoom(uint64_t used, uint64_t added) const {
  if (added <= options_.max_bytes && used <= options_.max_bytes - added) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("store '", environment_->folder(), "': ", used,
                                                   " + ", added, " bytes of records, at most ",
                                                   options_.max_bytes));
}

}  // namespace packhouse
