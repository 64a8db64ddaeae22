// Whole numbers in the arrays of a .npz archive, of every integer type.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_NPZ_NUMBERS_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_NPZ_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/little_endian.h"
#include "client/graph/files/npz_archive.h"
#include "service/algorithms/graphs/dtype.h"

namespace packhouse::client {

// Reads a whole array of one dimension.
//
// Errors: INVALID_ARGUMENT naming file, array and value if it is no such array, or a number is
// negative; those of the stream. Memory: 8 bytes for each number.
absl::StatusOr<std::vector<uint64_t>> ReadWholeNumbers(const NpzArchive& archive,
                                                       const NpzArray& array);

// The same for offsets. They say where the rows of each graph begin: ascending from 0, one more
// than graphs.
//
// Errors: INVALID_ARGUMENT also if they are not like this, or give a graph 2^32 rows or more.
absl::StatusOr<std::vector<uint64_t>> ReadOffsets(const NpzArchive& archive, const NpzArray& array);

template <typename T, typename Take>
void ForEachElement(const std::string& bytes, Take& take) {
  const LittleEndianView<T> elements(bytes);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!take(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(elements[i])))
      return;
  }
}

// Hands each element of `bytes` to `take`, as an int64_t or uint64_t; it returns whether to go on.
// Does nothing unless IsInteger(dtype).
template <typename Take>
void ForEachWholeNumber(DType dtype, const std::string& bytes, Take take) {
  switch (dtype) {
    case DType::kInt8:
      return ForEachElement<int8_t>(bytes, take);
    case DType::kInt16:
      return ForEachElement<int16_t>(bytes, take);
    case DType::kInt32:
      return ForEachElement<int32_t>(bytes, take);
    case DType::kInt64:
      return ForEachElement<int64_t>(bytes, take);
    case DType::kUint8:
      return ForEachElement<uint8_t>(bytes, take);
    case DType::kUint16:
      return ForEachElement<uint16_t>(bytes, take);
    case DType::kUint32:
      return ForEachElement<uint32_t>(bytes, take);
    case DType::kUint64:
      return ForEachElement<uint64_t>(bytes, take);
    default:
      return;
  }
}

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_NPZ_NUMBERS_H_
