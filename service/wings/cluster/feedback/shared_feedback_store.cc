#include "service/wings/cluster/feedback/shared_feedback_store.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "packhouse/internal/shared_feedback.pb.h"
#include "service/base/caller.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/stored_feedback.h"

namespace packhouse {
namespace {

constexpr absl::string_view kModels = "feedback/m/";
constexpr absl::string_view kCount = "feedback/count";
// Of a transaction whose outcome is unknown, and of one that others were faster than.
constexpr int kUnknowns = 4;
constexpr int kRaces = 100;
// Of all models, where the revision is compacted before the last page is read.
constexpr int kReadings = 10;
// Of one answer: values of wide models take some dozen kilobytes, and it must be below 4 MiB.
constexpr size_t kPage = 32;

std::string ModelKey(const FeedbackKey& key) {
  return absl::StrCat(kModels, absl::StrReplaceAll(key.model, {{"/", "%2F"}}), "/", key.device);
}

std::optional<FeedbackKey> KeyOf(absl::string_view in_store) {
  const absl::string_view name = in_store.substr(kModels.size());
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos) return std::nullopt;
  return FeedbackKey{absl::StrReplaceAll(name.substr(0, slash), {{"%2F", "/"}}),
                     std::string(name.substr(slash + 1))};
}

absl::Status Damaged(absl::string_view key) {
  return absl::DataLossError(absl::StrCat("measured model '", key, "' in etcd: damaged"));
}

absl::Status MayBeDone(const FeedbackKey& key, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("model '", key.model, "' on device '", key.device,
                   "': it is not known whether etcd has the change: ", why));
}

absl::Status TooManyRaces(const FeedbackKey& key) {
  return absl::UnavailableError(absl::StrCat("model '", key.model, "' on device '", key.device,
                                             "': other servers are faster; try again"));
}

// Clients try again then.
absl::Status Unavailable(const absl::Status& status) {
  return OutcomeIsUnknown(status) ? absl::UnavailableError(status.message()) : status;
}

}  // namespace

absl::StatusOr<SharedFeedbackStore::Stored> SharedFeedbackStore::Decode(const FeedbackKey& key,
                                                                        const KeyValue& value) {
  internal::SharedFeedback message;
  if (!message.ParseFromString(value.value)) return Damaged(value.key);
  auto all = DecodeFeedback(message.file());
  if (!all.ok() || all->size() != 1 || all->begin()->first != key) return Damaged(value.key);
  Stored stored = {value.mod_revision,         value.value, std::move(all->begin()->second),
                   message.last_use_seconds(), {},          value.create_revision};
  for (const auto& attempt : message.attempts()) {
    stored.attempts.emplace_back(attempt.replica(), attempt.number());
  }
  return stored;
}

std::string SharedFeedbackStore::Encode(const FeedbackKey& key, const Stored& stored) {
  internal::SharedFeedback message;
  message.set_file(EncodeFeedback({{key, stored.kept}}));
  message.set_last_use_seconds(stored.last_use_seconds);
  for (const auto& [replica, number] : stored.attempts) {
    auto* const attempt = message.add_attempts();
    attempt->set_replica(replica);
    attempt->set_number(number);
  }
  return message.SerializeAsString();
}

uint64_t SharedFeedbackStore::NowSeconds() const {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixSeconds(options_.now())));
}

absl::Status SharedFeedbackStore::BeginTry(int num_lost) const {
  if (num_lost > 0 && options_.sleep != nullptr) {
    const absl::Duration longest =
        std::min(kLongestPause, kFirstPause * static_cast<double>(1 << std::min(num_lost - 1, 10)));
    // Somewhere in the second half, so that servers that met do not meet again.
    const size_t drawn = absl::HashOf(options_.replica, num_attempts_.load(), num_lost) % 1024;
    options_.sleep(longest * (0.5 + static_cast<double>(drawn) / 2048));
  }
  return BeginWait();
}

