// What batches cost on devices, by model and device: kept on the disk, and fitted when it is asked
// for, or now and then as reports come.
#ifndef PACKHOUSE_SERVICE_FEEDBACK_FEEDBACK_STORE_H_
#define PACKHOUSE_SERVICE_FEEDBACK_FEEDBACK_STORE_H_

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
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/admission/retention.h"
#include "service/feedback/feedback_reading.h"
#include "service/planning/feedback/batch_observation.h"
#include "service/planning/feedback/measured_model.h"
#include "service/planning/feedback/measured_shapes.h"

namespace packhouse {

// A model on a device.
struct FeedbackKey {
  std::string model;
  std::string device;

  // NOLINTNEXTLINE(modernize-use-nullptr): of the 0 that what is generated is compared with.
  friend auto operator<=>(const FeedbackKey&, const FeedbackKey&) = default;
};

// INVALID_ARGUMENT naming the model or the device, unless both are names (feedback.proto).
absl::Status CheckFeedbackKey(const FeedbackKey& key);
// "MODEL/DEVICE"; errors as CheckFeedbackKey.
absl::StatusOr<FeedbackKey> ParseMeasuredAs(absl::string_view measured_as);

// What is kept of one model on one device.
struct KeptFeedback {
  // `graphs` last.
  std::vector<std::string> components;
  MeasuredShapes shapes;
  // Seconds since 1970 of the latest report.
  uint64_t last_report_seconds = 0;

  friend bool operator==(const KeptFeedback&, const KeptFeedback&) = default;
};

// Thread-safe. Some 10 KiB for each model of two components; at most 48 shapes each.
class FeedbackStore final : public MeasuredModels {
 public:
  struct Options {
    // The file with everything, in a folder that exists: written as a whole for each change, or
    // once for several that come together. Empty: in memory only.
    std::string folder;
    std::string file;
    size_t max_models = 256;
  };

  // Reads the file, if there is one. DATA_LOSS naming it if it is damaged.
  static absl::StatusOr<std::unique_ptr<FeedbackStore>> Open(Options options);

  // Without a file.
  static std::unique_ptr<FeedbackStore> InMemory();

  // From now on it is known when models were last used: reported, or asked for by Find(). To be
  // called once, before other threads have the store. `path` and `now` as for LastUses.
  void NoteUses(std::string path, Retention retention, std::function<absl::Time()> now);
  bool notes_uses() const { return uses_ != nullptr; }
  // That DeleteUnused() has deleted.
  uint64_t num_expired() const { return uses_ == nullptr ? 0 : uses_->num_expired(); }
  // Deletes each model that was not used for as long as the retention of its namespace says.
  // Requires NoteUses(). An error is the first one; the others are deleted nevertheless.
  absl::Status DeleteUnused(std::vector<Expired>& expired);
  // Writes when models were last used, as DeleteUnused() does too; for the end of the server.
  absl::Status SaveUses();

  // For Readings(), a model is fitted with a report unless that was done less than this ago.
  static constexpr absl::Duration kBetweenFits = absl::Seconds(10);

  // Durable when it returns. The number of reports of the model now. Capacities are in the order of
  // `components`. Nobody who reads waits while observations are added; other reports do.
  //
  // INVALID_ARGUMENT as CheckFeedbackKey; FAILED_PRECONDITION for other components than the
  // model's; RESOURCE_EXHAUSTED for a model too many: then nothing is kept. As WriteWhole() if the
  // disk is full or fails: then the reports are kept in memory, and written with the next.
  absl::StatusOr<uint64_t> Report(const FeedbackKey& key,
                                  const std::vector<std::string>& components,
                                  absl::Span<const BatchObservation> observations, absl::Time now);

  // NOT_FOUND.
  absl::StatusOr<KeptFeedback> Get(const FeedbackKey& key) const;
  // By model and device.
  std::vector<FeedbackKey> Keys() const;
  // NOT_FOUND; as Report() if the disk fails: then it is forgotten in memory, and a retry that gets
  // NOT_FOUND has written it.
  absl::Status Delete(const FeedbackKey& key);

  std::shared_ptr<const MeasuredModel> Find(absl::string_view measured_as) const override;
  // As Find(), but no use.
  std::shared_ptr<const MeasuredModel> ModelOf(const FeedbackKey& key) const;

  // For metrics: the counts of now, and the law that was fitted last, which may lack the reports of
  // kBetweenFits. Fits nothing: O(models).
  std::vector<FeedbackReading> Readings() const;

 private:
  struct Entry {
    KeptFeedback kept;
    // The numbers of the changes that made the entry, and that changed it last.
    uint64_t first_change = 0;
    uint64_t last_change = 0;
    // As it was fitted last, of the reports up to `fitted_change`; null: never.
    std::shared_ptr<const MeasuredModel> model;
    uint64_t fitted_change = 0;
    absl::Time fitted = absl::InfinitePast();
  };

  explicit FeedbackStore(Options options) : options_(std::move(options)) {}

  // Makes all changes up to now durable.
  absl::Status Write();
  // In memory alone, and what is known of its uses stays. Whether it was there.
  bool Erase(const FeedbackKey& key);
  void FitIfDue(const FeedbackKey& key, absl::Time now) const;

  const Options options_;
  // Held while an entry is changed; taken before mutex_.
  absl::Mutex changing_;
  mutable absl::Mutex mutex_;
  mutable std::map<FeedbackKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
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

#endif  // PACKHOUSE_SERVICE_FEEDBACK_FEEDBACK_STORE_H_
