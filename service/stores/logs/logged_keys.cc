#include "service/stores/logs/logged_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "packhouse/internal/kept_keys.pb.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

uint64_t BytesOf(const std::vector<std::string>& records) {
  uint64_t bytes = 0;
  for (const std::string& record : records) bytes += record.size();
  return bytes;
}

std::string RecordOf(absl::string_view key, const std::optional<KeyValue>& value,
                     Revision revision) {
  internal::KeptKey kept;
  kept.set_key(std::string(key));
  kept.set_changed(revision);
  kept.set_is_deleted(!value);
  if (value) {
    kept.set_value(value->value);
    kept.set_created(value->create_revision);
  }
  return kept.SerializeAsString();
}

}  // namespace

std::unique_ptr<LoggedKeys> LoggedKeys::InMemory() {
  return std::unique_ptr<LoggedKeys>(new LoggedKeys(nullptr));
}

absl::StatusOr<std::unique_ptr<LoggedKeys>> LoggedKeys::Open(std::unique_ptr<RecordLog> log) {
  auto keys = std::unique_ptr<LoggedKeys>(new LoggedKeys(std::move(log)));
  PH_RETURN_IF_ERROR(keys->Load());
  return keys;
}

absl::Status LoggedKeys::CheckRecord(absl::string_view record) {
  internal::KeptKey kept;
  if (kept.ParseFromArray(record.data(), static_cast<int>(record.size())) && kept.changed() != 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError("it is no change of a key");
}

absl::Status LoggedKeys::Load() {
  if (log_ == nullptr) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> records, log_->ReadAll());
  absl::MutexLock committing(&committing_);
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < records.size(); ++i) {
    if (const absl::Status checked = CheckRecord(records[i]); !checked.ok()) {
      return absl::DataLossError(absl::StrCat("keys: record ", i, ": ", checked.message()));
    }
    internal::KeptKey kept;
    kept.ParseFromString(records[i]);
    revision_ = std::max(revision_, kept.changed());
    if (kept.key().empty()) continue;
    if (kept.is_deleted()) {
      values_.erase(kept.key());
    } else {
      values_[kept.key()] = {kept.key(), kept.value(), kept.created(), kept.changed(), 0};
    }
  }
  log_bytes_ = BytesOf(records);
  return absl::OkStatus();
}

const KeyValue* LoggedKeys::Find(absl::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

RangeResult LoggedKeys::Read(const KeyRange& range, size_t limit, const Changes& changes) const {
  const auto is_in = [&range](const auto& each) {
    return range.end.empty() ? each.first == range.begin : each.first < range.end;
  };
  std::map<absl::string_view, const KeyValue*> found;
  for (auto it = values_.lower_bound(range.begin); it != values_.end() && is_in(*it); ++it) {
    found[it->first] = &it->second;
  }
  for (auto it = changes.lower_bound(range.begin); it != changes.end() && is_in(*it); ++it) {
    found[it->first] = it->second ? &*it->second : nullptr;
  }
  RangeResult result;
  result.revision = revision_;
  for (const auto& [key, value] : found) {
    if (value == nullptr) continue;
    result.has_more = limit != 0 && result.values.size() == limit;
    if (result.has_more) break;
    result.values.push_back(*value);
  }
  return result;
}

absl::StatusOr<RangeResult> LoggedKeys::Range(const KeyRange& range, size_t limit,
                                              Revision revision) {
  absl::MutexLock lock(&mutex_);
  if (revision == 0 || revision == revision_) return Read(range, limit, {});
  return absl::OutOfRangeError(
      absl::StrCat("revision ", revision, " is not there, but ", revision_));
}

absl::StatusOr<RangeResult> LoggedKeys::ReadAll(KeyRange range, size_t /*page*/) {
  return Range(range, 0, 0);
}

absl::StatusOr<TransactionResult> LoggedKeys::Commit(const Transaction& transaction) {
  PH_RETURN_IF_ERROR(transaction.Check());
  absl::MutexLock committing(&committing_);
  TransactionResult result;
  Changes changes;
  Revision next = 0;
  {
    absl::MutexLock lock(&mutex_);
    next = revision_ + 1;
    const auto holds = [this](const Compare& compare) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return compare.Holds(Find(compare.key));
    };
    result.succeeded = std::all_of(transaction.compares.begin(), transaction.compares.end(), holds);
    for (const Operation& step : result.succeeded ? transaction.then : transaction.otherwise) {
      const std::string& key = step.range.begin;
      if (step.kind == Operation::Kind::kRead) {
        result.reads.push_back(Read(step.range, step.limit, changes));
      } else if (step.kind == Operation::Kind::kDelete) {
        for (const KeyValue& value : Read(step.range, 0, changes).values) {
          changes[value.key] = std::nullopt;
        }
      } else if (step.lease != 0) {
        return absl::NotFoundError(absl::StrCat("no lease ", step.lease));
      } else {
        // Nothing else in this branch changes it.
        const KeyValue* const old = Find(key);
        const Revision created = old == nullptr ? next : old->create_revision;
        changes[key] = KeyValue{key, step.value, created, next, 0};
      }
    }
    result.revision = changes.empty() ? revision_ : next;
  }
  for (RangeResult& read : result.reads) read.revision = result.revision;
  if (changes.empty()) return result;
  PH_RETURN_IF_ERROR(Append(changes));
  absl::MutexLock lock(&mutex_);
  revision_ = next;
  for (auto& [key, value] : changes) {
    if (value) {
      values_[key] = *std::move(value);
    } else {
      values_.erase(key);
    }
  }
  return result;
}

std::vector<std::string> LoggedKeys::RecordsOf(const Changes& changes) const {
  absl::MutexLock lock(&mutex_);
  // Deletions may have been the last changes.
  std::vector<std::string> records = {RecordOf("", std::nullopt, revision_ + 1)};
  for (const auto& [key, value] : values_) {
    if (!changes.contains(key)) records.push_back(RecordOf(key, value, value.mod_revision));
  }
  for (const auto& [key, value] : changes) {
    if (value) records.push_back(RecordOf(key, value, value->mod_revision));
  }
  return records;
}

absl::Status LoggedKeys::Append(const Changes& changes) {
  if (log_ == nullptr) return absl::OkStatus();
  std::vector<std::string> records;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, value] : changes) records.push_back(RecordOf(key, value, revision_ + 1));
  }
  const uint64_t num_bytes = BytesOf(records);
  absl::Status stored;
  if (log_bytes_ + num_bytes > rewrite_at_) {
    stored = Rewrite(changes);
  } else {
    stored = log_->Append(records);
    if (stored.ok()) log_bytes_ += num_bytes;
    // All that is there now may fit, where one change more does not.
    if (absl::IsResourceExhausted(stored) && Rewrite(changes).ok()) stored = absl::OkStatus();
  }
  // A log that does not know refuses all.
  if (stored.ok() || log_->ReadAll().ok()) return stored;
  return absl::UnknownError(stored.message());
}

absl::Status LoggedKeys::Rewrite(const Changes& changes) {
  const std::vector<std::string> records = RecordsOf(changes);
  PH_RETURN_IF_ERROR(log_->Replace(records));
  log_bytes_ = BytesOf(records);
  rewrite_at_ = 2 * log_bytes_ + kSpareBytes;
  return absl::OkStatus();
}

}  // namespace packhouse
