#include "service/wings/page/page_query.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse::page {
namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = absl::ascii_tolower(static_cast<unsigned char>(c));
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

absl::StatusOr<std::string> Decoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i] == '+' ? ' ' : text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? DigitOf(text[i + 1]) : -1;
    const int low = high >= 0 ? DigitOf(text[i + 2]) : -1;
    if (low < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("query: '%' at ", i, " of ", Quoted(text), ": two digits must follow"));
    }
    decoded.push_back(static_cast<char>(16 * high + low));
    i += 2;
  }
  return decoded;
}

}  // namespace

absl::StatusOr<PageQuery> PageQuery::Parse(absl::string_view text) {
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("query: ", text.size(), " bytes, at most ", kMostBytes));
  }
  PageQuery query;
  for (const absl::string_view part : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    PH_ASSIGN_OR_RETURN(std::string key, Decoded(pair.first));
    PH_ASSIGN_OR_RETURN(std::string value, Decoded(pair.second));
    query.values_.emplace_back(std::move(key), std::move(value));
  }
  return query;
}

const std::string& PageQuery::Text(absl::string_view key) const {
  static const auto& none = *new std::string();
  for (const auto& [name, value] : values_) {
    if (name == key) return value;
  }
  return none;
}

std::vector<std::string> PageQuery::Texts(absl::string_view key) const {
  std::vector<std::string> texts;
  for (const auto& [name, value] : values_) {
    if (name == key) texts.push_back(value);
  }
  return texts;
}

absl::StatusOr<uint64_t> PageQuery::Number(absl::string_view key, uint64_t otherwise,
                                           uint64_t least, uint64_t most) const {
  const std::string& text = Text(key);
  if (text.empty()) return otherwise;
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < least || number > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", Quoted(text), " is no number from ", least, " to ", most));
  }
  return number;
}

absl::StatusOr<std::vector<std::pair<std::string, uint64_t>>> PageQuery::Named(
    absl::string_view key) const {
  std::vector<std::pair<std::string, uint64_t>> named;
  for (const std::string& text : Texts(key)) {
    // Names of components may have colons.
    const size_t colon = text.rfind(':');
    uint64_t number = 0;
    if (colon == std::string::npos || colon == 0 ||
        !absl::SimpleAtoi(text.substr(colon + 1), &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": ", Quoted(text), " is not NAME:NUMBER"));
    }
    named.emplace_back(text.substr(0, colon), number);
  }
  return named;
}

}  // namespace packhouse::page
