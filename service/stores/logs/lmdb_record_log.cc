#include "service/stores/logs/lmdb_record_log.h"

#include <algorithm>
#include <cerrno>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {
namespace {

using Kind = LmdbTransaction::Kind;

uint64_t MapBytes(uint64_t max_bytes) {
  constexpr uint64_t kRoom = uint64_t{256} << 20;
  constexpr uint64_t kMost = uint64_t{1} << 46;  // Of 47 bits of address space.
  return (4 * std::min(max_bytes, kMost / 8) + kRoom) / kRoom * kRoom;
}

absl::Status Lost(absl::string_view folder, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("store '", folder, "': ", what));
}

// The sequence number of the first record.
absl::StatusOr<uint64_t> ReadBegin(const LmdbTransaction& transaction, absl::string_view folder) {
  const auto payload = transaction.Get(LogBeginKey());
  if (!payload.ok()) return Lost(folder, payload.status().message());
  if (!*payload) return Lost(folder, "it does not say at which record it begins");
  auto begin = DecodeNumber(**payload);
  if (!begin.ok()) return Lost(folder, begin.status().message());
  return begin;
}

// Visits all records, whose sequence numbers have no gap; returns the one of the next record.
absl::StatusOr<uint64_t> ForEachRecord(
    const LmdbTransaction& transaction, absl::string_view folder,
    absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view raw_value)> visit) {
  PH_ASSIGN_OR_RETURN(uint64_t sequence, ReadBegin(transaction, folder));
  // Checks all keys, since a damaged one may be anywhere.
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, absl::string_view("\0", 1)));
  for (; cursor.valid();) {
    const absl::string_view key = cursor.key();
    if (key == LogRecordKey(sequence)) {
      if (const absl::Status status = visit(key, cursor.raw_value()); !status.ok()) {
        return Lost(folder, absl::StrCat("record ", sequence, ": ", status.message()));
      }
      ++sequence;
    } else if (key != LogBeginKey() && key != LogFormatKey()) {
      return Lost(folder, absl::StrCat("record ", sequence, " is missing, there is '",
                                       absl::CHexEscape(key), "'"));
    }
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  return sequence;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LmdbRecordLog>> LmdbRecordLog::Open(const Options& options) {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<LmdbEnvironment> environment,
                      LmdbEnvironment::Open(options.folder, MapBytes(options.max_bytes)));
  auto log = std::unique_ptr<LmdbRecordLog>(new LmdbRecordLog(std::move(environment), options));
  PH_RETURN_IF_ERROR(log->Load());
  if (options.observer != nullptr) options.observer->OnStoreBytes(log->num_bytes());
  return log;
}

absl::Status LmdbRecordLog::Load() {
  PH_ASSIGN_OR_RETURN(const bool has_format,
                      CheckFormat(*environment_, LogFormatKey(), kLogFormatVersion));
  StoreTotals totals;
  if (!has_format) {
    if (environment_->is_read_only()) return environment_->StatusOf(EROFS, "cannot create it");
    const auto begin = [&](LmdbTransaction& transaction, StoreTotals&) -> absl::Status {
      PH_RETURN_IF_ERROR(TouchFormat(transaction, LogFormatKey(), kLogFormatVersion));
      return transaction.Put(LogBeginKey(), EncodeNumber(totals.next_number));
    };
    PH_RETURN_IF_ERROR(commits_.Run(begin, 2 * kBytesPerRecord));
  } else {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                        LmdbTransaction::Begin(*environment_, Kind::kRead));
    const auto count = [&](absl::string_view, absl::string_view raw_value) {
      ++totals.num_entries;
      totals.num_bytes += BytesOf(raw_value.size());
      return absl::OkStatus();
    };
    PH_ASSIGN_OR_RETURN(totals.next_number,
                        ForEachRecord(transaction, environment_->folder(), count));
  }
  commits_.SetTotals(totals);
  PH_ASSIGN_OR_RETURN(const auto format, ReadFormat(*environment_, LogFormatKey()));
  identity_ = format ? format->identity : 0;
  return absl::OkStatus();
}

absl::Status LmdbRecordLog::Append(absl::Span<const std::string> records) {
  if (records.empty()) return health();
  PH_ASSIGN_OR_RETURN(const uint64_t num_bytes, BytesOf(records));
  const auto append = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_RETURN_IF_ERROR(CheckRoom(totals.num_bytes, num_bytes));
    for (const std::string& record : records) {
      PH_RETURN_IF_ERROR(transaction.Put(LogRecordKey(totals.next_number++), record));
    }
    totals.num_entries += records.size();
    totals.num_bytes += num_bytes;
    return absl::OkStatus();
  };
  return commits_.Run(append, num_bytes);
}

