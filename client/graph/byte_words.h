// Numbers of bytes in words.
#ifndef PACKHOUSE_CLIENT_GRAPH_BYTE_WORDS_H_
#define PACKHOUSE_CLIENT_GRAPH_BYTE_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace packhouse::client {

// `400`, `64KiB`, `16GiB`, `16GB`: a whole number of bytes, with the units of 1024 (KiB to TiB) or
// of 1000 (kB to TB). False if it is malformed or above 2^64 - 1.
bool ParseBytes(absl::string_view text, uint64_t& bytes);

// `16.0 GiB`; whole below 1 KiB.
std::string BytesText(uint64_t bytes);

// `31.5 MB/s`.
std::string RateText(double bytes_per_second);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_BYTE_WORDS_H_
