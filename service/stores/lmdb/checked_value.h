// The checksum of every small value of the embedded store and of every record of the log.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_CHECKED_VALUE_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_CHECKED_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// A value ends in the CRC32C of its key and itself, so that a value under a wrong key is noticed
// too. CheckedPayload() is the value without the checksum, or DATA_LOSS naming the key.
inline constexpr size_t kChecksumBytes = sizeof(uint32_t);
std::string WithChecksum(absl::string_view key, std::string payload);
absl::StatusOr<absl::string_view> CheckedPayload(absl::string_view key, absl::string_view value);

// Eight bytes, little-endian, in all future formats: for the number of the format, and for what
// must be read before the format is known. DATA_LOSS for another length.
std::string EncodeNumber(uint64_t number);
absl::StatusOr<uint64_t> DecodeNumber(absl::string_view payload);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_CHECKED_VALUE_H_
