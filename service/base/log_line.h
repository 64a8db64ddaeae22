// Events of the log as JSON.
#ifndef PACKHOUSE_SERVICE_BASE_LOG_LINE_H_
#define PACKHOUSE_SERVICE_BASE_LOG_LINE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/event_log.h"

namespace packhouse {

// `text` as a JSON string, in its quotes: valid UTF-8 in one line. Characters that a terminal might
// act on (IsControl) are escaped. Bytes that are not UTF-8 become U+FFFD. A text longer than
// `max_bytes` is cut between two characters, and its length is added: "abc... (1000000 bytes)".
// `text` may be any bytes.
std::string JsonString(absl::string_view text, size_t max_bytes);

// The members of a JSON object, without its braces: `"event":"x","key":value,...`. Strings are cut
// as their fields say. Numbers that JSON does not have are null.
std::string JsonMembers(absl::string_view event, absl::Span<const LogField> fields);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_LOG_LINE_H_
