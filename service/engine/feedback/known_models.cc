#include "service/engine/feedback/known_models.h"

#include <utility>

namespace packhouse {

std::optional<KeptFeedback> KnownModels::Get(const FeedbackKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second.kept;
}

std::map<FeedbackKey, KeptFeedback> KnownModels::All() const {
  std::map<FeedbackKey, KeptFeedback> all;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, entry] : entries_) all.emplace(key, entry.kept);
  return all;
}

size_t KnownModels::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

void KnownModels::Put(const FeedbackKey& key, KeptFeedback kept, uint64_t version) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[key];
  if (entry.life == 0) entry.life = ++num_lives_;
  if (version < entry.version) return;
  // The law is that of the contents.
  if (entry.kept == kept) return;
  entry.kept = std::move(kept);
  entry.version = version;
}

bool KnownModels::Erase(const FeedbackKey& key) {
  absl::MutexLock lock(&mutex_);
  return entries_.erase(key) != 0;
}

std::shared_ptr<const MeasuredModel> KnownModels::ModelOf(const FeedbackKey& key) const {
  KeptFeedback kept;
  uint64_t version = 0;
  uint64_t life = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    const Entry& entry = found->second;
    if (entry.model != nullptr && entry.fitted_version == entry.version) return entry.model;
    kept = entry.kept;
    version = entry.version;
    life = entry.life;
  }
  // Not under the mutex: it may take milliseconds.
  auto model = std::make_shared<const MeasuredModel>(FitModel(kept.components, kept.shapes));
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  // Unless it was deleted, even if it is there again, or somebody has fitted later reports.
  if (found != entries_.end() && found->second.life == life &&
      found->second.fitted_version <= version) {
    found->second.model = model;
    found->second.fitted_version = version;
  }
  return model;
}

void KnownModels::FitIfDue(const FeedbackKey& key, absl::Time now) const {
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

std::vector<FeedbackReading> KnownModels::Readings() const {
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
