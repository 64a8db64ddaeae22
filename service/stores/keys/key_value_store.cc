#include "service/stores/keys/key_value_store.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Of a range, of which the revision is compacted before the last page is read.
constexpr int kReadings = 10;

absl::Status CheckCount(size_t count, absl::string_view what) {
  if (count <= Transaction::kMaxOperations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("transaction: ", count, " ", what, ", at most ", Transaction::kMaxOperations));
}

absl::Status CheckKey(absl::string_view key) {
  if (!key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("transaction: a key is empty");
}

absl::Status CheckBranch(const std::vector<Operation>& steps) {
  PH_RETURN_IF_ERROR(CheckCount(steps.size(), "steps"));
  std::set<absl::string_view> put;
  for (const Operation& step : steps) {
    PH_RETURN_IF_ERROR(CheckKey(step.range.begin));
    if (step.kind == Operation::Kind::kPut && !put.insert(step.range.begin).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("transaction: key '", absl::CHexEscape(step.range.begin), "' is put twice"));
    }
  }
  for (const Operation& step : steps) {
    if (step.kind != Operation::Kind::kDelete) continue;
    const auto first = put.lower_bound(step.range.begin);
    if (first == put.end() || !step.range.Contains(*first)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("transaction: key '", absl::CHexEscape(*first), "' is put and deleted"));
  }
  return absl::OkStatus();
}

size_t BytesOf(const std::vector<Operation>& steps) {
  size_t bytes = 0;
  for (const Operation& step : steps) {
    bytes += Transaction::kBytesPerOperation + step.range.begin.size() + step.range.end.size() +
             step.value.size();
  }
  return bytes;
}

}  // namespace

KeyRange KeyRange::Prefix(absl::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) ++end.back();
  return {std::string(prefix), std::move(end)};
}

bool Compare::Holds(const KeyValue* now) const {
  switch (target) {
    case Target::kCreateRevision:
      return (now == nullptr ? 0 : now->create_revision) == revision;
    case Target::kModRevision:
      return (now == nullptr ? 0 : now->mod_revision) == revision;
    case Target::kValue:
      return now != nullptr && now->value == value;
  }
  return false;
}

bool Transaction::ChangesSomething() const {
  const auto changes = [](const Operation& step) { return step.kind != Operation::Kind::kRead; };
  return std::any_of(then.begin(), then.end(), changes) ||
         std::any_of(otherwise.begin(), otherwise.end(), changes);
}

size_t Transaction::NumBytes() const {
  size_t bytes = BytesOf(then) + BytesOf(otherwise);
  for (const Compare& compare : compares) {
    bytes += kBytesPerOperation + compare.key.size() + compare.value.size();
  }
  return bytes;
}

absl::Status Transaction::Check() const {
  PH_RETURN_IF_ERROR(CheckCount(compares.size(), "compares"));
  for (const Compare& compare : compares) PH_RETURN_IF_ERROR(CheckKey(compare.key));
  PH_RETURN_IF_ERROR(CheckBranch(then));
  PH_RETURN_IF_ERROR(CheckBranch(otherwise));
  if (NumBytes() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("transaction: ", NumBytes(), " bytes, at most ", kMaxBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<KeyValue>> KeyStore::Get(absl::string_view key) {
  PH_ASSIGN_OR_RETURN(RangeResult result, Range(KeyRange::Of(key)));
  if (result.values.empty()) return std::nullopt;
  return std::move(result.values.front());
}

absl::StatusOr<RangeResult> KeyStore::ReadAll(KeyRange range, size_t page) {
  const std::string begin = range.begin;
  absl::Status dropped;
  for (int reading = 0; reading < kReadings; ++reading) {
    RangeResult all;
    range.begin = begin;
    absl::StatusOr<RangeResult> next = Range(range, page);
    if (next.ok()) all.revision = next->revision;
    while (next.ok()) {
      std::move(next->values.begin(), next->values.end(), std::back_inserter(all.values));
      if (!next->has_more || next->values.empty()) return all;
      range.begin = all.values.back().key + std::string(1, '\0');
      next = Range(range, page, all.revision);
    }
    dropped = next.status();
    if (!absl::IsOutOfRange(dropped)) return dropped;
  }
  return absl::UnavailableError(dropped.message());
}

}  // namespace packhouse
