#include "service/base/command_line/readable.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/base/text_characters.h"

namespace packhouse {

std::string Readable(absl::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    const absl::string_view character = text.substr(0, std::max<std::size_t>(bytes, 1));
    const bool is_layout = character == "\n" || character == "\t";
    if (is_layout || (bytes > 0 && !IsControl(CodePointOf(character)))) {
      absl::StrAppend(&shown, character);
    } else {
      for (const char byte : character) {
        absl::StrAppendFormat(&shown, "\\x%02x", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace packhouse
