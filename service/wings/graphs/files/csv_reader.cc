#include "service/wings/graphs/files/csv_reader.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/quoted.h"

namespace packhouse::graph_files {
namespace {

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr absl::string_view kTextAfterQuote = "text after a closing quote";

}  // namespace

void CsvReader::Feed(absl::string_view bytes) {
  // What was taken goes; positions are relative to the buffer.
  buffer_.erase(0, begin_);
  at_ -= begin_;
  line_begin_ -= begin_;
  begin_ = 0;
  buffer_.append(bytes.data(), bytes.size());
}

absl::Status CsvReader::Malformed(absl::string_view what) const {
  const absl::string_view value =
      absl::string_view(buffer_).substr(begin_ + field_.begin, at_ - begin_ - field_.begin);
  return absl::InvalidArgumentError(absl::StrCat("line ", line_, ", byte ", at_ - line_begin_ + 1,
                                                 ": ", what, ", in field ", places_.size() + 1, " ",
                                                 Quoted(value)));
}

void CsvReader::EndField(size_t end) {
  field_.end = end;
  places_.push_back(field_);
  field_ = {};
  state_ = State::kFieldStart;
}

void CsvReader::TakeFields() {
  fields_.clear();
  unquoted_.clear();
  const absl::string_view record = absl::string_view(buffer_).substr(begin_, at_ - begin_);
  for (const Place& place : places_) {
    const absl::string_view field = record.substr(place.begin, place.end - place.begin);
    if (place.has_doubled_quotes) {
      fields_.push_back(unquoted_.emplace_back(absl::StrReplaceAll(field, {{"\"\"", "\""}})));
    } else {
      fields_.push_back(field);
    }
  }
  places_.clear();
}

bool CsvReader::BeginFile() {
  if (!is_ended_ && buffer_.size() < kByteOrderMark.size()) return false;
  if (absl::StartsWith(buffer_, kByteOrderMark)) begin_ = at_ = line_begin_ = 3;
  is_first_ = false;
  return true;
}

void CsvReader::TakeQuoted(char byte) {
  if (byte == '"') {
    state_ = State::kQuoteInQuoted;
    field_.end = at_ - begin_;
  } else if (byte == '\n') {
    ++line_;
    line_begin_ = at_ + 1;
  }
}

absl::string_view CsvReader::TakeInField(char byte) {
  if (state_ != State::kQuoteInQuoted) {
    return byte == '"' ? "a quote within a field that does not begin with one" : "";
  }
  if (byte == '"') {
    field_.has_doubled_quotes = true;
    state_ = State::kQuoted;
    return "";
  }
  return byte == '\r' ? "" : kTextAfterQuote;
}

absl::StatusOr<bool> CsvReader::Next() {
  if (!status_.ok()) return status_;
  if (is_first_ && !BeginFile()) return false;
  // The record that was given last.
  if (places_.empty() && state_ == State::kFieldStart) begin_ = at_;
  const char* const bytes = buffer_.data();
  for (;; ++at_) {
    if (at_ == buffer_.size()) break;
    const char byte = bytes[at_];
    const size_t here = at_ - begin_;
    if (here >= kMaxRecordBytes) {
      return status_ = Malformed(absl::StrCat("a record of more than ", kMaxRecordBytes,
                                              " bytes; perhaps a quote is missing"));
    }
    if (state_ == State::kQuoted) {
      TakeQuoted(byte);
      continue;
    }
    if (state_ == State::kFieldStart) {
      if (places_.empty()) record_line_ = line_;
      field_.begin = here;
      state_ = State::kPlain;
      if (byte == '"') {
        ++field_.begin;
        state_ = State::kQuoted;
        continue;
      }
    }
    const bool is_quoted = state_ == State::kQuoteInQuoted;
    // Between a closing quote and the line feed there may be a carriage return, and nothing else.
    if (is_quoted && here != field_.end + 1 && byte != '\n') {
      return status_ = Malformed(kTextAfterQuote);
    }
    if (byte == delimiter_) {
      EndField(is_quoted ? field_.end : here);
      continue;
    }
    if (byte == '\n') {
      const bool is_record = EndRecord();
      ++line_;
      line_begin_ = at_ + 1;
      if (!is_record) {
        begin_ = at_ + 1;
        continue;
      }
      ++at_;
      return true;
    }
    if (const absl::string_view wrong = TakeInField(byte); !wrong.empty()) {
      return status_ = Malformed(wrong);
    }
  }
  if (!is_ended_) return false;
  if (state_ == State::kQuoted) return status_ = Malformed("a quote that nothing closes");
  if (state_ == State::kFieldStart && places_.empty()) return false;
  return EndRecord();
}

bool CsvReader::EndRecord() {
  const size_t here = at_ - begin_;
  size_t end = here;
  if (state_ == State::kQuoteInQuoted) {
    end = field_.end;
  } else if (state_ == State::kFieldStart) {
    field_.begin = here;
  } else if (here > field_.begin && buffer_[at_ - 1] == '\r') {
    --end;
  }
  const bool is_blank = state_ == State::kPlain && places_.empty() && end == 0;
  EndField(end);
  if (is_blank) {
    places_.clear();
    return false;
  }
  TakeFields();
  return true;
}

}  // namespace packhouse::graph_files
