#include "service/base/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>

namespace packhouse {

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  // The library counts in int.
  constexpr size_t kMaxPiece = size_t{1} << 30;
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kMaxPiece);
    // The library does not change the bytes, though its pointer is not const.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    crc = ~crc32_iscsi(data, static_cast<int>(piece), ~crc);
    bytes.remove_prefix(piece);
  }
  return crc;
}

}  // namespace packhouse
