#include "service/program/data_folder/lmdb_log_repair.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_folder.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {
namespace {

// Room for a log of the default bound and for its successor (LmdbRecordLog::Options::max_bytes).
constexpr uint64_t kLogMapBytes = uint64_t{5} << 30;
// More missing records than this are no gap but a damaged number.
constexpr uint64_t kMaxGap = 1 << 20;

absl::Status LostRecord(absl::string_view why) { return absl::DataLossError(why); }

struct RawLog {
  std::map<uint64_t, std::string> records;  // By sequence number, with their checksums.
  std::vector<std::pair<std::string, std::string>> strays;
  FoundLog found;
  uint64_t begin = 0;  // 0: not known.
};

absl::StatusOr<RawLog> ReadRaw(const LmdbEnvironment& environment) {
  RawLog log;
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                      LmdbTransaction::Begin(environment, LmdbTransaction::Kind::kRead));
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, absl::string_view("\0", 1)));
  bool has_format = false;
  for (; cursor.valid();) {
    const absl::string_view key = cursor.key();
    const auto payload = CheckedPayload(key, cursor.raw_value());
    if (key == LogFormatKey()) {
      has_format = true;
      if (payload.ok()) {
        PH_RETURN_IF_ERROR(CheckFormat(environment, key, kLogFormatVersion).status());
        PH_ASSIGN_OR_RETURN(const StoreFormat format, DecodeFormat(*payload));
        log.found.identity = format.identity;
      } else {
        log.found.disorder.push_back("the number of the format is damaged");
      }
    } else if (key == LogBeginKey()) {
      const auto begin = payload.ok() ? DecodeNumber(*payload) : payload.status();
      if (begin.ok()) {
        log.begin = *begin;
      } else {
        log.found.disorder.push_back("the number of the first record is damaged");
      }
    } else if (key.size() == LogRecordKey(0).size() && absl::StartsWith(key, kRecordPrefix)) {
      log.records[*NumberAtEnd(key)] = std::string(cursor.raw_value());
    } else {
      log.strays.emplace_back(key, cursor.raw_value());
    }
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  PH_RETURN_IF_ERROR(environment.CheckFiles());
  const bool is_empty = log.records.empty() && log.strays.empty() && log.begin == 0;
  if (!has_format && !is_empty) log.found.disorder.push_back("it has no format");
  if (log.begin == 0 && !is_empty && log.found.disorder.empty()) {
    log.found.disorder.push_back("it does not say at which record it begins");
  }
  return log;
}

// Records with numbers that cannot be: the largest numbers that are far from the others.
void TakeOutImpossible(RawLog& log) {
  while (log.records.size() > 1 || (log.records.size() == 1 && log.begin != 0)) {
    const auto last = std::prev(log.records.end());
    const uint64_t before = log.records.size() > 1 ? std::prev(last)->first : log.begin;
    if (last->first < before || last->first - before <= kMaxGap) break;
    log.strays.emplace_back(LogRecordKey(last->first), std::move(last->second));
    log.records.erase(last);
  }
  while (log.records.size() > 1 && log.begin == 0) {
    const auto first = log.records.begin();
    if (std::next(first)->first - first->first <= kMaxGap) break;
    log.strays.emplace_back(LogRecordKey(first->first), std::move(first->second));
    log.records.erase(first);
  }
  while (log.begin != 0 && !log.records.empty() && log.records.begin()->first < log.begin) {
    const auto first = log.records.begin();
    log.strays.emplace_back(LogRecordKey(first->first), std::move(first->second));
    log.records.erase(first);
  }
}

FoundRecord ReadFound(uint64_t sequence, std::string raw) {
  const std::string key = LogRecordKey(sequence);
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

absl::StatusOr<FoundLog> ReadDamagedLog(const std::string& folder) {
  std::error_code error;
  const std::string file = folder + StoreFolder::kDataFile;
  if (std::filesystem::file_size(file, error) == 0 || error) return FoundLog();
  PH_ASSIGN_OR_RETURN(const auto environment, LmdbEnvironment::Open(folder, kLogMapBytes));
  PH_ASSIGN_OR_RETURN(RawLog log, ReadRaw(*environment));
  TakeOutImpossible(log);
  uint64_t first = log.begin;
  if (first == 0) first = log.records.empty() ? 1 : log.records.begin()->first;
  uint64_t end = log.records.empty() ? first : log.records.rbegin()->first + 1;
  // Values under keys that are none may be records: the next one, or one that is missing.
  for (auto& [key, raw] : log.strays) {
    bool is_found = false;
    for (uint64_t sequence = first; sequence <= end && !is_found; ++sequence) {
      if (log.records.contains(sequence)) continue;
      is_found = CheckedPayload(LogRecordKey(sequence), raw).ok();
      if (!is_found) continue;
      log.records[sequence] = raw;
      end = std::max(end, sequence + 1);
    }
    log.found.disorder.push_back(
        absl::StrCat("the key '", absl::CHexEscape(key), "' is ",
                     is_found ? "that of a record, damaged" : "none of this log"));
  }
  for (uint64_t sequence = first; sequence < end; ++sequence) {
    const auto found = log.records.find(sequence);
    if (found == log.records.end()) {
      log.found.records.push_back({sequence, "", LostRecord("is missing"), false});
    } else {
      log.found.records.push_back(ReadFound(sequence, std::move(found->second)));
    }
  }
  log.found.next_sequence = end;
  return std::move(log.found);
}

absl::Status RewriteLog(const std::string& folder, uint64_t next_sequence,
                        absl::Span<const std::string> records) {
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
  PH_RETURN_IF_ERROR(transaction.Put(LogBeginKey(), EncodeNumber(next_sequence)));
  for (const std::string& record : records) {
    PH_RETURN_IF_ERROR(transaction.Put(LogRecordKey(next_sequence++), record));
  }
  return transaction.Commit();
}

}  // namespace packhouse
