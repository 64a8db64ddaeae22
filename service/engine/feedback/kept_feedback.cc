#include "service/engine/feedback/kept_feedback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kMaxModelName = 128;
constexpr size_t kMaxDeviceName = 64;

}  // namespace

absl::Status CheckFeedbackKey(const FeedbackKey& key) {
  if (!IsValidName(key.model, kMaxModelName, "_./-")) {
    return absl::InvalidArgumentError(absl::StrCat("model: ", Quoted(key.model), " must be 1 to ",
                                                   kMaxModelName,
                                                   " characters of [A-Za-z0-9_./-]"));
  }
  if (!IsValidName(key.device, kMaxDeviceName, "_.-")) {
    return absl::InvalidArgumentError(absl::StrCat("device: ", Quoted(key.device), " must be 1 to ",
                                                   kMaxDeviceName,
                                                   " characters of [A-Za-z0-9_.-]"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FeedbackKey> ParseMeasuredAs(absl::string_view measured_as) {
  const size_t slash = measured_as.rfind('/');
  if (slash == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("measured_as: ", Quoted(measured_as), " must be MODEL/DEVICE"));
  }
  FeedbackKey key = {std::string(measured_as.substr(0, slash)),
                     std::string(measured_as.substr(slash + 1))};
  PH_RETURN_IF_ERROR(CheckFeedbackKey(key));
  return key;
}

absl::Status NoSuchModel(const FeedbackKey& key) {
  return absl::NotFoundError(absl::StrCat("model ", Quoted(key.model), " on device ",
                                          Quoted(key.device), ": nothing was reported"));
}

absl::Status AddReport(const FeedbackKey& key, const std::vector<std::string>& components,
                       absl::Span<const BatchObservation> observations, absl::Time now,
                       KeptFeedback& kept) {
  if (kept.components != components) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model ", Quoted(key.model), " on device ", Quoted(key.device), ": has components ",
        absl::StrJoin(kept.components, ", "), ", reported are ", absl::StrJoin(components, ", ")));
  }
  for (const BatchObservation& observation : observations) kept.shapes.Add(observation);
  kept.last_report_seconds = static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixSeconds(now)));
  return absl::OkStatus();
}

absl::Status CheckRoomForModel(const FeedbackKey& key, size_t num_models, size_t max_models) {
  if (num_models < max_models) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("model ", Quoted(key.model), ": ", num_models,
                                                   " models are kept, at most ", max_models,
                                                   " (--max-measured-models); delete one"));
}

}  // namespace packhouse
