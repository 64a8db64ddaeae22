#include "service/server/metrics/call_exemplars.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"

namespace packhouse::metrics {
namespace {

bool IsLowerHex(absl::string_view digits) {
  return std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

// "00-" TRACE "-" PARENT "-" FLAGS; later versions may have more behind it.
constexpr size_t kTraceAt = 3;
constexpr size_t kTraceDigits = 32;
constexpr size_t kFlagsAt = 53;

}  // namespace

std::string SampledTrace(absl::string_view traceparent) {
  if (traceparent.size() < kFlagsAt + 2 || traceparent[2] != '-' || traceparent[35] != '-' ||
      traceparent[52] != '-') {
    return "";
  }
  const absl::string_view trace = traceparent.substr(kTraceAt, kTraceDigits);
  const absl::string_view flags = traceparent.substr(kFlagsAt, 2);
  if (!IsLowerHex(trace) || !IsLowerHex(flags)) return "";
  if (trace.find_first_not_of('0') == absl::string_view::npos) return "";
  // The lowest bit of the last digit.
  const char last = flags[1];
  const int value = last <= '9' ? last - '0' : last - 'a' + 10;
  return value % 2 == 1 ? std::string(trace) : "";
}

CallExemplars::CallExemplars(std::vector<absl::Span<const double>> bounds)
    : bounds_(std::move(bounds)) {
  absl::MutexLock lock(&mutex_);
  for (const absl::Span<const double>& each : bounds_) exemplars_.emplace_back(each.size() + 1);
}

void CallExemplars::OnEnded(Method method, absl::string_view traceparent, absl::Duration elapsed) {
  if (traceparent.empty()) return;
  std::string trace = SampledTrace(traceparent);
  if (trace.empty()) return;
  const auto row = static_cast<size_t>(method);
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const absl::Span<const double> bounds = bounds_[row];
  const auto bucket =
      static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin());
  absl::MutexLock lock(&mutex_);
  exemplars_[row][bucket] = Exemplar{std::move(trace), seconds, absl::Now()};
}

std::vector<std::optional<Exemplar>> CallExemplars::Of(absl::string_view method) const {
  const auto found = std::find(kMethodNames.begin(), kMethodNames.end(), method);
  if (found == kMethodNames.end()) return {};
  absl::MutexLock lock(&mutex_);
  return exemplars_[static_cast<size_t>(found - kMethodNames.begin())];
}

}  // namespace packhouse::metrics
