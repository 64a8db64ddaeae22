// Arithmetic on the values of index tensors, for every integer type.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_INDEX_VALUES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_INDEX_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/dtype.h"

namespace packhouse {

// Calls function(T{}) with the C++ type of an integer dtype.
template <typename Function>
auto WithIndexType(DType dtype, Function function) {
  switch (dtype) {
    case DType::kInt8:
      return function(int8_t{});
    case DType::kInt16:
      return function(int16_t{});
    case DType::kInt32:
      return function(int32_t{});
    case DType::kInt64:
      return function(int64_t{});
    case DType::kUint8:
      return function(uint8_t{});
    case DType::kUint16:
      return function(uint16_t{});
    case DType::kUint32:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

// Position of the first element that is not in [0, bound), or npos. `data` is a whole number of
// elements of an integer dtype; a negative value counts as too large. O(elements).
inline size_t FindIndexOutOfRange(DType dtype, absl::string_view data, uint64_t bound) {
  return WithIndexType(dtype, [&](auto zero) -> size_t {
    using T = decltype(zero);
    const size_t n = data.size() / sizeof(T);
    for (size_t i = 0; i < n; ++i) {
      T value;
      std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
      // The conversion makes a negative value huge.
      if (static_cast<uint64_t>(value) >= bound) return i;
    }
    return absl::string_view::npos;
  });
}

// Adds `shift` to `bytes` bytes of elements, in place. The sums must fit the dtype. A shift may be
// negative (as two's complement).
inline void ShiftIndices(DType dtype, char* data, size_t bytes, uint64_t shift) {
  if (shift == 0) return;
  WithIndexType(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < bytes; i += sizeof(T)) {
      T value;
      std::memcpy(&value, data + i, sizeof(T));
      value = static_cast<T>(static_cast<uint64_t>(value) + shift);
      std::memcpy(data + i, &value, sizeof(T));
    }
  });
}

// Value number `i` as text, for messages.
inline int64_t IndexValueAt(DType dtype, absl::string_view data, size_t i) {
  return WithIndexType(dtype, [&](auto zero) {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    return static_cast<int64_t>(value);
  });
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_INDEX_VALUES_H_