absl::Mutex& SharedFeedbackStore::TurnOf(const FeedbackKey& key) const {
  return turns_[absl::HashOf(key.model, key.device) % turns_.size()];
}

uint64_t SharedFeedbackStore::Begin() const {
  absl::MutexLock lock(&mutex_);
  return ++num_events_;
}

Compare SharedFeedbackStore::IsCurrent(const FeedbackKey& key, const Stored& stored) {
  return stored.bytes.empty() ? Compare::Absent(ModelKey(key))
                              : Compare::Value(ModelKey(key), stored.bytes);
}

void SharedFeedbackStore::Learn(const FeedbackKey& key, const Stored& stored,
                                uint64_t begun) const {
  const absl::Time now = options_.now();
  absl::MutexLock lock(&mutex_);
  const auto forgotten = forgotten_.find(key);
  if (forgotten != forgotten_.end()) {
    // It was read before it was deleted.
    if (IsOvertaken(forgotten->second, begun, stored.revision)) return;
    forgotten_.erase(forgotten);
  }
  Seen& seen = seen_[key];
  if (IsOvertaken(seen, begun, stored.revision)) return;
  seen = {stored.revision, ++num_events_};
  models_.Put(key, stored.kept, seen.at);
  asked_[key] = now;
}

void SharedFeedbackStore::Forget(const FeedbackKey& key, Revision revision, uint64_t begun) const {
  absl::MutexLock lock(&mutex_);
  const auto seen = seen_.find(key);
  if (seen != seen_.end()) {
    if (IsOvertaken(seen->second, begun, revision)) return;
    seen_.erase(seen);
  }
  models_.Erase(key);
  asked_.erase(key);
  // A read takes seconds at most: nobody needs one that is so many deletions old.
  if (forgotten_.size() >= kMaxForgotten) forgotten_.clear();
  Seen& last = forgotten_[key];
  if (!IsOvertaken(last, begun, revision)) last = {revision, ++num_events_};
}

void SharedFeedbackStore::ForgetOthers(const std::set<FeedbackKey>& there, Revision revision,
                                       uint64_t begun) const {
  for (const auto& [key, kept] : models_.All()) {
    if (!there.contains(key)) Forget(key, revision, begun);
  }
}

void SharedFeedbackStore::ForgetDeleted() const {
  const size_t num_known = models_.size();
  {
    absl::MutexLock lock(&mutex_);
    if (num_known <= std::max(options_.max_models, num_known_)) return;
  }
  const uint64_t begun = Begin();
  std::set<FeedbackKey> there;
  const auto revision =
      ReadAll([&there](const FeedbackKey& key, const Stored& /*stored*/) { there.insert(key); });
  if (revision.ok()) ForgetOthers(there, *revision, begun);
  absl::MutexLock lock(&mutex_);
  num_known_ = models_.size();
}

absl::StatusOr<std::optional<SharedFeedbackStore::Stored>> SharedFeedbackStore::Read(
    const FeedbackKey& key) const {
  const uint64_t begun = Begin();
  PH_ASSIGN_OR_RETURN(const RangeResult read, keys_->Range(KeyRange::Of(ModelKey(key)), 1));
  if (read.values.empty()) {
    Forget(key, read.revision, begun);
    return std::nullopt;
  }
  PH_ASSIGN_OR_RETURN(Stored stored, Decode(key, read.values[0]));
  Learn(key, stored, begun);
  ForgetDeleted();
  return stored;
}

