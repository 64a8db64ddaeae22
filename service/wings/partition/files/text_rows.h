// Text files of numbers: lines with fields between spaces.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_TEXT_ROWS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_TEXT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// The lines of a text, without their ends. What stands behind the last newline is a line unless it
// is empty.
class TextLines {
 public:
  explicit TextLines(absl::string_view text) : rest_(text) {}

  std::optional<absl::string_view> Next();
  // Of the line that Next gave last; the first is 1.
  uint64_t number() const { return number_; }

  // INVALID_ARGUMENT with the number of the line.
  absl::Status Wrong(absl::string_view what) const;

 private:
  absl::string_view rest_;
  uint64_t number_ = 0;
};

// The fields of a line, between spaces, tabs and carriage returns.
class TextFields {
 public:
  explicit TextFields(absl::string_view line) : rest_(line) { SkipSpaces(); }

  bool AtEnd() const { return rest_.empty(); }
  // What is left, from the next field on.
  absl::string_view rest() const { return rest_; }
  absl::string_view Word();
  // A whole number of at most `max`, without sign. INVALID_ARGUMENT naming `what`, the text and the
  // bound.
  absl::StatusOr<uint64_t> Number(absl::string_view what, uint64_t max = UINT64_MAX);

 private:
  void SkipSpaces();

  absl::string_view rest_;
};

// Writes fields and lines. Finish must be called.
class TextWriter {
 public:
  // `sink` must outlive it.
  explicit TextWriter(ByteSink& sink) : sink_(sink) {}

  // A space comes before all fields of a line but the first.
  void Number(uint64_t value);
  void Word(absl::string_view word);
  // The first error of the sink; from then on nothing is written.
  absl::Status EndLine();
  absl::Status Finish();

 private:
  static constexpr size_t kFlushBytes = size_t{1} << 16;

  absl::Status Flush();

  ByteSink& sink_;
  std::string bytes_;
  bool first_ = true;
  absl::Status status_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_TEXT_ROWS_H_
