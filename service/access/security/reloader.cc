#include "service/access/security/reloader.h"

#include <utility>

namespace packhouse::security {

void Reloader::Add(std::string name, Reloadable* what) {
  absl::MutexLock lock(&mutex_);
  Item& item = items_.emplace_back();
  item.what = what;
  item.reading.name = std::move(name);
  LogNote(item);
}

void Reloader::LogNote(const Item& item) {
  const std::string note = item.what->note();
  if (note.empty()) return;
  log_->Log(LogLevel::kWarning, "not all is in use",
            {{"what", item.reading.name}, LogField::Message(note)});
}

void Reloader::Read(bool is_asked) {
  absl::MutexLock ticking(&ticking_);
  const size_t count = [this] {
    absl::MutexLock lock(&mutex_);
    return items_.size();
  }();
  for (size_t i = 0; i < count; ++i) {
    Reloadable* const what = [this, i] {
      absl::MutexLock lock(&mutex_);
      return items_[i].what;
    }();
    // Reading may wait for a disk.
    const absl::StatusOr<bool> reloaded = is_asked ? what->Reload() : what->Look();
    absl::MutexLock lock(&mutex_);
    Item& item = items_[i];
    if (!reloaded.ok()) {
      const std::string failure(reloaded.status().message());
      item.reading.is_broken = true;
      if (failure == item.reading.failure) continue;
      item.reading.failure = failure;
      ++item.reading.num_failures;
      log_->Log(LogLevel::kError, "not reloaded",
                {{"what", item.reading.name}, LogField::Message(failure)});
      continue;
    }
    // What is there instead may be broken as well.
    if (!is_asked && !what->is_at_rest()) continue;
    item.reading.is_broken = false;
    const bool was_broken = !std::exchange(item.reading.failure, "").empty();
    if (*reloaded) ++item.reading.num_reloads;
    if (*reloaded || was_broken) {
      log_->Log(LogLevel::kInfo, "reloaded", {{"what", item.reading.name}});
    }
    if (*reloaded) LogNote(item);
  }
}

std::vector<Reloader::Reading> Reloader::readings() const {
  std::vector<Reading> readings;
  absl::MutexLock lock(&mutex_);
  for (const Item& item : items_) {
    readings.push_back(item.reading);
    readings.back().begins = item.what->begins();
    readings.back().expires = item.what->expires();
  }
  return readings;
}

}  // namespace packhouse::security
