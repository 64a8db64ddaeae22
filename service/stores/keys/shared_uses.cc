#include "service/stores/keys/shared_uses.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kUses = "uses/";
// Of one transaction, and of one answer.
constexpr size_t kUsesAtOnce = 60;
constexpr size_t kUsesOfPage = 1000;

std::string KeysOf(absl::string_view kind) { return absl::StrCat(kUses, kind, "/"); }

absl::Status Malformed(absl::string_view key) {
  return absl::DataLossError(absl::StrCat("the key '", key, "' is not as it was written"));
}

absl::Status ToCaller(const absl::Status& status) {
  if (!OutcomeIsUnknown(status)) return status;
  return absl::UnavailableError(
      absl::StrCat("it is not known whether a use was written: ", status.message()));
}

}  // namespace

std::string SharedUses::CountKey() const { return absl::StrCat(KeysOf(options_.kind), "seconds"); }
std::string SharedUses::UseKey(absl::string_view name) const {
  return absl::StrCat(KeysOf(options_.kind), "of/", name);
}

absl::Status SharedUses::RemoveAll(KeyStore& keys, absl::string_view kind) {
  const KeyRange all = KeyRange::Prefix(KeysOf(kind));
  PH_ASSIGN_OR_RETURN(const RangeResult read, keys.Range(all, 1));
  if (read.values.empty()) return absl::OkStatus();
  return ToCaller(keys.Commit({{}, {Operation::Delete(all)}, {}}).status());
}

absl::Status SharedUses::Learn(const RangeResult& read) {
  Count found;
  if (!read.values.empty()) {
    found.revision = read.values[0].mod_revision;
    if (!absl::SimpleAtoi(read.values[0].value, &found.seconds)) return Malformed(CountKey());
  }
  found.since = options_.now();
  absl::MutexLock lock(&mutex_);
  if (found.revision != count_.revision) count_ = found;
  return absl::OkStatus();
}

absl::Status SharedUses::AddTime() {
  PH_ASSIGN_OR_RETURN(const RangeResult read, keys_->Range(KeyRange::Of(CountKey()), 1));
  PH_RETURN_IF_ERROR(Learn(read));
  agreed_ = options_.agree == nullptr ? absl::OkStatus() : options_.agree();
  const absl::Time now = options_.now();
  Count next = count();
  const int64_t seconds = absl::ToInt64Seconds(std::min(now - next.since, period_));
  if (next.revision != 0 && agreed_.ok() && seconds < 1) return absl::OkStatus();
  next.since = now;
  if (next.revision != 0 && !agreed_.ok()) {
    absl::MutexLock lock(&mutex_);
    if (count_.revision == next.revision) count_ = next;
    return absl::OkStatus();
  }
  if (next.revision != 0) next.seconds += static_cast<uint64_t>(seconds);
  // If another server was faster, it has added its time.
  PH_ASSIGN_OR_RETURN(const TransactionResult done,
                      keys_->Commit({{Compare::ModRevision(CountKey(), next.revision)},
                                     {Operation::Put(CountKey(), absl::StrCat(next.seconds))},
                                     {Operation::Read(KeyRange::Of(CountKey()))}}));
  if (!done.succeeded) return Learn(done.reads[0]);
  next.revision = done.revision;
  absl::MutexLock lock(&mutex_);
  count_ = next;
  return absl::OkStatus();
}

absl::Status SharedUses::NoteSome(const std::vector<Thing>& things) {
  absl::Status failed = absl::UnavailableError("a use: the count of time changes all the time");
  for (int tries = 0; tries < kTries; ++tries) {
    const Count now = count();
    const absl::Time at = options_.now();
    Transaction transaction;
    transaction.compares.push_back(Compare::ModRevision(CountKey(), now.revision));
    if (now.revision == 0) transaction.then.push_back(Operation::Put(CountKey(), "0"));
    for (const auto& [name, id] : things) {
      transaction.then.push_back(Operation::Put(
          UseKey(name), absl::StrCat(now.seconds, " ", absl::Hex(id, absl::kZeroPad16))));
    }
    transaction.otherwise.push_back(Operation::Read(KeyRange::Of(CountKey())));
    const auto done = keys_->Commit(transaction);
    if (OutcomeIsUnknown(done.status())) {
      failed = done.status();
      continue;
    }
    PH_RETURN_IF_ERROR(done.status());
    if (!done->succeeded) {
      PH_RETURN_IF_ERROR(Learn(done->reads[0]));
      continue;
    }
    absl::MutexLock lock(&mutex_);
    if (now.revision == 0) count_ = {0, done->revision, options_.now()};
    for (const auto& [name, id] : things) noted_[name] = {id, at};
    return absl::OkStatus();
  }
  return ToCaller(failed);
}

