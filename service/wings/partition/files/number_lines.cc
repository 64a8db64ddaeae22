#include "service/wings/partition/files/number_lines.h"

#include <charconv>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"

namespace packhouse {
namespace {

constexpr absl::string_view kBlanks = " \t\r";

absl::string_view Trimmed(absl::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == absl::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

absl::string_view Unquoted(absl::string_view field) {
  const bool is_quoted = field.size() > 1 && field.front() == '"' && field.back() == '"';
  return is_quoted ? field.substr(1, field.size() - 2) : field;
}

}  // namespace

absl::string_view WithoutByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xEF\xBB\xBF");
}

bool IsBlankLine(absl::string_view line) {
  return line.find_first_not_of(kBlanks) == absl::string_view::npos;
}

uint64_t CountRows(absl::string_view text) {
  uint64_t rows = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    rows += IsBlankLine(text.substr(0, end)) ? 0 : 1;
    if (end == absl::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return rows;
}

void SplitNumberLine(absl::string_view line, char delimiter,
                     std::vector<absl::string_view>* fields) {
  fields->clear();
  if (IsBlankLine(line)) return;
  const bool is_blank = kBlanks.find(delimiter) != absl::string_view::npos;
  const absl::string_view between = is_blank ? kBlanks : absl::string_view(&delimiter, 1);
  absl::string_view rest = is_blank ? Trimmed(line) : line;
  while (true) {
    const size_t end = rest.find_first_of(between);
    fields->push_back(Unquoted(Trimmed(rest.substr(0, end))));
    if (end == absl::string_view::npos) return;
    rest.remove_prefix(end + 1);
    if (is_blank) rest = Trimmed(rest);
  }
}

absl::StatusOr<uint64_t> NodeOfField(absl::string_view field, absl::string_view what,
                                     uint64_t num_nodes) {
  int64_t id = 0;
  const char* const end = field.data() + field.size();
  const auto result = std::from_chars(field.data(), end, id);
  if (field.empty() || result.ec != std::errc() || result.ptr != end) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", Quoted(field), " is no int64"));
  }
  if (id < 0 || static_cast<uint64_t>(id) >= num_nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " is none of the ", num_nodes, " nodes"));
  }
  return static_cast<uint64_t>(id);
}

}  // namespace packhouse
