#include "service/engine/feedback/feedback_store.h"

#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "packhouse/internal/shared_feedback.pb.h"
#include "service/base/caller.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/stored_feedback.h"
#include "service/stores/logs/logged_keys.h"

namespace packhouse {
namespace {

constexpr absl::string_view kModels = "feedback/m/";
constexpr absl::string_view kCount = "feedback/count";
// Of a server that is alone: "NOW PAUSED", in seconds, when uses were written last.
constexpr absl::string_view kClock = "feedback/clock";
// Of one answer: values of wide models take some dozen kilobytes, and it must be below 4 MiB.
constexpr size_t kPage = 32;
// Of the models and their number at one revision.
constexpr int kReadings = 10;

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
  return absl::DataLossError(absl::StrCat("measured model '", key, "': damaged"));
}

}  // namespace

absl::StatusOr<FeedbackStore::Stored> FeedbackStore::Decode(const FeedbackKey& key,
                                                            const KeyValue& value) {
  internal::SharedFeedback message;
  if (!message.ParseFromString(value.value)) return Damaged(value.key);
  auto kept = DecodeFeedback(key, message.model());
  if (!kept.ok()) return Damaged(value.key);
  Stored stored = {value.mod_revision,         value.value, *std::move(kept),
                   message.last_use_seconds(), {},          value.create_revision};
  for (const auto& attempt : message.attempts()) {
    stored.attempts.emplace_back(attempt.replica(), attempt.number());
  }
  return stored;
}

std::string FeedbackStore::Encode(const FeedbackKey& key, const Stored& stored) {
  internal::SharedFeedback message;
  message.set_model(EncodeFeedback(key, stored.kept));
  message.set_last_use_seconds(stored.last_use_seconds);
  for (const auto& [replica, number] : stored.attempts) {
    auto* const attempt = message.add_attempts();
    attempt->set_replica(replica);
    attempt->set_number(number);
  }
  return message.SerializeAsString();
}

uint64_t FeedbackStore::NowSeconds() const {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixSeconds(options_.now() - paused_)));
}

uint64_t FeedbackStore::Begin() const {
  absl::MutexLock lock(&mutex_);
  return ++num_events_;
}

Compare FeedbackStore::IsCurrent(const FeedbackKey& key, const Stored& stored) {
  return !stored.is_there() ? Compare::Absent(ModelKey(key))
                            : Compare::Value(ModelKey(key), stored.bytes);
}

