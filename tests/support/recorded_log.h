// A log that tests read.
#ifndef PACKHOUSE_TESTS_SUPPORT_RECORDED_LOG_H_
#define PACKHOUSE_TESTS_SUPPORT_RECORDED_LOG_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/base/event_log.h"
#include "service/base/log_line.h"

namespace packhouse {

// Keeps every event as a line: `warning "event":"x","key":1`. Thread-safe.
class RecordedLog final : public EventLog {
 public:
  void Log(LogLevel level, absl::string_view event, absl::Span<const LogField> fields) override {
    static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
    std::string line =
        absl::StrCat(kNames[static_cast<size_t>(level)], " ", JsonMembers(event, fields));
    absl::MutexLock lock(&mutex_);
    lines_.push_back(std::move(line));
  }

  std::vector<std::string> lines() const {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

  // Waits for a line that has `part` in it.
  std::string Await(absl::string_view part) const {
    std::string found;
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto line = std::find_if(lines_.begin(), lines_.end(), [&](const std::string& one) {
        return absl::StrContains(one, part);
      });
      if (line != lines_.end()) found = *line;
      return line != lines_.end();
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&is_there));
    return found;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_RECORDED_LOG_H_
