// What guards every small value of the embedded store and every record of the log.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_CHECKED_VALUE_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_CHECKED_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// A value ends in the CRC32C of its key and itself, so that a value under another's key is noticed
// too. CheckedPayload() is the value without it, or DATA_LOSS naming the key.
inline constexpr size_t kChecksumBytes = sizeof(uint32_t);
std::string WithChecksum(absl::string_view key, std::string payload);
absl::StatusOr<absl::string_view> CheckedPayload(absl::string_view key, absl::string_view value);

// Eight bytes, little-endian, in all formats to come: of the number of the format itself, and of
// what must be read before it is known. DATA_LOSS for another length.
std::string EncodeNumber(uint64_t number);
absl::StatusOr<uint64_t> DecodeNumber(absl::string_view payload);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_CHECKED_VALUE_H_
