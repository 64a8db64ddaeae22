#include "service/server/calls/call_log.h"

#include <string>
#include <vector>

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
  LogCall(log, client, /*record=*/nullptr, method, status, elapsed);
}

void LogCall(const CallLog& log, absl::string_view client, const CallRecord* record, Method method,
             const absl::Status& status, absl::Duration elapsed) {
  if (record != nullptr && log.journal != nullptr) {
    log.journal->OnEnded({*record, method, status, elapsed});
  }
  if (log.failures == nullptr || status.ok()) return;
  const absl::string_view name = kMethodNames[static_cast<size_t>(method)];
  const std::string code = absl::StatusCodeToString(status.code());
  std::vector<LogField> fields = {{"client", client},
                                  {"method", name},
                                  {"code", code},
                                  LogField::Message(status.message()),
                                  {"ms", elapsed}};
  if (record != nullptr) {
    if (!record->request_id.empty()) fields.push_back({"request_id", record->request_id});
    if (!record->trace.empty()) fields.push_back({"trace", record->trace});
  }
  log.failures->Log(absl::StrCat(client, " ", name, " ", code), LevelOf(status.code()),
                    "call failed", fields);
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
