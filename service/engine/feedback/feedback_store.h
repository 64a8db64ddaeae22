// What batches cost on devices, by model and device: told by trainers, and fitted when it is asked
// for, or now and then as reports come.
//
// Start here. FolderFeedbackStore keeps it in a file, or in memory; `shared` has the one of several
// servers.
#ifndef PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_STORE_H_
#define PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/feedback/batch_observation.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/planning/feedback/measured_shapes.h"
#include "service/engine/feedback/feedback_reading.h"
#include "service/stores/limits/retention.h"

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
// NOT_FOUND, as all stores say it.
absl::Status NoSuchModel(const FeedbackKey& key);

// What is kept of one model on one device.
struct KeptFeedback {
  // `graphs` last.
  std::vector<std::string> components;
  MeasuredShapes shapes;
  // Seconds since 1970 of the latest report.
  uint64_t last_report_seconds = 0;

  friend bool operator==(const KeptFeedback&, const KeptFeedback&) = default;
};

// Adds what was reported at `now`. FAILED_PRECONDITION for other components than the model's.
absl::Status AddReport(const FeedbackKey& key, const std::vector<std::string>& components,
                       absl::Span<const BatchObservation> observations, absl::Time now,
                       KeptFeedback& kept);
// RESOURCE_EXHAUSTED if there is no room for one model more than `num_models`.
absl::Status CheckRoomForModel(const FeedbackKey& key, size_t num_models, size_t max_models);

// Thread-safe. Some 10 KiB for each model of two components; at most 48 shapes each.
class FeedbackStore : public MeasuredModels {
 public:
  ~FeedbackStore() override = default;

  // Whether it is known when models were last used: reported, or asked for by Find().
  virtual bool notes_uses() const = 0;
  // That DeleteUnused() has deleted.
  virtual uint64_t num_expired() const = 0;
  // Deletes each model that was not used for as long as the retention of its namespace says.
  // Requires notes_uses(). An error is the first one; the others are deleted nevertheless.
  virtual absl::Status DeleteUnused(std::vector<Expired>& expired) = 0;
  // Writes when models were last used, as DeleteUnused() does too; for the end of the server.
  virtual absl::Status SaveUses() = 0;

  // For Readings(), a model is fitted with a report unless that was done less than this ago.
  static constexpr absl::Duration kBetweenFits = absl::Seconds(10);

  // Durable when it returns. The number of reports of the model now. Capacities are in the order of
  // `components`. Nobody who reads waits while observations are added; other reports do.
  //
  // INVALID_ARGUMENT as CheckFeedbackKey; FAILED_PRECONDITION for other components than the
  // model's; RESOURCE_EXHAUSTED for a model too many: then nothing is kept. Others as the store
  // says.
  virtual absl::StatusOr<uint64_t> Report(const FeedbackKey& key,
                                          const std::vector<std::string>& components,
                                          absl::Span<const BatchObservation> observations,
                                          absl::Time now) = 0;

  // NOT_FOUND.
  virtual absl::StatusOr<KeptFeedback> Get(const FeedbackKey& key) const = 0;
  // By model and device.
  virtual absl::StatusOr<std::map<FeedbackKey, KeptFeedback>> All() const = 0;
  // NOT_FOUND.
  virtual absl::Status Delete(const FeedbackKey& key) = 0;

  // As Find(), of what Get(), All() and Report() have given last; no use.
  virtual std::shared_ptr<const MeasuredModel> ModelOf(const FeedbackKey& key) const = 0;

  // For metrics: the counts of now, and the law that was fitted last, which may lack the reports of
  // kBetweenFits. Fits nothing: O(models).
  virtual std::vector<FeedbackReading> Readings() const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_FEEDBACK_FEEDBACK_STORE_H_