void FeedbackStore::Learn(const FeedbackKey& key, const Stored& stored, uint64_t begun) const {
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

void FeedbackStore::Forget(const FeedbackKey& key, Revision revision, uint64_t begun) const {
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

void FeedbackStore::ForgetOthers(const std::set<FeedbackKey>& there, Revision revision,
                                 uint64_t begun) const {
  for (const auto& [key, kept] : models_.All()) {
    if (!there.contains(key)) Forget(key, revision, begun);
  }
}

void FeedbackStore::ForgetDeleted() const {
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

absl::StatusOr<FeedbackStore::Stored> FeedbackStore::Read(const FeedbackKey& key) const {
  const uint64_t begun = Begin();
  PH_ASSIGN_OR_RETURN(const RangeResult read, keys_->Range(KeyRange::Of(ModelKey(key)), 1));
  if (read.values.empty()) {
    Forget(key, read.revision, begun);
    return Stored();
  }
  PH_ASSIGN_OR_RETURN(Stored stored, Decode(key, read.values[0]));
  Learn(key, stored, begun);
  ForgetDeleted();
  return stored;
}

absl::StatusOr<Revision> FeedbackStore::ReadAll(
    absl::FunctionRef<void(const FeedbackKey& key, const Stored& stored)> each) const {
  PH_ASSIGN_OR_RETURN(const RangeResult read, keys_->ReadAll(KeyRange::Prefix(kModels), kPage));
  absl::Status first_error;
  for (const KeyValue& value : read.values) {
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
  return read.revision;
}

absl::StatusOr<FeedbackStore::Count> FeedbackStore::ReadCount() const {
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> value, keys_->Get(kCount));
  if (!value) return Count();
  Count count = {value->value, 0};
  if (!absl::SimpleAtoi(value->value, &count.num_models)) return Damaged(kCount);
  return count;
}

void FeedbackStore::Recount(const Count& count, int change, Transaction& transaction) {
  transaction.compares.push_back(count.bytes ? Compare::Value(kCount, *count.bytes)
                                             : Compare::Absent(kCount));
  const size_t num_models =
      change > 0 ? count.num_models + 1 : std::max<size_t>(count.num_models, 1) - 1;
  transaction.then.push_back(Operation::Put(kCount, absl::StrCat(num_models)));
}

absl::Status FeedbackStore::Change(const FeedbackKey& key, const Stored* known, Decide decide) {
  const uint64_t number = ++num_attempts_;
  Stored next;
  Then then = Then::kNothing;
  uint64_t begun = 0;
  const auto decide_next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    const Stored* const given = std::exchange(known, nullptr);
    PH_ASSIGN_OR_RETURN(next, given != nullptr ? *given : Read(key));
    const auto mine =
        std::find_if(next.attempts.begin(), next.attempts.end(),
                     [this](const auto& each) { return each.first == options_.replica; });
    if (may_be_done && then == Then::kAdd && next.is_there()) {
      if (mine != next.attempts.end() && mine->second == number) return std::nullopt;
      // It may have been there, and gone for those of others.
      if (mine == next.attempts.end() && next.attempts.size() >= kMaxAttempts) {
        return absl::UnavailableError("many other servers have changed it since");
      }
    }
    const auto decided = decide(next);
    // As far as anybody can tell, an earlier try has done it.
    if (may_be_done && then == Then::kErase && absl::IsNotFound(decided.status())) {
      return std::nullopt;
    }
    PH_RETURN_IF_ERROR(decided.status());
    then = *decided;
    if (then == Then::kNothing) return std::nullopt;
    Transaction transaction;
    transaction.compares = {IsCurrent(key, next)};
    if (then == Then::kErase || !next.is_there()) {
      PH_ASSIGN_OR_RETURN(const Count count, ReadCount());
      if (then == Then::kAdd) {
        PH_RETURN_IF_ERROR(CheckRoomForModel(key, count.num_models, options_.max_models));
      }
      Recount(count, then == Then::kAdd ? +1 : -1, transaction);
    }
    if (then == Then::kErase) {
      transaction.then.push_back(Operation::Delete(KeyRange::Of(ModelKey(key))));
    } else {
      if (then == Then::kAdd) {
        if (mine != next.attempts.end()) next.attempts.erase(mine);
        next.attempts.insert(next.attempts.begin(), {options_.replica, number});
        if (next.attempts.size() > kMaxAttempts) next.attempts.resize(kMaxAttempts);
      }
      next.bytes = Encode(key, next);
      transaction.then.push_back(Operation::Put(ModelKey(key), next.bytes));
    }
    begun = Begin();
    return transaction;
  };
  return changes_.Make(*keys_, absl::StrCat("model '", key.model, "' on device '", key.device, "'"),
                       decide_next, [&](const TransactionResult& done) {
                         next.revision = done.revision;
                         if (then != Then::kErase) return Learn(key, next, begun);
                         Forget(key, done.revision, begun);
                         absl::MutexLock lock(&mutex_);
                         found_.erase(key);
                       });
}

std::vector<absl::StatusOr<uint64_t>> FeedbackStore::Add(const FeedbackKey& key,
                                                         absl::Span<Waiting* const> reports) {
  std::vector<absl::StatusOr<uint64_t>> results(reports.size());
  const absl::Status made = Change(key, nullptr, [&](Stored& model) -> absl::StatusOr<Then> {
    if (!model.is_there()) model.kept.components = reports.front()->components;
    Then then = Then::kNothing;
    for (size_t i = 0; i < reports.size(); ++i) {
      const Waiting& each = *reports[i];
      const absl::Status added =
          AddReport(key, each.components, each.observations, each.now, model.kept);
      if (!added.ok()) {
        results[i] = added;
        continue;
      }
      results[i] = model.kept.shapes.num_reports();
      then = Then::kAdd;
    }
    model.last_use_seconds = std::max(model.last_use_seconds, NowSeconds());
    return then;
  });
  for (auto& result : results) {
    if (!made.ok() && !absl::IsFailedPrecondition(result.status())) result = made;
  }
  return results;
}

absl::StatusOr<uint64_t> FeedbackStore::Report(const FeedbackKey& key,
                                               const std::vector<std::string>& components,
                                               absl::Span<const BatchObservation> observations,
                                               absl::Time now) {
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  Waiting mine = {components, observations, now};
  {
    absl::MutexLock lock(&mutex_);
    std::deque<Waiting*>& queue = reports_[key];
    queue.push_back(&mine);
    const auto is_my_turn = [&] { return mine.is_done || queue.front() == &mine; };
    mutex_.Await(absl::Condition(&is_my_turn));
    if (mine.is_done) return mine.result;
  }
  std::vector<Waiting*> reports;
  const absl::Cleanup is_done = [&] {
    absl::MutexLock lock(&mutex_);
    const auto queue = reports_.find(key);
    // Without memory for the list, its own report alone.
    for (size_t i = std::max<size_t>(reports.size(), 1); i > 0; --i) {
      queue->second.front()->is_done = true;
      queue->second.pop_front();
    }
    if (queue->second.empty()) reports_.erase(queue);
  };
  {
    absl::MutexLock lock(&mutex_);
    const std::deque<Waiting*>& queue = reports_.find(key)->second;
    reports.assign(queue.begin(), queue.end());
  }
  {
    // One that is gone leaves the others' reports to be made.
    const CallerScope caller(reports.size() == 1 ? CurrentCaller() : nullptr);
    const std::vector<absl::StatusOr<uint64_t>> results = Add(key, reports);
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < reports.size(); ++i) reports[i]->result = results[i];
  }
  models_.FitIfDue(key, now);
  return mine.result;
}

absl::StatusOr<KeptFeedback> FeedbackStore::Get(const FeedbackKey& key) const {
  PH_ASSIGN_OR_RETURN(Stored stored, Read(key));
  if (!stored.is_there()) return NoSuchModel(key);
  return std::move(stored.kept);
}

absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> FeedbackStore::All() const {
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

absl::Status FeedbackStore::Delete(const FeedbackKey& key) {
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  Revision created = 0;
  return Change(key, nullptr, [&](const Stored& model) -> absl::StatusOr<Then> {
    if (!model.is_there() || (created != 0 && model.created != created)) return NoSuchModel(key);
    created = model.created;
    return Then::kErase;
  });
}

std::shared_ptr<const MeasuredModel> FeedbackStore::Find(absl::string_view measured_as) const {
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

absl::Status FeedbackStore::WriteUse(const FeedbackKey& key, uint64_t seconds) {
  PH_RETURN_IF_ERROR(Change(key, nullptr, [&](Stored& model) -> absl::StatusOr<Then> {
    // A report is a use, too.
    if (!model.is_there() || model.last_use_seconds >= seconds) return Then::kNothing;
    model.last_use_seconds = seconds;
    return Then::kUse;
  }));
  absl::MutexLock lock(&mutex_);
  const auto found = found_.find(key);
  if (found != found_.end() && found->second <= seconds) found_.erase(found);
  return absl::OkStatus();
}

absl::Status FeedbackStore::SaveUses() {
  if (!notes_uses()) return absl::OkStatus();
  std::map<FeedbackKey, uint64_t> found;
  {
    absl::MutexLock lock(&mutex_);
    found = found_;
  }
  absl::Status first_error;
  for (const auto& [key, seconds] : found) first_error.Update(WriteUse(key, seconds));
  first_error.Update(SaveClock());
  return first_error;
}

absl::Status FeedbackStore::DeleteUnused(std::vector<Expired>& expired) {
  // First of all: what this server uses stays.
  absl::Status first_error = SaveUses();
  const absl::Duration slack =
      options_.is_alone ? absl::ZeroDuration() : options_.retention.Period();
  const uint64_t now = NowSeconds();
  const auto is_unused = [&](const FeedbackKey& key, const Stored& stored) {
    absl::MutexLock lock(&mutex_);
    return Unused(stored, now) >= options_.retention.Of(key.model) + slack && !found_.contains(key);
  };
  std::vector<std::pair<FeedbackKey, Stored>> unused;
  std::set<FeedbackKey> there;
  const uint64_t begun = Begin();
  const auto read = ReadAll([&](const FeedbackKey& key, const Stored& stored) {
    there.insert(key);
    if (is_unused(key, stored)) unused.emplace_back(key, stored);
  });
  first_error.Update(read.status());
  if (read.ok()) ForgetOthers(there, *read, begun);
  for (const auto& [key, stored] : unused) {
    bool is_deleted = false;
    const absl::Status deleted =
        Change(key, &stored, [&](const Stored& model) -> absl::StatusOr<Then> {
          // Else it was used, or another server has deleted it.
          is_deleted = model.is_there() && is_unused(key, model);
          return is_deleted ? Then::kErase : Then::kNothing;
        });
    first_error.Update(deleted);
    if (absl::IsUnavailable(deleted)) return first_error;
    if (!deleted.ok() || !is_deleted) continue;
    ++num_expired_;
    expired.push_back({absl::StrCat(key.model, "/", key.device), Unused(stored, now),
                       EncodeFeedback(key, stored.kept).size()});
  }
  return first_error;
}

// --- A server that is alone.

absl::StatusOr<std::unique_ptr<FeedbackStore>> FeedbackStore::Open(KeyStore* keys,
                                                                   Options options) {
  auto store = std::unique_ptr<FeedbackStore>(new FeedbackStore(keys, nullptr, std::move(options)));
  if (store->options_.is_alone) PH_RETURN_IF_ERROR(store->LoadAll());
  return store;
}

absl::Status FeedbackStore::Check(
    KeyStore& keys, absl::FunctionRef<void(absl::string_view key, const absl::Status& what,
                                           const std::optional<std::string>& right)>
                        damaged) {
  // The state that both are read at may be dropped from the store's history meanwhile.
  for (int failures = 0;; ++failures) {
    PH_ASSIGN_OR_RETURN(const RangeResult read, keys.ReadAll(KeyRange::Prefix(kModels), kPage));
    const auto counted = keys.Range(KeyRange::Of(kCount), 1, read.revision);
    if (absl::IsOutOfRange(counted.status()) && failures < kReadings) continue;
    PH_RETURN_IF_ERROR(counted.status());
    for (const KeyValue& value : read.values) {
      const std::optional<FeedbackKey> key = KeyOf(value.key);
      const absl::Status decoded = key ? Decode(*key, value).status() : Damaged(value.key);
      if (!decoded.ok()) damaged(value.key, decoded, std::nullopt);
    }
    const std::string count = absl::StrCat(read.values.size());
    const std::string stored = counted->values.empty() ? "0" : counted->values[0].value;
    if (stored != count) {
      damaged(kCount,
              absl::DataLossError(absl::StrCat("measured models: there are ", count,
                                               ", should be '", absl::CHexEscape(stored), "'")),
              count);
    }
    return absl::OkStatus();
  }
}

std::unique_ptr<FeedbackStore> FeedbackStore::InMemory(std::function<absl::Time()> now) {
  Options options = {.replica = "alone", .now = std::move(now), .is_alone = true};
  return std::unique_ptr<FeedbackStore>(
      new FeedbackStore(nullptr, LoggedKeys::InMemory(), std::move(options)));
}

absl::Status FeedbackStore::LoadAll() {
  PH_ASSIGN_OR_RETURN(const auto all, All());
  // Readings() has them from the start.
  for (const auto& [key, kept] : all) (void)ModelOf(key);
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> clock, keys_->Get(kClock));
  if (!notes_uses()) {
    // What was noted would be too old when uses are noted again. If this fails, the time until then
    // counts as one in which the server was off: models stay for longer.
    if (clock) keys_->Commit({{}, {Operation::Delete(KeyRange::Of(kClock))}, {}}).IgnoreError();
    return absl::OkStatus();
  }
  if (clock) {
    const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(clock->value, ' ');
    int64_t written = 0;
    int64_t paused = 0;
    if (!absl::SimpleAtoi(words.first, &written) || !absl::SimpleAtoi(words.second, &paused)) {
      return Damaged(kClock);
    }
    const absl::Duration pause = options_.now() - absl::FromUnixSeconds(written);
    paused_ =
        absl::Seconds(paused) + std::max(pause, absl::ZeroDuration()) + options_.retention.Period();
    return absl::OkStatus();
  }
  // Nobody has noted when they were used: now.
  const uint64_t now = NowSeconds();
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, kept] : all) found_[key] = now;
  return absl::OkStatus();
}

absl::Status FeedbackStore::SaveClock() {
  if (!options_.is_alone) return absl::OkStatus();
  const std::string clock =
      absl::StrCat(absl::ToUnixSeconds(options_.now()), " ", absl::ToInt64Seconds(paused_));
  return keys_->Commit({{}, {Operation::Put(kClock, clock)}, {}}).status();
}

}  // namespace packhouse
