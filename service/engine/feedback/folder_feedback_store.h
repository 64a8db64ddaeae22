// What batches cost on devices, kept in a file, or in memory alone.
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FOLDER_FEEDBACK_STORE_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FOLDER_FEEDBACK_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/feedback/known_models.h"

namespace packhouse {

// Thread-safe.
class FolderFeedbackStore final : public FeedbackStore {
 public:
  struct Options {
    // The file with everything, in a folder that exists: written as a whole for each change, or
    // once for several that come together. Empty: in memory only.
    std::string folder;
    std::string file;
    size_t max_models = 256;
  };

  // Reads the file, if there is one. DATA_LOSS naming it if it is damaged.
  static absl::StatusOr<std::unique_ptr<FolderFeedbackStore>> Open(Options options);

  // Without a file.
  static std::unique_ptr<FolderFeedbackStore> InMemory();

  // From now on uses are noted. To be called once, before other threads have the store. `path` and
  // `now` as for LastUses.
  void NoteUses(std::string path, Retention retention, std::function<absl::Time()> now);
  bool notes_uses() const override { return uses_ != nullptr; }
  uint64_t num_expired() const override { return uses_ == nullptr ? 0 : uses_->num_expired(); }
  absl::Status DeleteUnused(std::vector<Expired>& expired) override;
  absl::Status SaveUses() override;

  // Besides its own errors, as WriteWhole() if the disk is full or fails: then the reports are kept
  // in memory, and written with the next.
  absl::StatusOr<uint64_t> Report(const FeedbackKey& key,
                                  const std::vector<std::string>& components,
                                  absl::Span<const BatchObservation> observations,
                                  absl::Time now) override;
  absl::StatusOr<KeptFeedback> Get(const FeedbackKey& key) const override;
  absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> All() const override;
  // As Report() if the disk fails: then it is forgotten in memory, and a retry that gets NOT_FOUND
  // has written it.
  absl::Status Delete(const FeedbackKey& key) override;

  std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const override;
  std::shared_ptr<const MeasuredModel> ModelOf(const FeedbackKey& key) const override {
    return models_.ModelOf(key);
  }
  std::vector<FeedbackReading> Readings() const override { return models_.Readings(); }

 private:
  explicit FolderFeedbackStore(Options options) : options_(std::move(options)) {}

  // Makes all changes up to now durable.
  absl::Status Write();
  // In memory alone, and what is known of its uses stays. Whether it was there.
  bool Erase(const FeedbackKey& key);

  const Options options_;
  KnownModels models_;
  // Held while a model is changed; taken before mutex_.
  absl::Mutex changing_;
  mutable absl::Mutex mutex_;
  // Counts those that are in models_.
  uint64_t num_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  // What Find() gave since the last sweep: it does not wait for the disk, as LastUses::Use() may.
  mutable std::set<std::string> found_ ABSL_GUARDED_BY(mutex_);
  // Held while the file is written; taken before mutex_.
  absl::Mutex writing_;
  uint64_t num_written_ ABSL_GUARDED_BY(writing_) = 0;
  // Null: nothing expires. Its lock is taken before mutex_.
  std::unique_ptr<LastUses> uses_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FOLDER_FEEDBACK_STORE_H_
