#include "service/algorithms/graphs/index_check.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "service/algorithms/graphs/index_values.h"

namespace packhouse {
namespace {

// Written once; the compiler turns it into vector instructions for each level.
// `kBlockBytes`: those of a vector.
template <typename T, size_t kBlockBytes>
[[gnu::always_inline]] inline uint64_t LargestBody(const char* data, size_t bytes) {
  T largest = 0;
  if (bytes < kBlockBytes) {
    for (size_t at = 0; at < bytes; at += sizeof(T)) {
      T value;
      std::memcpy(&value, data + at, sizeof(T));
      largest = std::max(largest, value);
    }
    return largest;
  }
  using Vector [[gnu::vector_size(kBlockBytes)]] = T;
  Vector of_places = {};
  Vector values;
  for (size_t at = 0; at + kBlockBytes <= bytes; at += kBlockBytes) {
    std::memcpy(&values, data + at, kBlockBytes);
    of_places = values > of_places ? values : of_places;
  }
  // The rest, with some that were taken already.
  std::memcpy(&values, data + bytes - kBlockBytes, kBlockBytes);
  of_places = values > of_places ? values : of_places;
  for (size_t i = 0; i < kBlockBytes / sizeof(T); ++i) {
    largest = std::max<T>(largest, of_places[i]);
  }
  return largest;
}

using LargestOf = uint64_t (*)(const char* data, size_t bytes);

template <typename T>
uint64_t Largest(const char* data, size_t bytes) {
  return LargestBody<T, 16>(data, bytes);
}

#if PACKHOUSE_HAS_VECTOR_LEVELS
template <typename T>
PACKHOUSE_TARGET_AVX2 uint64_t LargestAvx2(const char* data, size_t bytes) {
  return LargestBody<T, 32>(data, bytes);
}
template <typename T>
PACKHOUSE_TARGET_AVX512 uint64_t LargestAvx512(const char* data, size_t bytes) {
  return LargestBody<T, 64>(data, bytes);
}
#endif

template <typename T>
LargestOf KernelOf(VectorLevel level) {
#if PACKHOUSE_HAS_VECTOR_LEVELS
  if (level == VectorLevel::kAvx512) return LargestAvx512<T>;
  if (level == VectorLevel::kAvx2) return LargestAvx2<T>;
#endif
  static_cast<void>(level);
  return Largest<T>;
}

}  // namespace

IndexCheck::IndexCheck(DType dtype, VectorLevel level) {
  WithIndexType(dtype, [&](auto zero) {
    using T = decltype(zero);
    largest_of_ = KernelOf<std::make_unsigned_t<T>>(level);
    most_ = static_cast<uint64_t>(std::numeric_limits<T>::max());
  });
}

}  // namespace packhouse
