#include "service/server/calls/readiness.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace packhouse {

void Readiness::Add(std::string reason, WhyNot why_not) {
  absl::MutexLock lock(&mutex_);
  reasons_.push_back({std::move(reason), std::move(why_not)});
}

std::vector<Readiness::Reading> Readiness::Read() const {
  // A copy: they are not asked under the lock.
  const std::vector<Reason> reasons = [this] {
    absl::MutexLock lock(&mutex_);
    return reasons_;
  }();
  std::vector<Reading> readings;
  readings.reserve(reasons.size());
  for (const Reason& reason : reasons) readings.push_back({reason.name, reason.why_not()});
  return readings;
}

std::string Readiness::why_not() const {
  std::string lines;
  for (const Reading& reading : Read()) {
    if (reading.why_not.empty()) continue;
    absl::StrAppend(&lines, lines.empty() ? "" : "\n", reading.why_not);
  }
  return lines;
}

}  // namespace packhouse