absl::StatusOr<Revision> SharedFeedbackStore::ReadAll(
    absl::FunctionRef<void(const FeedbackKey& key, const Stored& stored)> each) const {
  std::vector<KeyValue> values;
  absl::StatusOr<Revision> revision = absl::UnavailableError("");
  // What was read of may be compacted before all is read.
  for (int tries = 0; tries < kReadings; ++tries) {
    revision = ReadModels(values);
    if (!absl::IsOutOfRange(revision.status())) break;
  }
  if (absl::IsOutOfRange(revision.status())) {
    return absl::UnavailableError(revision.status().message());
  }
  PH_RETURN_IF_ERROR(revision.status());
  absl::Status first_error;
  for (const KeyValue& value : values) {
    const std::optional<FeedbackKey> key = KeyOf(value.key);
    const absl::StatusOr<Stored> stored =
        key ? Decode(*key, value) : absl::StatusOr<Stored>(Damaged(value.key));
    if (!stored.ok()) {
      if (first_error.ok()) first_error = stored.status();
      continue;
    }
    each(*key, *stored);
  }
  PH_RETURN_IF_ERROR(first_error);
  return revision;
}

absl::StatusOr<Revision> SharedFeedbackStore::ReadModels(std::vector<KeyValue>& values) const {
  values.clear();
  KeyRange range = KeyRange::Prefix(kModels);
  Revision revision = 0;
  for (bool has_more = true; has_more;) {
    PH_ASSIGN_OR_RETURN(RangeResult page, keys_->Range(range, kPage, revision));
    if (revision == 0) revision = page.revision;
    has_more = page.has_more && !page.values.empty();
    if (has_more) range.begin = page.values.back().key + std::string(1, '\0');
    std::move(page.values.begin(), page.values.end(), std::back_inserter(values));
  }
  return revision;
}

absl::StatusOr<SharedFeedbackStore::Count> SharedFeedbackStore::ReadCount() const {
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> value, keys_->Get(kCount));
  if (!value) return Count();
  Count count = {value->value, 0};
  if (!absl::SimpleAtoi(value->value, &count.num_models)) return Damaged(kCount);
  return count;
}

void SharedFeedbackStore::Recount(const Count& count, int change, Transaction& transaction) {
  transaction.compares.push_back(count.bytes ? Compare::Value(kCount, *count.bytes)
                                             : Compare::Absent(kCount));
  const size_t num_models =
      change > 0 ? count.num_models + 1 : std::max<size_t>(count.num_models, 1) - 1;
  transaction.then.push_back(Operation::Put(kCount, absl::StrCat(num_models)));
}

absl::StatusOr<uint64_t> SharedFeedbackStore::Report(
    const FeedbackKey& key, const std::vector<std::string>& components,
    absl::Span<const BatchObservation> observations, absl::Time now) {
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  absl::MutexLock turn(&TurnOf(key));
  const uint64_t number = ++num_attempts_;
  int num_unknown = 0;
  for (int race = 0; race < kRaces; ++race) {
    PH_RETURN_IF_ERROR(BeginTry(race - num_unknown));
    auto read = Read(key);
    if (!read.ok() && num_unknown > 0) return MayBeDone(key, read.status().message());
    PH_RETURN_IF_ERROR(read.status());
    Transaction transaction;
    Stored next;
    if (*read) next = **std::move(read);
    transaction.compares = {IsCurrent(key, next)};
    if (!next.bytes.empty()) {
      const auto mine =
          std::find_if(next.attempts.begin(), next.attempts.end(),
                       [this](const auto& each) { return each.first == options_.replica; });
      if (num_unknown > 0) {
        if (mine != next.attempts.end() && mine->second == number) {
          models_.FitIfDue(key, now);
          return next.kept.shapes.num_reports();
        }
        // It may have been there, and gone for those of others.
        if (mine == next.attempts.end() && next.attempts.size() >= kMaxAttempts) {
          return MayBeDone(key, "many other servers have reported since");
        }
      }
      if (mine != next.attempts.end()) next.attempts.erase(mine);
    } else {
      PH_ASSIGN_OR_RETURN(const Count count, ReadCount());
      PH_RETURN_IF_ERROR(CheckRoomForModel(key, count.num_models, options_.max_models));
      Recount(count, +1, transaction);
      next.kept.components = components;
    }
    PH_RETURN_IF_ERROR(AddReport(key, components, observations, now, next.kept));
    next.last_use_seconds = std::max(next.last_use_seconds, NowSeconds());
    next.attempts.insert(next.attempts.begin(), {options_.replica, number});
    if (next.attempts.size() > kMaxAttempts) next.attempts.resize(kMaxAttempts);
    next.bytes = Encode(key, next);
    transaction.then.push_back(Operation::Put(ModelKey(key), next.bytes));
    const uint64_t begun = Begin();
    const auto done = keys_->Commit(transaction);
    if (OutcomeIsUnknown(done.status())) {
      if (++num_unknown == kUnknowns) return MayBeDone(key, done.status().message());
      continue;
    }
    if (!done.ok() && num_unknown > 0) return MayBeDone(key, done.status().message());
    PH_RETURN_IF_ERROR(done.status());
    if (!done->succeeded) continue;
    next.revision = done->revision;
    Learn(key, next, begun);
    models_.FitIfDue(key, now);
    return next.kept.shapes.num_reports();
  }
  return num_unknown > 0 ? MayBeDone(key, "other servers are faster") : TooManyRaces(key);
}

