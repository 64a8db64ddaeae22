// The header of a .npy file: which elements follow, and how many. The files of partitions and the
// programs that read arrays use it alike.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_NPY_HEADER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/dtype.h"

namespace packhouse {

// Magic, version and the length of the text that follows: these must be read to know the length of
// the header. Versions 2 and 3 have this many bytes; version 1 has two fewer.
inline constexpr size_t kNpyPrefixBytes = 12;
// Longer headers are refused; numpy itself takes 10,000.
inline constexpr size_t kMaxNpyHeaderBytes = size_t{1} << 16;
// numpy's own bound.
inline constexpr size_t kMaxNpyDimensions = 32;

struct NpyHeader {
  DType dtype = DType::kInt64;
  std::vector<uint64_t> shape;
  // The number of elements, dense and row-major, that follow the header; it does not overflow.
  uint64_t num_elements = 1;
  uint64_t data_bytes = 0;
  // The header's own length.
  size_t header_bytes = 0;

  // Elements per row; rows are numbered by the first extent. Requires a dimension.
  uint64_t RowElements() const;
};

// `[5, 2]`.
std::string ShapeText(const NpyHeader& header);

// The length of the header that begins with `prefix`, of kNpyPrefixBytes.
//
// Errors: INVALID_ARGUMENT saying what is wrong.
absl::StatusOr<size_t> NpyHeaderBytes(absl::string_view prefix);

// Parses a header of format 1.0, 2.0 or 3.0 whole. Any bytes may be parsed.
//
// Errors: INVALID_ARGUMENT saying what is wrong, with the value: not a .npy file, cut short, an
// unknown or repeated key, big-endian elements, an element type that tensors do not have, an array
// in Fortran order, a shape beyond 2^63 bytes. The caller names file and array.
// Cost: O(bytes).
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view header);

// A header of format 1.0 in row-major order, its spaces such that it has at least `least_bytes`; by
// default, the bytes that numpy.save writes. bfloat16, which numpy does not have, is named uint16.
// Requires at most kMaxNpyDimensions.
std::string MakeNpyHeader(DType dtype, absl::Span<const uint64_t> shape, size_t least_bytes = 0);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_NPY_HEADER_H_
