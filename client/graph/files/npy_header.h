// The header of a .npy file: which elements follow, and how many.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_NPY_HEADER_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

// Magic, version and the length of the text that follows: these must be read to know the length of
// the header. Versions 2 and 3 have this many bytes; version 1 has two fewer.
inline constexpr std::size_t kNpyPrefixBytes = 12;
// Longer headers are refused; numpy itself takes 10,000.
inline constexpr std::size_t kMaxNpyHeaderBytes = std::size_t{1} << 16;

struct NpyHeader {
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<uint64_t> shape;
  // The number of elements, dense and row-major, that follow the header; it does not overflow.
  uint64_t num_elements = 1;
  uint64_t data_bytes = 0;
  // The header's own length.
  std::size_t header_bytes = 0;

  // Elements per row; rows are numbered by the first extent. Requires a dimension.
  uint64_t RowElements() const;
};

// `[5, 2]`.
std::string ShapeText(const NpyHeader& header);

// The length of the header that begins with `prefix`, of kNpyPrefixBytes.
//
// Errors: INVALID_ARGUMENT saying what is wrong.
absl::StatusOr<std::size_t> NpyHeaderBytes(absl::string_view prefix);

// Parses a header of format 1.0, 2.0 or 3.0 whole. Any bytes may be parsed.
//
// Errors: INVALID_ARGUMENT saying what is wrong, with the value: not a .npy file, cut short, an
// unknown or repeated key, big-endian elements, an element type that the wire does not have, an
// array in Fortran order, a shape beyond 2^63 bytes. The caller names file and array.
// Cost: O(bytes).
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view header);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_NPY_HEADER_H_
