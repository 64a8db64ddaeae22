// Small files in lines of text that somebody may look at: with a title, and a checksum at the end.
//
//   file := TITLE "\n" LINE* "end " CRC32C "\n"
//
// The CRC32C, in hexadecimal, is that of all before.
#ifndef PACKHOUSE_SERVICE_BASE_CHECKED_LINES_H_
#define PACKHOUSE_SERVICE_BASE_CHECKED_LINES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/checksum.h"

namespace packhouse {

// `lines`: each with its end.
inline std::string WithChecksumLine(absl::string_view title, absl::string_view lines) {
  const std::string text = absl::StrCat(title, "\n", lines);
  return absl::StrCat(text, "end ", absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
}

// The lines in between, without their ends. DATA_LOSS unless WithChecksumLine() wrote the text.
inline absl::StatusOr<std::vector<absl::string_view>> LinesOf(absl::string_view title,
                                                              absl::string_view text) {
  absl::string_view rest = text;
  const size_t end = text.rfind("end ");
  if (end == absl::string_view::npos || !absl::ConsumePrefix(&rest, absl::StrCat(title, "\n")) ||
      end < text.size() - rest.size() ||
      WithChecksumLine(title, rest.substr(0, rest.rfind("end "))) != text) {
    return absl::DataLossError("is damaged, or was written by a later release of packhoused");
  }
  return std::vector<absl::string_view>(
      absl::StrSplit(rest.substr(0, rest.rfind("end ")), '\n', absl::SkipEmpty()));
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_CHECKED_LINES_H_
