#include "service/program/data_folder/lmdb_log_repair.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_folder.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"
#include "service/stores/logs/logged_keys.h"

namespace packhouse {
namespace {

// Room for logs of the default bound and for their successors (LmdbJobLogs::Options::max_bytes).
constexpr uint64_t kLogMapBytes = uint64_t{5} << 30;

absl::Status LostRecord(absl::string_view why) { return absl::DataLossError(why); }

struct RawLog {
  std::string job;
  std::optional<LmdbLogHead> head;          // Not of a log whose head is lost.
  std::map<uint64_t, std::string> records;  // By sequence number, with their checksums.
};

struct RawLogs {
  std::map<uint64_t, RawLog> logs;  // By number.
  std::vector<std::pair<std::string, std::string>> strays;
  FoundLogs found;
};

// The value under a key, mended if need be; nullopt if it cannot be.
std::optional<std::string> PayloadOf(absl::string_view key, absl::string_view raw) {
  std::string value(raw);
  if (!CheckedPayload(key, value).ok() && !MendOneBit(key, value)) return std::nullopt;
  return std::string(*CheckedPayload(key, value));
}

void ReadHead(absl::string_view key, absl::string_view raw, RawLogs& logs) {
  const std::string job(key.substr(kNamePrefix.size()));
  const auto payload = PayloadOf(key, raw);
  const auto head = payload ? LmdbLogHead::Decode(*payload) : absl::DataLossError("");
  if (!CheckedPayload(key, raw).ok() || !head.ok()) {
    logs.found.disorder.push_back(
        absl::StrCat("the head of the log of job ", Quoted(job), " is damaged"));
  }
  if (head.ok() && !logs.logs.contains(head->number)) logs.logs[head->number] = {job, *head, {}};
}

// Raw records by the log's number and their own.
using RecordsByLog = std::map<uint64_t, std::map<uint64_t, std::string>>;

// Of logs that have no head.
void AddHeadless(RecordsByLog& headless, RawLogs& logs) {
  for (auto& [number, records] : headless) {
    // A record of a key that is right says that there is such a log, and whose it is.
    std::string job;
    for (const auto& [sequence, raw] : records) {
      const auto payload = CheckedPayload(RecordKey(number, sequence), raw);
      if (!payload.ok() || !job.empty()) continue;
      job = JobOfEvent(*payload);
      if (job.empty() && LoggedKeys::CheckRecord(*payload).ok()) job = kKeysLog;
    }
    if (!job.empty()) {
      logs.found.disorder.push_back(absl::StrCat("the log of job ", Quoted(job), " has no head"));
      logs.logs[number] = {std::move(job), std::nullopt, std::move(records)};
      continue;
    }
    for (auto& [sequence, raw] : records) {
      logs.strays.emplace_back(RecordKey(number, sequence), std::move(raw));
    }
  }
}

absl::StatusOr<RawLogs> ReadRaw(const LmdbEnvironment& environment) {
  RawLogs logs;
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                      LmdbTransaction::Begin(environment, LmdbTransaction::Kind::kRead));
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, absl::string_view("\0", 1)));
  bool has_format = false;
  bool has_tail = false;
  RecordsByLog headless;
  for (; cursor.valid();) {
    const absl::string_view key = cursor.key();
    const auto payload = CheckedPayload(key, cursor.raw_value());
    const auto number = NumberBeforeEnd(key);
    if (key == LogFormatKey()) {
      has_format = true;
      if (payload.ok()) {
        PH_RETURN_IF_ERROR(CheckFormat(environment, key, kLogFormatVersion).status());
        PH_ASSIGN_OR_RETURN(const StoreFormat format, DecodeFormat(*payload));
        logs.found.identity = format.identity;
      } else {
        logs.found.disorder.push_back("the number of the format is damaged");
      }
    } else if (key == LogTailKey()) {
      const auto mended = PayloadOf(key, cursor.raw_value());
      const auto tail = mended ? LmdbLogsTail::Decode(*mended) : absl::DataLossError("");
      has_tail = tail.ok();
      if (tail.ok()) logs.found.tail = *tail;
      if (!payload.ok() || !tail.ok()) {
        logs.found.disorder.push_back("the numbers of the next log and generation are damaged");
      }
    } else if (absl::StartsWith(key, kNamePrefix)) {
      ReadHead(key, cursor.raw_value(), logs);
    } else if (absl::StartsWith(key, kRecordPrefix) && number) {
      const uint64_t sequence = *NumberAtEnd(key);
      const auto log = logs.logs.find(*number);
      if (log == logs.logs.end()) {
        headless[*number][sequence] = std::string(cursor.raw_value());
      } else if (sequence < log->second.head->begin || sequence >= log->second.head->end) {
        logs.strays.emplace_back(key, cursor.raw_value());
      } else {
        log->second.records[sequence] = std::string(cursor.raw_value());
      }
    } else {
      logs.strays.emplace_back(key, cursor.raw_value());
    }
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  PH_RETURN_IF_ERROR(environment.CheckFiles());
  AddHeadless(headless, logs);
  const bool is_empty = logs.logs.empty() && logs.strays.empty() && !has_tail;
  if (!has_format && !is_empty) logs.found.disorder.push_back("it has no format");
  if (!has_tail && !is_empty && logs.found.disorder.empty()) {
    logs.found.disorder.push_back("it does not say which log is the next");
  }
  for (const auto& [number, log] : logs.logs) {
    logs.found.tail.next_number = std::max(logs.found.tail.next_number, number + 1);
  }
  return logs;
}

