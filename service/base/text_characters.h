// The characters of a text that comes from outside: whether it is UTF-8, and which of them should
// not be shown as they are.
#ifndef PACKHOUSE_SERVICE_BASE_TEXT_CHARACTERS_H_
#define PACKHOUSE_SERVICE_BASE_TEXT_CHARACTERS_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace packhouse {

// The number of bytes of the first character of `text`, which is not empty; 0 if they are not UTF-8
// (RFC 3629: the shortest form, no surrogates, nothing above U+10FFFF). O(1).
size_t CharacterBytes(absl::string_view text);

// The code point of a character, which is valid UTF-8.
char32_t CodePointOf(absl::string_view character);

// Whether a terminal or a viewer of logs may act on the character instead of showing it, or shows
// nothing: Unicode's categories Cc (controls, also U+0080 to U+009F), Cf (direction, zero width,
// tags), Zl and Zp (line and paragraph separator), as of Unicode 15.1. O(1).
bool IsControl(char32_t character);

bool IsUtf8(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_TEXT_CHARACTERS_H_
