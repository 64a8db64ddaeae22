#include "service/feedback/feedback_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/feedback/stored_feedback.h"
#include "service/sizes/size_schema.h"

namespace packhouse {
namespace {

constexpr size_t kMaxModelName = 128;
constexpr size_t kMaxDeviceName = 64;

// What the uses of a model are kept by: in the model's namespace, and unlike every other model's.
std::string UseNameOf(const FeedbackKey& key) { return absl::StrCat(key.model, " ", key.device); }

absl::Status NoSuchModel(const FeedbackKey& key) {
  return absl::NotFoundError(absl::StrCat("model ", Quoted(key.model), " on device ",
                                          Quoted(key.device), ": nothing was reported"));
}

}  // namespace

absl::Status CheckFeedbackKey(const FeedbackKey& key) {
  if (!IsValidName(key.model, kMaxModelName, "_./-")) {
    return absl::InvalidArgumentError(absl::StrCat("model: ", Quoted(key.model), " must be 1 to ",
                                                   kMaxModelName,
                                                   " characters of [A-Za-z0-9_./-]"));
  }
  if (!IsValidName(key.device, kMaxDeviceName, "_.-")) {
    return absl::InvalidArgumentError(absl::StrCat("device: ", Quoted(key.device), " must be 1 to ",
                                                   kMaxDeviceName,
                                                   " characters of [A-Za-z0-9_.-]"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FeedbackKey> ParseMeasuredAs(absl::string_view measured_as) {
  const size_t slash = measured_as.rfind('/');
  if (slash == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("measured_as: ", Quoted(measured_as), " must be MODEL/DEVICE"));
  }
  FeedbackKey key = {std::string(measured_as.substr(0, slash)),
                     std::string(measured_as.substr(slash + 1))};
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  return key;
}

absl::StatusOr<std::unique_ptr<FeedbackStore>> FeedbackStore::Open(Options options) {
  auto store = std::unique_ptr<FeedbackStore>(new FeedbackStore(std::move(options)));
  if (store->options_.folder.empty()) return store;
  const std::string path = absl::StrCat(store->options_.folder, "/", store->options_.file);
  const absl::StatusOr<std::string> bytes = ReadWhole(path);
  if (absl::IsNotFound(bytes.status())) return store;
  PH_RETURN_IF_ERROR(bytes.status());
  auto all = DecodeFeedback(*bytes);
  if (!all.ok()) {
    return absl::Status(all.status().code(), absl::StrCat("'", path, "': ", all.status().message(),
                                                          "; without it the server starts, and "
                                                          "knows of no measurements"));
  }
  for (auto& [key, kept] : *all) {
    {
      absl::MutexLock lock(&store->mutex_);
      store->entries_[key].kept = std::move(kept);
    }
    (void)store->ModelOf(key);  // Readings() has them from the start.
  }
  return store;
}

std::unique_ptr<FeedbackStore> FeedbackStore::InMemory() {
  return std::unique_ptr<FeedbackStore>(new FeedbackStore(Options()));
}

absl::StatusOr<uint64_t> FeedbackStore::Report(const FeedbackKey& key,
                                               const std::vector<std::string>& components,
                                               absl::Span<const BatchObservation> observations,
                                               absl::Time now) {
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  // First: then it is not deleted with what is added.
  if (uses_ != nullptr) uses_->Use(UseNameOf(key));
  uint64_t num_reports = 0;
  {
    absl::MutexLock changing(&changing_);
    KeptFeedback kept;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = entries_.find(key);
      if (found != entries_.end()) {
        kept = found->second.kept;
      } else if (options_.max_models == 0) {
        return absl::FailedPreconditionError(absl::StrCat(
            "model ", Quoted(key.model),
            ": servers that share their jobs (--ledger) keep no measurements: each would choose "
            "other limits"));
      } else if (entries_.size() >= options_.max_models) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "model ", Quoted(key.model), ": ", entries_.size(), " models are kept, at most ",
            options_.max_models, " (--max-measured-models); delete one"));
      } else {
        kept.components = components;
      }
    }
    if (kept.components != components) {
      return absl::FailedPreconditionError(
          absl::StrCat("model ", Quoted(key.model), " on device ", Quoted(key.device),
                       ": has components ", absl::StrJoin(kept.components, ", "), ", reported are ",
                       absl::StrJoin(components, ", ")));
    }
    // Not under the mutex: many observations take milliseconds.
    for (const BatchObservation& observation : observations) kept.shapes.Add(observation);
    kept.last_report_seconds =
        static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixSeconds(now)));
    num_reports = kept.shapes.num_reports();
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[key];
    entry.kept = std::move(kept);
    entry.last_change = ++num_changes_;
    if (entry.first_change == 0) entry.first_change = entry.last_change;
  }
  if (uses_ != nullptr) uses_->Know(UseNameOf(key));
  const absl::Status written = Write();
  FitIfDue(key, now);
  PH_RETURN_IF_ERROR(written);
  return num_reports;
}

void FeedbackStore::FitIfDue(const FeedbackKey& key, absl::Time now) const {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    const absl::Duration age = now - found->second.fitted;
    if (age >= absl::ZeroDuration() && age < kBetweenFits) return;
    found->second.fitted = now;
  }
  (void)ModelOf(key);
}

