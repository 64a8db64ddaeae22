#include "service/algorithms/collation/narrowing_kernels.h"

#include <cstring>
#include <type_traits>

namespace packhouse {
namespace {

// Written once; the compiler turns it into vector instructions for each level. T is signed.
template <typename T>
[[gnu::always_inline]] inline void CollectBitsBody(const char* from, size_t bytes,
                                                   ValueBits& bits) {
  T any = 0;
  T folded = 0;
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T value;
    std::memcpy(&value, from + at, sizeof(T));
    any |= value;
    folded |= value < 0 ? ~value : value;
  }
  bits.any |= static_cast<uint64_t>(int64_t{any});
  bits.folded |= static_cast<uint64_t>(folded);
}

template <typename From, typename To>
[[gnu::always_inline]] inline uint64_t CopyNarrowedBody(char* __restrict to,
                                                        const char* __restrict from, size_t bytes,
                                                        uint64_t shift) {
  const auto added = static_cast<From>(shift);
  const size_t n = bytes / sizeof(From);
  From sums = 0;
  for (size_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    value = static_cast<From>(value + added);
    sums |= value;
    const To narrow = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &narrow, sizeof(To));
  }
  return sums;
}

template <typename T>
void Collect(const char* from, size_t bytes, ValueBits& bits) {
  CollectBitsBody<T>(from, bytes, bits);
}
template <typename From, typename To>
uint64_t Narrow(char* to, const char* from, size_t bytes, uint64_t shift) {
  return CopyNarrowedBody<From, To>(to, from, bytes, shift);
}

#if PACKHOUSE_HAS_VECTOR_LEVELS
template <typename T>
PACKHOUSE_TARGET_AVX2 void CollectAvx2(const char* from, size_t bytes, ValueBits& bits) {
  CollectBitsBody<T>(from, bytes, bits);
}
template <typename From, typename To>
PACKHOUSE_TARGET_AVX2 uint64_t NarrowAvx2(char* to, const char* from, size_t bytes,
                                          uint64_t shift) {
  return CopyNarrowedBody<From, To>(to, from, bytes, shift);
}

template <typename T>
PACKHOUSE_TARGET_AVX512 void CollectAvx512(const char* from, size_t bytes, ValueBits& bits) {
  CollectBitsBody<T>(from, bytes, bits);
}
template <typename From, typename To>
PACKHOUSE_TARGET_AVX512 uint64_t NarrowAvx512(char* to, const char* from, size_t bytes,
                                              uint64_t shift) {
  return CopyNarrowedBody<From, To>(to, from, bytes, shift);
}
#endif

}  // namespace

NarrowingKernels NarrowingKernelsOf(VectorLevel level) {
#if PACKHOUSE_HAS_VECTOR_LEVELS
  if (level == VectorLevel::kAvx512) {
    return {CollectAvx512<int16_t>,          CollectAvx512<int32_t>,
            CollectAvx512<int64_t>,          NarrowAvx512<uint16_t, uint8_t>,
            NarrowAvx512<uint32_t, uint8_t>, NarrowAvx512<uint32_t, uint16_t>,
            NarrowAvx512<uint64_t, uint8_t>, NarrowAvx512<uint64_t, uint16_t>,
            NarrowAvx512<uint64_t, uint32_t>};
  }
  if (level == VectorLevel::kAvx2) {
    return {CollectAvx2<int16_t>,          CollectAvx2<int32_t>,
            CollectAvx2<int64_t>,          NarrowAvx2<uint16_t, uint8_t>,
            NarrowAvx2<uint32_t, uint8_t>, NarrowAvx2<uint32_t, uint16_t>,
            NarrowAvx2<uint64_t, uint8_t>, NarrowAvx2<uint64_t, uint16_t>,
            NarrowAvx2<uint64_t, uint32_t>};
  }
#endif
  static_cast<void>(level);
  return {Collect<int16_t>,          Collect<int32_t>,           Collect<int64_t>,
          Narrow<uint16_t, uint8_t>, Narrow<uint32_t, uint8_t>,  Narrow<uint32_t, uint16_t>,
          Narrow<uint64_t, uint8_t>, Narrow<uint64_t, uint16_t>, Narrow<uint64_t, uint32_t>};
}

}  // namespace packhouse
