// Puts the checksum to what a fuzzer made of a cursor's bytes (cursor.h), so that what lies behind
// the checksum is reached.
#ifndef PACKHOUSE_TESTS_FUZZ_SEALED_RECORD_H_
#define PACKHOUSE_TESTS_FUZZ_SEALED_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "service/base/checksum.h"

namespace packhouse {

inline constexpr size_t kSealBytes = 4;

inline std::string Sealed(std::string content) {
  const uint32_t crc = Crc32c(content);
  for (size_t i = 0; i < kSealBytes; ++i) content.push_back(static_cast<char>(crc >> (8 * i)));
  return content;
}

inline std::string Unsealed(const std::string& bytes) {
  return bytes.substr(0, bytes.size() - kSealBytes);
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FUZZ_SEALED_RECORD_H_