absl::Status LmdbRecordLog::TryCommit(uint64_t bytes) {
  PH_RETURN_IF_ERROR(environment_->CheckRoom(bytes));
  return commits_.Run(
      [](LmdbTransaction& transaction, StoreTotals&) {
        return TouchFormat(transaction, LogFormatKey(), kLogFormatVersion);
      },
      kBytesPerRecord);
}

absl::StatusOr<std::vector<std::string>> LmdbRecordLog::ReadAll() {
  PH_RETURN_IF_ERROR(commits_.failure());
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                      LmdbTransaction::Begin(*environment_, Kind::kRead));
  std::vector<std::string> records;
  const auto read = [&](absl::string_view key, absl::string_view raw_value) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const absl::string_view record, CheckedPayload(key, raw_value));
    records.emplace_back(record);
    return absl::OkStatus();
  };
  const auto end = ForEachRecord(transaction, environment_->folder(), read);
  PH_RETURN_IF_ERROR(environment_->CheckFiles());
  PH_RETURN_IF_ERROR(end.status());
  return records;
}

absl::StatusOr<LmdbTransaction> LmdbRecordLog::BeginReading() const {
  PH_RETURN_IF_ERROR(commits_.failure());
  return LmdbTransaction::Begin(*environment_, Kind::kRead);
}

absl::Status LmdbRecordLog::ForEach(
    const LmdbTransaction& moment,
    absl::FunctionRef<absl::Status(absl::string_view record)> visit) const {
  // An error of `visit` is not the log's.
  absl::Status stopped;
  const auto read = [&](absl::string_view key, absl::string_view raw_value) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const absl::string_view record, CheckedPayload(key, raw_value));
    stopped = visit(record);
    return stopped;
  };
  const auto end = ForEachRecord(moment, environment_->folder(), read);
  PH_RETURN_IF_ERROR(stopped);
  PH_RETURN_IF_ERROR(environment_->CheckFiles());
  return end.status();
}

absl::Status LmdbRecordLog::health() const {
  PH_RETURN_IF_ERROR(commits_.failure());
  return environment_->CheckFiles();
}

absl::Status LmdbRecordLog::Replace(absl::Span<const std::string> records) {
  PH_ASSIGN_OR_RETURN(const uint64_t num_bytes, BytesOf(records));
  const auto replace = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_RETURN_IF_ERROR(CheckRoom(0, num_bytes));
    const uint64_t begin = totals.next_number;
    for (uint64_t sequence = begin - totals.num_entries; sequence != begin; ++sequence) {
      PH_RETURN_IF_ERROR(transaction.Erase(LogRecordKey(sequence)));
    }
    PH_RETURN_IF_ERROR(transaction.Put(LogBeginKey(), EncodeNumber(begin)));
    for (const std::string& record : records) {
      PH_RETURN_IF_ERROR(transaction.Put(LogRecordKey(totals.next_number++), record));
    }
    totals.num_entries = records.size();
    totals.num_bytes = num_bytes;
    return absl::OkStatus();
  };
  return commits_.Run(replace, num_bytes);
}

uint64_t LmdbRecordLog::BytesOf(uint64_t value_bytes) const {
  return kBytesPerRecord + (value_bytes < environment_->MinBytesOfOwnPages()
                                ? value_bytes
                                : environment_->BytesOnDisk(value_bytes));
}

absl::StatusOr<uint64_t> LmdbRecordLog::BytesOf(absl::Span<const std::string> records) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].size() > kMaxRecordBytes) {
      return absl::InvalidArgumentError(absl::StrCat("store '", environment_->folder(),
                                                     "': record ", i, " has ", records[i].size(),
                                                     " bytes, at most ", kMaxRecordBytes));
    }
    bytes += BytesOf(records[i].size() + kChecksumBytes);
  }
  return bytes;
}

absl::Status LmdbRecordLog::CheckRoom(uint64_t used, uint64_t added) const {
  if (added <= options_.max_bytes && used <= options_.max_bytes - added) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("store '", environment_->folder(), "': ", used,
                                                   " + ", added, " bytes of records, at most ",
                                                   options_.max_bytes));
}

}  // namespace packhouse
