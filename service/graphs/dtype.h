// Element types of tensors.
#ifndef PACKHOUSE_SERVICE_GRAPHS_DTYPE_H_
#define PACKHOUSE_SERVICE_GRAPHS_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace packhouse {

// Elements are little-endian and dense; packhouse only ever does arithmetic on index tensors.
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

// "int32" and the like.
absl::string_view DTypeName(DType dtype);

// Signed or unsigned integer, not bool: what an index tensor may be.
bool IsInteger(DType dtype);

// Largest value of an integer dtype.
uint64_t MaxIndex(DType dtype);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_GRAPHS_DTYPE_H_
