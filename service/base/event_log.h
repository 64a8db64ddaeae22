// The service's log, as its rooms see it: events that have a name and fields.
#ifndef PACKHOUSE_SERVICE_BASE_EVENT_LOG_H_
#define PACKHOUSE_SERVICE_BASE_EVENT_LOG_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace packhouse {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// A key and a value; at most a bounded number of the value's bytes is written. Both are views,
// which must live until the event is logged.
class LogField {
 public:
  // For names that clients gave, paths, addresses.
  static constexpr size_t kMaxNameBytes = 128;
  // For messages of a status or a library.
  static constexpr size_t kMaxMessageBytes = 512;

  using Value = std::variant<absl::string_view, int64_t, uint64_t, double, bool>;

  LogField(absl::string_view key, absl::string_view name) : key_(key), value_(name) {}
  LogField(absl::string_view key, const char* name) : LogField(key, absl::string_view(name)) {}
  LogField(absl::string_view key, const std::string& name)
      : LogField(key, absl::string_view(name)) {}
  LogField(absl::string_view key, bool value) : key_(key), value_(value) {}
  LogField(absl::string_view key, std::signed_integral auto value)
      : key_(key), value_(static_cast<int64_t>(value)) {}
  LogField(absl::string_view key, std::unsigned_integral auto value)
      : key_(key), value_(static_cast<uint64_t>(value)) {}
  LogField(absl::string_view key, double value) : key_(key), value_(value) {}
  // In milliseconds: the key says so.
  LogField(absl::string_view key, absl::Duration value)
      : LogField(key, absl::ToDoubleMilliseconds(value)) {}

  // Text for people, under the key "message".
  static LogField Message(absl::string_view text) {
    LogField field("message", text);
    field.max_bytes_ = kMaxMessageBytes;
    return field;
  }

  absl::string_view key() const { return key_; }
  const Value& value() const { return value_; }
  size_t max_bytes() const { return max_bytes_; }

 private:
  absl::string_view key_;
  Value value_;
  size_t max_bytes_ = kMaxNameBytes;
};

// Thread-safe. Never waits for the reader of the log: lines that it does not take are dropped. Use
// a LimitedLog for events that clients can cause at will.
class EventLog {
 public:
  virtual ~EventLog() = default;

  // `event`: what happened, in a few words that stay the same. Keys are lower_case and not "time",
  // "level" or "event".
  virtual void Log(LogLevel level, absl::string_view event, absl::Span<const LogField> fields) = 0;
};

// For use where no log is given.
class SilentLog final : public EventLog {
 public:
  void Log(LogLevel /*level*/, absl::string_view /*event*/,
           absl::Span<const LogField> /*fields*/) override {}
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_EVENT_LOG_H_
