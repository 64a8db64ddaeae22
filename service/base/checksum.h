// CRC32C, which guards everything that is stored.
#ifndef PACKHOUSE_SERVICE_BASE_CHECKSUM_H_
#define PACKHOUSE_SERVICE_BASE_CHECKSUM_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace packhouse {

// The CRC32C (Castagnoli; RFC 3720, B.4) of a byte string, continued: if `crc` is that of a, the
// result for `bytes` b is that of ab. Finds every error in up to 32 neighbouring bits and, in up to
// 2^31 bits, every error in two or three bits; one of 2^32 other errors goes undetected. On an EPYC
// processor with carry-less multiplication: 15 GB/s from memory, 29 from the cache, 2 for 100
// bytes. Thread-safe.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_CHECKSUM_H_
