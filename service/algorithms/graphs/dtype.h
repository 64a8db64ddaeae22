// Element types of tensors.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_DTYPE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace packhouse {

// Elements are little-endian and dense. packhouse does arithmetic on index tensors only.
enum class DType {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
};

// Bytes of one element.
size_t ElementBytes(DType dtype);

// For example "int32".
absl::string_view DTypeName(DType dtype);

// Whether it is a signed or unsigned integer, as an index tensor must be; bool is none.
bool IsInteger(DType dtype);

// Largest value of an integer dtype.
uint64_t MaxIndex(DType dtype);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_DTYPE_H_
