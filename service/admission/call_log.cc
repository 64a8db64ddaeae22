#include "service/admission/call_log.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace packhouse {
namespace {

LogLevel LevelOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return LogLevel::kError;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return LogLevel::kWarning;
    default:
      return LogLevel::kInfo;
  }
}

}  // namespace

void LogCall(const CallLog& log, absl::string_view client, Method method,
             const absl::Status& status, absl::Duration elapsed) {
  if (log.failures == nullptr || status.ok()) return;
  const absl::string_view name = kMethodNames[static_cast<size_t>(method)];
  const std::string code = absl::StatusCodeToString(status.code());
  log.failures->Log(absl::StrCat(client, " ", name, " ", code), LevelOf(status.code()),
                    "call failed",
                    {{"client", client},
                     {"method", name},
                     {"code", code},
                     LogField::Message(status.message()),
                     {"ms", elapsed}});
}

void LogCall(const CallLog& log, absl::string_view client, const CallRecord* record, Method method,
             const absl::Status& status, absl::Duration elapsed) {
  LogCall(log, client, method, status, elapsed);
  if (log.journal != nullptr && record != nullptr) {
    log.journal->OnEnded({*record, method, status, elapsed});
  }
}

void LogDeletion(const CallLog& log, absl::string_view client, absl::string_view kind,
                 absl::string_view name) {
  if (log.deletions == nullptr) return;
  log.deletions->Log(absl::StrCat("deletions by ", client), LogLevel::kInfo, "deleted",
                     {{"client", client}, {"kind", kind}, {"name", name}});
}

void LogDamage(const CallLog& log, absl::string_view dataset, uint64_t num_damaged,
               const absl::Status& first) {
  if (log.failures == nullptr) return;
  log.failures->Log(absl::StrCat("damage of ", dataset), LogLevel::kError, "damage found",
                    {{"data_set", dataset},
                     {"damaged_records", num_damaged},
                     LogField::Message(first.message())});
}

}  // namespace packhouse
