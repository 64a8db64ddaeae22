#include "service/stores/lmdb/checked_value.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"

namespace packhouse {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are little-endian and are copied as they are");

template <typename T>
void Append(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

std::string WithChecksum(absl::string_view key, std::string payload) {
  Append(Crc32c(payload, Crc32c(key)), payload);
  return payload;
}

absl::StatusOr<absl::string_view> CheckedPayload(absl::string_view key, absl::string_view value) {
  if (value.size() >= kChecksumBytes) {
    const absl::string_view payload = value.substr(0, value.size() - kChecksumBytes);
    uint32_t stored;
    std::memcpy(&stored, value.data() + payload.size(), sizeof(stored));
    if (Crc32c(payload, Crc32c(key)) == stored) return payload;
  }
  return absl::DataLossError(
      absl::StrCat("stored value '", absl::CHexEscape(key), "' fails its checksum"));
}

std::string EncodeNumber(uint64_t number) {
  std::string payload;
  Append(number, payload);
  return payload;
}

absl::StatusOr<uint64_t> DecodeNumber(absl::string_view payload) {
  uint64_t number = 0;
  if (payload.size() != sizeof(number)) {
    return absl::DataLossError(
        absl::StrCat("stored number: ", payload.size(), " bytes, must be ", sizeof(number)));
  }
  std::memcpy(&number, payload.data(), sizeof(number));
  return number;
}

}  // namespace packhouse
