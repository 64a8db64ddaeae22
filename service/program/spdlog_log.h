// The log of packhoused: JSON lines on stderr, by spdlog.
#ifndef PACKHOUSE_SERVICE_PROGRAM_SPDLOG_LOG_H_
#define PACKHOUSE_SERVICE_PROGRAM_SPDLOG_LOG_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/base/event_log.h"

namespace spdlog {
class logger;
namespace details {
class thread_pool;
}  // namespace details
}  // namespace spdlog

namespace packhouse {

// One JSON object per line: "time", "level", "event", and the event's fields. A separate thread
// writes; while nobody reads stderr, the latest 1024 lines are kept and older ones dropped.
class SpdlogLog final : public EventLog {
 public:
  // `level`: "trace", "debug", "info", "warning", "error" or "off"; lower levels are dropped.
  explicit SpdlogLog(const std::string& level);
  ~SpdlogLog() override;

  // Thread-safe; from now on. The names of the constructor.
  void set_level(const std::string& level);
  std::string level() const;

  void Log(LogLevel level, absl::string_view event, absl::Span<const LogField> fields) override;

  // One line, on the calling thread, for a process that cannot have another one.
  static void LogAtOnce(LogLevel level, absl::string_view event, absl::Span<const LogField> fields);

  // Returns when all lines are written, or after `timeout`. For the end of the process: what is
  // logged afterwards is dropped.
  void Close(absl::Duration timeout);

 private:
  std::shared_ptr<spdlog::details::thread_pool> writer_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_SPDLOG_LOG_H_
