// Texts that may have pieces of files, for terminals.
#ifndef PACKHOUSE_SERVICE_BASE_COMMAND_LINE_READABLE_H_
#define PACKHOUSE_SERVICE_BASE_COMMAND_LINE_READABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace packhouse {

// `text` as a terminal shows it and nothing more: bytes that are no UTF-8, and control characters
// but the line feed and the tab, become \xNN.
std::string Readable(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_COMMAND_LINE_READABLE_H_