absl::Status FeedbackStore::Write() {
  if (options_.folder.empty()) return absl::OkStatus();
  uint64_t wanted = 0;
  {
    absl::MutexLock lock(&mutex_);
    wanted = num_changes_;
  }
  absl::MutexLock writing(&writing_);
  // Somebody else's write had it.
  if (num_written_ >= wanted) return absl::OkStatus();
  std::map<FeedbackKey, KeptFeedback> all;
  {
    absl::MutexLock lock(&mutex_);
    wanted = num_changes_;
    for (const auto& [key, entry] : entries_) all.emplace(key, entry.kept);
  }
  PH_RETURN_IF_ERROR(WriteWhole(options_.folder, options_.file, EncodeFeedback(all)));
  num_written_ = wanted;
  return absl::OkStatus();
}

absl::StatusOr<KeptFeedback> FeedbackStore::Get(const FeedbackKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return NoSuchModel(key);
  return found->second.kept;
}

std::vector<FeedbackKey> FeedbackStore::Keys() const {
  std::vector<FeedbackKey> keys;
  absl::MutexLock lock(&mutex_);
  keys.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) keys.push_back(key);
  return keys;
}

void FeedbackStore::NoteUses(std::string path, Retention retention,
                             std::function<absl::Time()> now) {
  uses_ =
      std::make_unique<LastUses>(std::move(path), std::move(retention), std::move(now),
                                 [this](absl::FunctionRef<void(const std::string& name)> in_use) {
                                   absl::MutexLock lock(&mutex_);
                                   for (const std::string& name : found_) in_use(name);
                                   found_.clear();
                                 });
  for (const FeedbackKey& key : Keys()) uses_->Know(UseNameOf(key));
}

absl::Status FeedbackStore::DeleteUnused(std::vector<Expired>& expired) {
  absl::Status first_error;
  for (const FeedbackKey& key : Keys()) {
    const auto kept = Get(key);
    if (!kept.ok()) continue;
    const auto unused = uses_->RemoveIfUnused(
        UseNameOf(key), [&] { return Erase(key) ? absl::OkStatus() : NoSuchModel(key); });
    if (!unused.ok() && first_error.ok()) first_error = unused.status();
    if (unused.ok() && *unused) {
      expired.push_back({absl::StrCat(key.model, "/", key.device), **unused,
                         EncodeFeedback({{key, *kept}}).size()});
    }
  }
  // Once for all of them; also what an earlier sweep has erased, and the disk did not take.
  const absl::Status written = Write();
  const absl::Status saved = SaveUses();
  if (!first_error.ok()) return first_error;
  return written.ok() ? saved : written;
}

absl::Status FeedbackStore::SaveUses() {
  return uses_ == nullptr ? absl::OkStatus() : uses_->Save();
}

absl::Status FeedbackStore::Delete(const FeedbackKey& key) {
  const bool is_erased = Erase(key);
  // Also if the first try has erased it, and the disk failed.
  PH_RETURN_IF_ERROR(Write());
  if (!is_erased) return NoSuchModel(key);
  if (uses_ != nullptr) uses_->Forget(UseNameOf(key));
  return absl::OkStatus();
}

bool FeedbackStore::Erase(const FeedbackKey& key) {
  absl::MutexLock changing(&changing_);
  absl::MutexLock lock(&mutex_);
  found_.erase(UseNameOf(key));
  if (entries_.erase(key) == 0) return false;
  ++num_changes_;
  return true;
}

std::shared_ptr<const MeasuredModel> FeedbackStore::Find(absl::string_view measured_as) const {
  const auto key = ParseMeasuredAs(measured_as);
  if (!key.ok()) return nullptr;
  auto model = ModelOf(*key);
  if (model != nullptr && uses_ != nullptr) {
    absl::MutexLock lock(&mutex_);
    found_.insert(UseNameOf(*key));
  }
  return model;
}

std::shared_ptr<const MeasuredModel> FeedbackStore::ModelOf(const FeedbackKey& key) const {
  KeptFeedback kept;
  uint64_t change = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    const Entry& entry = found->second;
    if (entry.model != nullptr && entry.fitted_change == entry.last_change) return entry.model;
    kept = entry.kept;
    change = entry.last_change;
  }
  // Not under the mutex: it may take milliseconds.
  auto model = std::make_shared<const MeasuredModel>(FitModel(kept.components, kept.shapes));
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  // Unless it was deleted, even if it is there again, or somebody has fitted later reports.
  if (found != entries_.end() && found->second.first_change <= change &&
      found->second.fitted_change <= change) {
    found->second.model = model;
    found->second.fitted_change = change;
  }
  return model;
}

std::vector<FeedbackReading> FeedbackStore::Readings() const {
  std::vector<FeedbackReading> readings;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, entry] : entries_) {
    // A model that is reported for the first time just now.
    if (entry.model == nullptr) continue;
    const MeasuredModel& model = *entry.model;
    FeedbackReading reading = {key.model,
                               key.device,
                               entry.kept.shapes.num_reports(),
                               entry.kept.shapes.num_out_of_memory(),
                               model.seconds.fixed,
                               model.bytes.fixed,
                               model.seconds.spread,
                               {}};
    for (size_t k = 0; k < model.components.size(); ++k) {
      const auto of = [k](const CostFit& fit) { return fit.per_row.empty() ? 0 : fit.per_row[k]; };
      reading.components.push_back({model.components[k], of(model.seconds), of(model.bytes)});
    }
    readings.push_back(std::move(reading));
  }
  return readings;
}

}  // namespace packhouse
