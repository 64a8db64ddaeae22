// A number that tells one content from another.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_FINGERPRINT_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_FINGERPRINT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace packhouse::client {

// FNV-1a, 64 bits, over texts and numbers, which are kept distinct. Not safe against adversaries.
class Fingerprint {
 public:
  void Add(absl::string_view text);
  void Add(uint64_t number);
  std::string Hex() const;

 private:
  void AddBytes(absl::string_view bytes);

  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_FINGERPRINT_H_
