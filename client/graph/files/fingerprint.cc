#include "client/graph/files/fingerprint.h"

#include "absl/strings/str_format.h"
#include "client/cpp/little_endian.h"

namespace packhouse::client {

void Fingerprint::AddBytes(absl::string_view bytes) {
  for (const char byte : bytes) {
    hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
}

void Fingerprint::Add(absl::string_view text) {
  Add(uint64_t{text.size()});
  AddBytes(text);
}

void Fingerprint::Add(uint64_t number) {
  char bytes[sizeof(number)];
  StoreLittleEndian(number, bytes);
  AddBytes(absl::string_view(bytes, sizeof(bytes)));
}

std::string Fingerprint::Hex() const { return absl::StrFormat("%016x", hash_); }

}  // namespace packhouse::client