absl::StatusOr<KeptFeedback> SharedFeedbackStore::Get(const FeedbackKey& key) const {
  PH_ASSIGN_OR_RETURN(std::optional<Stored> stored, Read(key));
  if (!stored) return NoSuchModel(key);
  return std::move(stored->kept);
}

absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> SharedFeedbackStore::All() const {
  const uint64_t begun = Begin();
  std::map<FeedbackKey, KeptFeedback> all;
  std::set<FeedbackKey> there;
  PH_ASSIGN_OR_RETURN(const Revision revision,
                      ReadAll([&](const FeedbackKey& key, const Stored& stored) {
                        Learn(key, stored, begun);
                        all.emplace(key, stored.kept);
                        there.insert(key);
                      }));
  ForgetOthers(there, revision, begun);
  return all;
}

absl::Status SharedFeedbackStore::Delete(const FeedbackKey& key) {
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  int num_unknown = 0;
  // Of the model that had the name when this began: not of one that has taken it since.
  Revision created = 0;
  for (int race = 0; race < kRaces; ++race) {
    PH_RETURN_IF_ERROR(BeginTry(race - num_unknown));
    PH_ASSIGN_OR_RETURN(const std::optional<Stored> stored, Read(key));
    const bool is_gone = !stored || (created != 0 && stored->created != created);
    // As far as anybody can tell, an earlier try has done it.
    if (is_gone && num_unknown > 0) return absl::OkStatus();
    if (is_gone) return NoSuchModel(key);
    created = stored->created;
    PH_ASSIGN_OR_RETURN(const Count count, ReadCount());
    Transaction transaction;
    Recount(count, -1, transaction);
    transaction.compares.push_back(IsCurrent(key, *stored));
    transaction.then.push_back(Operation::Delete(KeyRange::Of(ModelKey(key))));
    const uint64_t begun = Begin();
    const auto done = keys_->Commit(transaction);
    if (OutcomeIsUnknown(done.status())) {
      if (++num_unknown == kUnknowns) return MayBeDone(key, done.status().message());
      continue;
    }
    PH_RETURN_IF_ERROR(done.status());
    if (!done->succeeded) continue;
    Forget(key, done->revision, begun);
    absl::MutexLock lock(&mutex_);
    found_.erase(key);
    return absl::OkStatus();
  }
  return TooManyRaces(key);
}

