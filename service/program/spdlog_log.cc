#include "service/program/spdlog_log.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "service/base/execution.h"
#include "service/base/log_line.h"
#include "spdlog/async.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace packhouse {
namespace {

constexpr size_t kMaxWaiting = 1024;

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

void SetForm(spdlog::logger& logger) {
  logger.set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})");
  // spdlog's own error lines would have another form. They are not needed: the only error is use
  // after Close().
  logger.set_error_handler([](const std::string&) {});
}

}  // namespace

SpdlogLog::SpdlogLog(const std::string& level)
    : writer_(std::make_shared<spdlog::details::thread_pool>(kMaxWaiting, 1)),
      logger_(std::make_shared<spdlog::async_logger>(
          "packhouse", std::make_shared<spdlog::sinks::stderr_sink_mt>(), writer_,
          spdlog::async_overflow_policy::overrun_oldest)) {
  SetForm(*logger_);
  logger_->set_level(spdlog::level::from_str(level));
}

SpdlogLog::~SpdlogLog() = default;

void SpdlogLog::set_level(const std::string& level) {
  logger_->set_level(spdlog::level::from_str(level));
}

std::string SpdlogLog::level() const {
  const spdlog::string_view_t name = spdlog::level::to_string_view(logger_->level());
  return std::string(name.data(), name.size());
}

void SpdlogLog::Log(LogLevel level, absl::string_view event, absl::Span<const LogField> fields) {
  const auto spdlog_level = LevelOf(level);
  if (!logger_->should_log(spdlog_level)) return;
  const std::string members = JsonMembers(event, fields);
  try {
    logger_->log(spdlog_level, spdlog::string_view_t(members.data(), members.size()));
  } catch (const spdlog::spdlog_ex&) {
    // Closed: the process is about to end, and other threads go on until it does.
  }
}

void SpdlogLog::LogAtOnce(LogLevel level, absl::string_view event,
                          absl::Span<const LogField> fields) {
  spdlog::logger logger("packhouse", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  SetForm(logger);
  const std::string members = JsonMembers(event, fields);
  logger.log(LevelOf(level), spdlog::string_view_t(members.data(), members.size()));
  logger.flush();
}

void SpdlogLog::Close(absl::Duration timeout) {
  // Its destructor waits for all lines; that never ends if nobody reads them.
  const auto written = std::make_shared<absl::Notification>();
  Thread([written, writer = std::move(writer_)]() mutable {
    writer.reset();
    written->Notify();
  }).Detach();
  written->WaitForNotificationWithTimeout(timeout);
}

}  // namespace packhouse
