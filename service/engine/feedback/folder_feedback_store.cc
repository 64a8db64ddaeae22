#include "service/engine/feedback/folder_feedback_store.h"

#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/stored_feedback.h"

namespace packhouse {
namespace {

// What the uses of a model are kept by: in the model's namespace, and unlike every other model's.
std::string UseNameOf(const FeedbackKey& key) { return absl::StrCat(key.model, " ", key.device); }

}  // namespace

absl::StatusOr<std::unique_ptr<FolderFeedbackStore>> FolderFeedbackStore::Open(Options options) {
  auto store = std::unique_ptr<FolderFeedbackStore>(new FolderFeedbackStore(std::move(options)));
  if (store->options_.folder.empty()) return store;
  const std::string path = absl::StrCat(store->options_.folder, "/", store->options_.file);
  const absl::StatusOr<std::string> bytes = ReadWhole(path);
  if (absl::IsNotFound(bytes.status())) {
    // So that a file that is lost is not taken for one that never was; the disk may refuse it now.
    WriteWhole(store->options_.folder, store->options_.file, EncodeFeedback({})).IgnoreError();
    return store;
  }
  PH_RETURN_IF_ERROR(bytes.status());
  auto all = DecodeFeedback(*bytes);
  if (!all.ok()) {
    return absl::Status(all.status().code(), absl::StrCat("'", path, "': ", all.status().message(),
                                                          "; move it away, and packhoused store "
                                                          "repair --accept-missing goes on without "
                                                          "measurements"));
  }
  for (auto& [key, kept] : *all) {
    store->models_.Put(key, std::move(kept), 0);
    (void)store->ModelOf(key);  // Readings() has them from the start.
  }
  return store;
}

std::unique_ptr<FolderFeedbackStore> FolderFeedbackStore::InMemory() {
  return std::unique_ptr<FolderFeedbackStore>(new FolderFeedbackStore(Options()));
}

absl::StatusOr<uint64_t> FolderFeedbackStore::Report(
    const FeedbackKey& key, const std::vector<std::string>& components,
    absl::Span<const BatchObservation> observations, absl::Time now) {
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  // First: then it is not deleted with what is added.
  if (uses_ != nullptr) uses_->Use(UseNameOf(key));
  uint64_t num_reports = 0;
  {
    absl::MutexLock changing(&changing_);
    std::optional<KeptFeedback> kept = models_.Get(key);
    if (!kept) {
      PH_RETURN_IF_ERROR(CheckRoomForModel(key, models_.size(), options_.max_models));
      kept = KeptFeedback{components, {}, 0};
    }
    PH_RETURN_IF_ERROR(AddReport(key, components, observations, now, *kept));
    num_reports = kept->shapes.num_reports();
    // Only then it counts as something to be written.
    models_.Put(key, *std::move(kept), num_reports);
    absl::MutexLock lock(&mutex_);
    ++num_changes_;
  }
  if (uses_ != nullptr) uses_->Know(UseNameOf(key));
  const absl::Status written = Write();
  models_.FitIfDue(key, now);
  PH_RETURN_IF_ERROR(written);
  return num_reports;
}

absl::Status FolderFeedbackStore::Write() {
  if (options_.folder.empty()) return absl::OkStatus();
  uint64_t wanted = 0;
  {
    absl::MutexLock lock(&mutex_);
    wanted = num_changes_;
  }
  absl::MutexLock writing(&writing_);
  // Somebody else's write had it.
  if (num_written_ >= wanted) return absl::OkStatus();
  {
    absl::MutexLock lock(&mutex_);
    wanted = num_changes_;
  }
  PH_RETURN_IF_ERROR(WriteWhole(options_.folder, options_.file, EncodeFeedback(models_.All())));
  num_written_ = wanted;
  return absl::OkStatus();
}

absl::StatusOr<KeptFeedback> FolderFeedbackStore::Get(const FeedbackKey& key) const {
  std::optional<KeptFeedback> kept = models_.Get(key);
  if (!kept) return NoSuchModel(key);
  return *std::move(kept);
}

absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> FolderFeedbackStore::All() const {
  return models_.All();
}

void FolderFeedbackStore::NoteUses(std::string path, Retention retention,
                                   std::function<absl::Time()> now) {
  uses_ =
      std::make_unique<LastUses>(std::move(path), std::move(retention), std::move(now),
                                 [this](absl::FunctionRef<void(const std::string& name)> in_use) {
                                   absl::MutexLock lock(&mutex_);
                                   for (const std::string& name : found_) in_use(name);
                                   found_.clear();
                                 });
  for (const auto& [key, kept] : models_.All()) uses_->Know(UseNameOf(key));
}

absl::Status FolderFeedbackStore::DeleteUnused(std::vector<Expired>& expired) {
  absl::Status first_error;
  for (const auto& [each, kept] : models_.All()) {
    const FeedbackKey& key = each;
    const auto unused = uses_->RemoveIfUnused(
        UseNameOf(key), [&] { return Erase(key) ? absl::OkStatus() : NoSuchModel(key); });
    if (!unused.ok() && first_error.ok()) first_error = unused.status();
    if (unused.ok() && *unused) {
      expired.push_back({absl::StrCat(key.model, "/", key.device), **unused,
                         EncodeFeedback({{key, kept}}).size()});
    }
  }
  // Once for all of them; also what an earlier sweep has erased, and the disk did not take.
  const absl::Status written = Write();
  const absl::Status saved = SaveUses();
  if (!first_error.ok()) return first_error;
  return written.ok() ? saved : written;
}

absl::Status FolderFeedbackStore::SaveUses() {
  return uses_ == nullptr ? absl::OkStatus() : uses_->Save();
}

absl::Status FolderFeedbackStore::Delete(const FeedbackKey& key) {
  const bool is_erased = Erase(key);
  // Also if the first try has erased it, and the disk failed.
  PH_RETURN_IF_ERROR(Write());
  if (!is_erased) return NoSuchModel(key);
  if (uses_ != nullptr) uses_->Forget(UseNameOf(key));
  return absl::OkStatus();
}

bool FolderFeedbackStore::Erase(const FeedbackKey& key) {
  absl::MutexLock changing(&changing_);
  {
    absl::MutexLock lock(&mutex_);
    found_.erase(UseNameOf(key));
  }
  if (!models_.Erase(key)) return false;
  absl::MutexLock lock(&mutex_);
  ++num_changes_;
  return true;
}

std::shared_ptr<const MeasuredModel> FolderFeedbackStore::Find(
    absl::string_view measured_as) const {
  const auto key = ParseMeasuredAs(measured_as);
  if (!key.ok()) return nullptr;
  auto model = ModelOf(*key);
  if (model != nullptr && uses_ != nullptr) {
    absl::MutexLock lock(&mutex_);
    found_.insert(UseNameOf(*key));
  }
  return model;
}

}  // namespace packhouse
