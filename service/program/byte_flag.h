// Flags that are numbers of bytes.
#ifndef PACKHOUSE_SERVICE_PROGRAM_BYTE_FLAG_H_
#define PACKHOUSE_SERVICE_PROGRAM_BYTE_FLAG_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// "4294967296", "4GiB", "1.5 Gi", "500MB": units of 1024 have an i. INVALID_ARGUMENT if it is none,
// or no whole number of bytes below 2^63.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// "4GiB" where that is exact; else the number.
std::string BytesText(uint64_t bytes);

// For CLI::Option::transform(): the number of bytes that the text says, from `least` to `most`.
CLI::Validator BytesFrom(uint64_t least, uint64_t most);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_BYTE_FLAG_H_