// The sequence numbers that a log is to have.
std::pair<uint64_t, uint64_t> RangeOf(const RawLog& log) {
  if (log.head) return {log.head->begin, log.head->end};
  return {log.records.begin()->first, log.records.rbegin()->first + 1};
}

FoundRecord ReadFound(uint64_t number, uint64_t sequence, std::string raw) {
  const std::string key = RecordKey(number, sequence);
  FoundRecord record;
  record.sequence = sequence;
  auto payload = CheckedPayload(key, raw);
  if (!payload.ok()) {
    record.status = LostRecord(payload.status().message());
    if (MendOneBit(key, raw)) {
      record.status = absl::OkStatus();
      record.is_mended = true;
    }
  }
  raw.resize(raw.size() - std::min(raw.size(), kChecksumBytes));
  record.bytes = std::move(raw);
  return record;
}

// The value of a key that is none may be a record that is missing.
bool PutWhereMissing(const std::string& raw, RawLogs& logs) {
  for (auto& [number, log] : logs.logs) {
    const auto [begin, end] = RangeOf(log);
    for (uint64_t sequence = begin; sequence < end; ++sequence) {
      if (log.records.contains(sequence)) continue;
      if (!CheckedPayload(RecordKey(number, sequence), raw).ok()) continue;
      log.records[sequence] = raw;
      return true;
    }
  }
  return false;
}

}  // namespace

bool MendOneBit(absl::string_view key, std::string& raw_value) {
  if (raw_value.size() < kChecksumBytes) return false;
  const size_t n = raw_value.size() - kChecksumBytes;
  uint32_t stored = 0;
  std::memcpy(&stored, raw_value.data() + n, sizeof(stored));
  const uint32_t expected = Crc32c(absl::string_view(raw_value).substr(0, n), Crc32c(key));
  const uint32_t difference = stored ^ expected;
  if (difference == 0) return false;
  if (std::has_single_bit(difference)) {
    std::memcpy(raw_value.data() + n, &expected, sizeof(expected));
    return true;
  }
  // A CRC is linear: a flipped bit changes it by something that depends on the bit's distance to
  // the end alone, and a byte further away is one more step of the register.
  std::array<uint32_t, 256> table;
  const uint32_t of_zero = Crc32c(absl::string_view("\0", 1));
  for (size_t byte = 0; byte < table.size(); ++byte) {
    const char one = static_cast<char>(byte);
    table[byte] = Crc32c(absl::string_view(&one, 1)) ^ of_zero;
  }
  std::array<uint32_t, 8> changes;
  for (size_t bit = 0; bit < changes.size(); ++bit) changes[bit] = table[size_t{1} << bit];
  for (size_t i = n; i-- > 0;) {
    for (size_t bit = 0; bit < changes.size(); ++bit) {
      if (changes[bit] == difference) {
        raw_value[i] = static_cast<char>(raw_value[i] ^ (1 << bit));
        return true;
      }
      changes[bit] = changes[bit] >> 8 ^ table[changes[bit] & 0xff];
    }
  }
  return false;
}

