// Headers of .npy files for tests, also ones that numpy would not write.
#ifndef PACKHOUSE_TESTS_SUPPORT_NPY_TEXT_H_
#define PACKHOUSE_TESTS_SUPPORT_NPY_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace packhouse {

// A header of format 1.0 around the text of its dictionary, which is padded as numpy does.
inline std::string NpyHeaderOf(absl::string_view dictionary) {
  std::string text(dictionary);
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_NPY_TEXT_H_