std::shared_ptr<const MeasuredModel> SharedFeedbackStore::Find(
    absl::string_view measured_as) const {
  const auto key = ParseMeasuredAs(measured_as);
  if (!key.ok()) return nullptr;
  const absl::Time now = options_.now();
  const auto is_recent = [now](absl::Time then, absl::Duration age) {
    return then <= now && now - then < age;
  };
  bool is_asked = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto asked = asked_.find(*key);
    is_asked =
        is_recent(away_, kAway) || (asked != asked_.end() && is_recent(asked->second, kFresh));
  }
  if (!is_asked) {
    const absl::Status read = Read(*key).status();
    absl::MutexLock lock(&mutex_);
    // Counted from the answer: an unreachable store may take seconds to be found so.
    away_ = absl::IsUnavailable(read) ? options_.now() : absl::InfinitePast();
  }
  auto model = models_.ModelOf(*key);
  if (model != nullptr && notes_uses()) {
    const uint64_t seconds = NowSeconds();
    absl::MutexLock lock(&mutex_);
    found_[*key] = seconds;
  }
  return model;
}

absl::Status SharedFeedbackStore::WriteUse(const FeedbackKey& key, const Stored& stored,
                                           uint64_t seconds) {
  Stored next = stored;
  next.last_use_seconds = seconds;
  Transaction transaction;
  transaction.compares = {IsCurrent(key, stored)};
  transaction.then = {Operation::Put(ModelKey(key), Encode(key, next))};
  const auto done = keys_->Commit(transaction);
  PH_RETURN_IF_ERROR(Unavailable(done.status()));
  // Somebody has reported since, which is a use; or deleted it.
  absl::MutexLock lock(&mutex_);
  const auto found = found_.find(key);
  if (found != found_.end() && found->second <= seconds) found_.erase(found);
  return absl::OkStatus();
}

absl::Status SharedFeedbackStore::SaveUses() {
  if (!notes_uses()) return absl::OkStatus();
  std::map<FeedbackKey, uint64_t> found;
  {
    absl::MutexLock lock(&mutex_);
    found = found_;
  }
  absl::Status first_error;
  for (const auto& [key, seconds] : found) {
    const auto stored = Read(key);
    absl::Status written = Unavailable(stored.status());
    if (written.ok() && *stored && (*stored)->last_use_seconds < seconds) {
      written = WriteUse(key, **stored, seconds);
    } else if (written.ok()) {
      absl::MutexLock lock(&mutex_);
      found_.erase(key);
    }
    if (first_error.ok()) first_error = written;
  }
  return first_error;
}

absl::Status SharedFeedbackStore::DeleteUnused(std::vector<Expired>& expired) {
  // First of all: what this server uses stays.
  absl::Status first_error = SaveUses();
  const absl::Duration slack = options_.retention.Period();
  const uint64_t now = NowSeconds();
  std::vector<std::pair<FeedbackKey, Stored>> unused;
  std::set<FeedbackKey> there;
  const uint64_t begun = Begin();
  const auto read = ReadAll([&](const FeedbackKey& key, const Stored& stored) {
    there.insert(key);
    const absl::Duration age = absl::Seconds(now - std::min(now, stored.last_use_seconds));
    if (age >= options_.retention.Of(key.model) + slack) unused.emplace_back(key, stored);
  });
  if (first_error.ok()) first_error = Unavailable(read.status());
  if (read.ok()) ForgetOthers(there, *read, begun);
  for (const auto& [key, stored] : unused) {
    const auto count = ReadCount();
    if (!count.ok()) return first_error.ok() ? Unavailable(count.status()) : first_error;
    Transaction transaction;
    Recount(*count, -1, transaction);
    transaction.compares.push_back(IsCurrent(key, stored));
    transaction.then.push_back(Operation::Delete(KeyRange::Of(ModelKey(key))));
    const uint64_t deleting = Begin();
    const auto done = keys_->Commit(transaction);
    if (!done.ok() && first_error.ok()) first_error = Unavailable(done.status());
    // Else it was used, or another server has deleted it: the next sweep sees.
    if (!done.ok() || !done->succeeded) continue;
    Forget(key, done->revision, deleting);
    ++num_expired_;
    expired.push_back({absl::StrCat(key.model, "/", key.device),
                       absl::Seconds(now - std::min(now, stored.last_use_seconds)),
                       EncodeFeedback({{key, stored.kept}}).size()});
  }
  return first_error;
}

}  // namespace packhouse