absl::Status SharedUses::Note(const std::vector<Thing>& things) {
  for (size_t begin = 0; begin < things.size(); begin += kUsesAtOnce) {
    const size_t end = std::min(things.size(), begin + kUsesAtOnce);
    const std::vector<Thing> some(things.begin() + static_cast<ptrdiff_t>(begin),
                                  things.begin() + static_cast<ptrdiff_t>(end));
    PH_RETURN_IF_ERROR(NoteSome(some));
  }
  return absl::OkStatus();
}

void SharedUses::Add(const std::string& name, uint64_t id) {
  if (options_.retention.Of(name) == absl::InfiniteDuration()) return;
  // What nobody has noted has just been used.
  Note({{name, id}}).IgnoreError();
}

void SharedUses::Forget(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = noted_.find(name); found != noted_.end()) noted_.erase(found);
}

absl::Status SharedUses::Use(absl::string_view name) {
  if (options_.retention.Of(name) == absl::InfiniteDuration()) return absl::OkStatus();
  {
    const absl::Time now = options_.now();
    absl::MutexLock lock(&mutex_);
    const auto found = noted_.find(name);
    if (found != noted_.end() && now - found->second.at < period_) return absl::OkStatus();
  }
  const auto id = options_.id_of(name);
  // Whoever looks for it is told.
  if (absl::IsNotFound(id.status())) return absl::OkStatus();
  PH_RETURN_IF_ERROR(id.status());
  return Note({{std::string(name), *id}});
}

absl::Status SharedUses::Save() {
  std::set<std::string> names;
  in_use_([&](const std::string& name) { names.insert(name); });
  std::vector<Thing> things;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [name, noted] : noted_) {
      // Not if it was deleted, and another has its name. Nobody tells of it again: until it is
      // written, it has no time.
      if (names.contains(name)) noted.at = absl::InfinitePast();
      if (noted.at == absl::InfinitePast()) things.emplace_back(name, noted.id);
    }
  }
  return Note(things);
}

absl::Status SharedUses::ReadStored() {
  const std::string begin = UseKey("");
  PH_ASSIGN_OR_RETURN(const RangeResult read, keys_->ReadAll(KeyRange::Prefix(begin), kUsesOfPage));
  for (const KeyValue& value : read.values) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(value.value, absl::MaxSplits(' ', 1));
    Stored stored = {0, 0, value.mod_revision};
    if (!absl::SimpleAtoi(words.first, &stored.seconds) ||
        !absl::SimpleHexAtoi(words.second, &stored.id)) {
      return Malformed(value.key);
    }
    stored_.emplace(value.key.substr(begin.size()), stored);
  }
  return absl::OkStatus();
}

absl::Status SharedUses::BeginSweep() {
  stored_.clear();
  listed_.clear();
  unknown_.clear();
  PH_RETURN_IF_ERROR(ToCaller(AddTime()));
  PH_RETURN_IF_ERROR(Save());
  return ReadStored();
}

absl::StatusOr<std::optional<absl::Duration>> SharedUses::RemoveIfUnused(const std::string& name,
                                                                         uint64_t id) {
  const absl::Duration most = options_.retention.Of(name);
  if (most == absl::InfiniteDuration()) return std::nullopt;
  listed_.insert(name);
  const auto found = stored_.find(name);
  if (found == stored_.end() || found->second.id != id) {
    unknown_.emplace_back(name, id);
    return std::nullopt;
  }
  const Stored& use = found->second;
  const uint64_t now = count().seconds;
  const absl::Duration unused = absl::Seconds(now - std::min(now, use.seconds));
  if (!agreed_.ok() || unused < most + 2 * period_) return std::nullopt;
  const std::string key = UseKey(name);
  const absl::Status removed =
      options_.erase(name, id, [&]() -> absl::StatusOr<std::vector<Compare>> {
        PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> last, keys_->Get(key));
        if (!last || last->mod_revision != use.revision) return absl::AbortedError("it was used");
        return std::vector<Compare>{Compare::ModRevision(key, use.revision)};
      });
  if (absl::IsAborted(removed) || absl::IsNotFound(removed)) return std::nullopt;
  PH_RETURN_IF_ERROR(removed);
  listed_.erase(name);
  num_expired_.fetch_add(1, std::memory_order_relaxed);
  return unused;
}

absl::Status SharedUses::EndSweep() {
  PH_RETURN_IF_ERROR(Note(unknown_));
  {
    absl::MutexLock lock(&mutex_);
    std::erase_if(noted_, [this](const auto& each) {
      return !listed_.contains(each.first) && options_.now() - each.second.at >= period_;
    });
  }
  // Of things that are gone. What was written of another with the name stays.
  for (const auto& [name, use] : stored_) {
    if (listed_.contains(name)) continue;
    const std::string key = UseKey(name);
    PH_RETURN_IF_ERROR(ToCaller(keys_
                                    ->Commit({{Compare::ModRevision(key, use.revision)},
                                              {Operation::Delete(KeyRange::Of(key))},
                                              {}})
                                    .status()));
  }
  return agreed_;
}

}  // namespace packhouse
