// Measured models in memory, and the laws that were fitted to them.
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_KNOWN_MODELS_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_KNOWN_MODELS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/engine/feedback/feedback_reading.h"
#include "service/engine/feedback/kept_feedback.h"

namespace packhouse {

// Thread-safe. Nobody waits while a law is fitted, but who asked for it.
class KnownModels {
 public:
  // For Readings(), a model is fitted with a report unless that was done less than this ago.
  static constexpr absl::Duration kBetweenFits = absl::Seconds(10);

  std::optional<KeptFeedback> Get(const FeedbackKey& key) const;
  std::map<FeedbackKey, KeptFeedback> All() const;
  size_t size() const;

  // What is known of a model now. Versions of one model grow; a version that is older than the
  // known one changes nothing. The law is fitted anew only if something has changed.
  void Put(const FeedbackKey& key, KeptFeedback kept, uint64_t version);
  // Whether it was there.
  bool Erase(const FeedbackKey& key);

  // Null if nothing is known. Fits the law, if it is not that of the present version.
  std::shared_ptr<const MeasuredModel> ModelOf(const FeedbackKey& key) const;
  // The same for Readings(), unless it was done less than kBetweenFits ago.
  void FitIfDue(const FeedbackKey& key, absl::Time now) const;
  // For metrics: the counts of now, and the law that was fitted last, which may lack the reports of
  // kBetweenFits. Fits nothing: O(models).
  std::vector<FeedbackReading> Readings() const;

 private:
  struct Entry {
    KeptFeedback kept;
    uint64_t version = 0;
    // Another one each time that the entry is made.
    uint64_t life = 0;
    // As it was fitted last, of the version `fitted_version`; null: never.
    std::shared_ptr<const MeasuredModel> model;
    uint64_t fitted_version = 0;
    absl::Time fitted = absl::InfinitePast();
  };

  mutable absl::Mutex mutex_;
  mutable std::map<FeedbackKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_lives_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_KNOWN_MODELS_H_
