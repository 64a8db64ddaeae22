// Names given by clients, for messages.
#ifndef PACKHOUSE_SERVICE_BASE_QUOTED_H_
#define PACKHOUSE_SERVICE_BASE_QUOTED_H_

#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse {

inline constexpr size_t kMaxQuotedBytes = 128;

// `name` in quotes and in ASCII, with unprintable characters escaped. A name longer than
// kMaxQuotedBytes is cut, and its length is added: "'abc... (1000000 bytes)'". For names that are
// not checked yet: a message about any such name stays short and is one line.
inline std::string Quoted(absl::string_view name) {
  const std::string shown = absl::CHexEscape(name.substr(0, kMaxQuotedBytes));
  return name.size() <= kMaxQuotedBytes
             ? absl::StrCat("'", shown, "'")
             : absl::StrCat("'", shown, "... (", name.size(), " bytes)'");
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_QUOTED_H_