absl::StatusOr<FoundLogs> ReadDamagedLogs(const std::string& folder) {
  std::error_code error;
  const std::string file = folder + StoreFolder::kDataFile;
  if (std::filesystem::file_size(file, error) == 0 || error) return FoundLogs();
  PH_ASSIGN_OR_RETURN(const auto environment, LmdbEnvironment::Open(folder, kLogMapBytes));
  PH_ASSIGN_OR_RETURN(RawLogs raw, ReadRaw(*environment));
  for (const auto& [key, value] : raw.strays) {
    const bool is_found = PutWhereMissing(value, raw);
    raw.found.disorder.push_back(
        absl::StrCat("the key '", absl::CHexEscape(key), "' is ",
                     is_found ? "that of a record, damaged" : "of no log"));
  }
  for (auto& [number, log] : raw.logs) {
    FoundLog found;
    found.job = log.job;
    found.number = number;
    const auto [begin, end] = RangeOf(log);
    for (uint64_t sequence = begin; sequence < end; ++sequence) {
      const auto record = log.records.find(sequence);
      if (record == log.records.end()) {
        found.records.push_back({sequence, "", LostRecord("is missing"), false});
      } else {
        found.records.push_back(ReadFound(number, sequence, std::move(record->second)));
      }
    }
    found.next_sequence = end;
    raw.found.logs.push_back(std::move(found));
  }
  return std::move(raw.found);
}

absl::Status RewriteLogs(const std::string& folder, const LmdbLogsTail& tail,
                         absl::Span<const NewLog> logs) {
  PH_ASSIGN_OR_RETURN(const auto environment, LmdbEnvironment::Open(folder, kLogMapBytes));
  PH_ASSIGN_OR_RETURN(LmdbTransaction transaction,
                      LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite));
  const auto format = transaction.Get(LogFormatKey());
  const bool has_format = format.ok() && *format && DecodeFormat(**format).ok();
  const std::string kept = has_format ? std::string(**format) : NewFormat(kLogFormatVersion);
  std::vector<std::string> keys;
  {
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, absl::string_view("\0", 1)));
    for (; cursor.valid();) {
      keys.emplace_back(cursor.key());
      PH_RETURN_IF_ERROR(cursor.Next());
    }
  }
  for (const std::string& key : keys) PH_RETURN_IF_ERROR(transaction.Erase(key));
  PH_RETURN_IF_ERROR(transaction.Put(LogFormatKey(), kept));
  PH_RETURN_IF_ERROR(transaction.Put(LogTailKey(), tail.Encode()));
  for (const NewLog& log : logs) {
    LmdbLogHead head = {log.number, log.first_sequence, log.first_sequence, 0};
    for (const std::string& record : log.records) {
      PH_RETURN_IF_ERROR(transaction.Put(RecordKey(log.number, head.end++), record));
      head.num_bytes += LmdbJobLogs::BytesOf(*environment, record.size() + kChecksumBytes);
    }
    PH_RETURN_IF_ERROR(transaction.Put(NameKey(log.job), head.Encode()));
  }
  return transaction.Commit();
}

}  // namespace packhouse
