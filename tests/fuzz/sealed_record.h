// Puts the checksum to what a fuzzer made of a sealed record (record_codec.h), so that what lies
// behind the checksum is reached.
#ifndef PACKHOUSE_TESTS_FUZZ_SEALED_RECORD_H_
#define PACKHOUSE_TESTS_FUZZ_SEALED_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace packhouse {

inline constexpr size_t kSealBytes = 8;

inline std::string Sealed(std::string content) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : content) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  for (size_t i = 0; i < kSealBytes; ++i) content.push_back(static_cast<char>(hash >> (8 * i)));
  return content;
}

inline std::string Unsealed(const std::string& record) {
  return record.substr(0, record.size() - kSealBytes);
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FUZZ_SEALED_RECORD_H_
