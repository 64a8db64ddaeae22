#include "service/server/listen/library_logs.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"

namespace packhouse::rpc {
namespace {

// The libraries' hooks take no argument of ours.
std::atomic<LimitedLog*> log_of_libraries = nullptr;
std::atomic<LogLevel> most_level = LogLevel::kError;

void Log(const char* library, LogLevel level, absl::string_view file, int line,
         absl::string_view message) {
  LimitedLog* const log = log_of_libraries.load(std::memory_order_acquire);
  if (log == nullptr) return;
  const std::string where = absl::StrCat(file.substr(file.rfind('/') + 1), ":", line);
  log->Log(absl::StrCat(library, " ", where), std::min(level, most_level.load()), library,
           {{"where", where}, LogField::Message(message)});
}

void OnGrpc(gpr_log_func_args* args) {
  LogLevel level = LogLevel::kDebug;
  if (args->severity == GPR_LOG_SEVERITY_INFO) level = LogLevel::kInfo;
  if (args->severity == GPR_LOG_SEVERITY_ERROR) level = LogLevel::kError;
  Log("grpc", level, args->file, args->line, args->message);
}

// A string that is not UTF-8 is an error for protobuf. For us it is a client's mistake, and the
// call goes on.
void OnProtobuf(google::protobuf::LogLevel protobuf_level, const char* file, int line,
                const std::string& message) {
  LogLevel level = LogLevel::kError;
  if (protobuf_level == google::protobuf::LOGLEVEL_INFO) level = LogLevel::kInfo;
  if (protobuf_level == google::protobuf::LOGLEVEL_WARNING ||
      protobuf_level == google::protobuf::LOGLEVEL_ERROR) {
    level = LogLevel::kWarning;
  }
  Log("protobuf", level, file, line, message);
}

}  // namespace

void RouteLibraryLogs(LimitedLog* log, LogLevel most) {
  most_level = most;
  log_of_libraries.store(log, std::memory_order_release);
  gpr_set_log_function(&OnGrpc);
  google::protobuf::SetLogHandler(&OnProtobuf);
}

}  // namespace packhouse::rpc
