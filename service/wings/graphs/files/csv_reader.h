// Records of CSV (RFC 4180), taken apart as their bytes come.
//
// Fields stand between delimiters; a field that begins with a quote ends with one, and may hold
// delimiters, line feeds, and quotes that are doubled. A record ends with LF or CRLF; the last one
// may end with the file. Lines without any byte are no records. A byte order mark at the beginning
// is left out.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_CSV_READER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_CSV_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace packhouse::graph_files {

// Use: Feed, then Next until it has nothing, and so on; End after the last Feed, then Next until it
// has nothing. O(bytes) in all, however they are cut. Not thread-safe.
class CsvReader {
 public:
  // The most bytes of a record: a quote that is missing is found before memory runs out.
  static constexpr size_t kMaxRecordBytes = size_t{16} << 20;

  explicit CsvReader(char delimiter = ',') : delimiter_(delimiter) {}

  // The bytes that follow those that were fed before. They are copied.
  void Feed(absl::string_view bytes);
  // All bytes were fed.
  void End() { is_ended_ = true; }

  // Whether there is a next record: then fields() are its fields. False: its bytes have not all
  // been fed, or it was the last.
  //
  // INVALID_ARGUMENT naming line, byte of the line and field, for a quote within a field that does
  // not begin with one, anything but a delimiter or an end of line after a closing quote, a quote
  // that nothing closes, and a record beyond kMaxRecordBytes. Then every call fails.
  absl::StatusOr<bool> Next();

  // Valid until the next Feed or Next.
  absl::Span<const absl::string_view> fields() const { return fields_; }
  // Where the record begins, from 1.
  uint64_t line() const { return record_line_; }

 private:
  enum class State : uint8_t { kFieldStart, kPlain, kQuoted, kQuoteInQuoted };
  struct Place {
    // In buffer_, relative to the record's beginning; without outer quotes.
    size_t begin = 0;
    size_t end = 0;
    bool has_doubled_quotes = false;
  };

  absl::Status Malformed(absl::string_view what) const;
  // False: more bytes must come first.
  bool BeginFile();
  void TakeQuoted(char byte);
  // A byte that is no delimiter and no line feed; what is wrong with it, or "".
  absl::string_view TakeInField(char byte);
  void EndField(size_t end);
  // At the end of a line or of the file; false if the line has no byte.
  bool EndRecord();
  // Makes fields_ of places_.
  void TakeFields();

  const char delimiter_;
  std::string buffer_;
  bool is_first_ = true;
  bool is_ended_ = false;
  // Of the record that is read: where it begins, and the next byte to look at.
  size_t begin_ = 0;
  size_t at_ = 0;
  State state_ = State::kFieldStart;
  Place field_;
  std::vector<Place> places_;
  // Of the next byte.
  uint64_t line_ = 1;
  size_t line_begin_ = 0;  // In buffer_; wraps when the line began in bytes that are gone.

  uint64_t record_line_ = 1;
  std::vector<absl::string_view> fields_;
  // Fields whose doubled quotes were halved. Its elements do not move.
  std::deque<std::string> unquoted_;
  absl::Status status_;
};

}  // namespace packhouse::graph_files

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_CSV_READER_H_
