#include "service/wings/partition/files/text_rows.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"

namespace packhouse {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

std::optional<absl::string_view> TextLines::Next() {
  if (rest_.empty()) return std::nullopt;
  const void* const found = std::memchr(rest_.data(), '\n', rest_.size());
  const size_t length = found == nullptr
                            ? rest_.size()
                            : static_cast<size_t>(static_cast<const char*>(found) - rest_.data());
  const absl::string_view line = rest_.substr(0, length);
  rest_.remove_prefix(std::min(length + 1, rest_.size()));
  ++number_;
  return line;
}

absl::Status TextLines::Wrong(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat("line ", number_, ": ", what));
}

void TextFields::SkipSpaces() {
  while (!rest_.empty() && IsSpace(rest_.front())) rest_.remove_prefix(1);
}

absl::string_view TextFields::Word() {
  size_t length = 0;
  while (length < rest_.size() && !IsSpace(rest_[length])) ++length;
  const absl::string_view word = rest_.substr(0, length);
  rest_.remove_prefix(length);
  SkipSpaces();
  return word;
}

absl::StatusOr<uint64_t> TextFields::Number(absl::string_view what, uint64_t max) {
  const absl::string_view word = Word();
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && stop == word.data() + word.size() && value <= max) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", Quoted(word), ", must be a whole number from 0 to ", max));
}

void TextWriter::Number(uint64_t value) {
  char digits[20];
  const auto [stop, error] = std::to_chars(digits, digits + sizeof(digits), value);
  Word(absl::string_view(digits, static_cast<size_t>(stop - digits)));
}

void TextWriter::Word(absl::string_view word) {
  if (!first_) bytes_.push_back(' ');
  first_ = false;
  bytes_.append(word.data(), word.size());
}

absl::Status TextWriter::EndLine() {
  bytes_.push_back('\n');
  first_ = true;
  return bytes_.size() < kFlushBytes ? status_ : Flush();
}

absl::Status TextWriter::Finish() { return Flush(); }

absl::Status TextWriter::Flush() {
  if (status_.ok()) status_ = sink_.Write(bytes_);
  bytes_.clear();
  return status_;
}

}  // namespace packhouse
