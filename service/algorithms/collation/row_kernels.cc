#include "service/algorithms/collation/row_kernels.h"

#include <cstring>

namespace packhouse {
namespace {

// Written once; the compiler turns it into vector instructions for each level.
template <typename T>
[[gnu::always_inline]] inline void CopyShiftedBody(char* __restrict to, const char* __restrict from,
                                                   size_t bytes, uint64_t shift) {
  const auto added = static_cast<T>(shift);
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T value;
    std::memcpy(&value, from + at, sizeof(T));
    value = static_cast<T>(value + added);
    std::memcpy(to + at, &value, sizeof(T));
  }
}
[[gnu::always_inline]] inline void FillBody(char* to, uint32_t value, size_t n) {
  for (size_t i = 0; i < n; ++i) std::memcpy(to + i * sizeof(value), &value, sizeof(value));
}

template <typename T>
void CopyShifted(char* to, const char* from, size_t bytes, uint64_t shift) {
  CopyShiftedBody<T>(to, from, bytes, shift);
}
void Fill(char* to, uint32_t value, size_t n) { FillBody(to, value, n); }

#if PACKHOUSE_HAS_VECTOR_LEVELS
template <typename T>
PACKHOUSE_TARGET_AVX2 void CopyShiftedAvx2(char* to, const char* from, size_t bytes,
                                           uint64_t shift) {
  CopyShiftedBody<T>(to, from, bytes, shift);
}
PACKHOUSE_TARGET_AVX2 void FillAvx2(char* to, uint32_t value, size_t n) { FillBody(to, value, n); }

template <typename T>
PACKHOUSE_TARGET_AVX512 void CopyShiftedAvx512(char* to, const char* from, size_t bytes,
                                               uint64_t shift) {
  CopyShiftedBody<T>(to, from, bytes, shift);
}
PACKHOUSE_TARGET_AVX512 void FillAvx512(char* to, uint32_t value, size_t n) {
  FillBody(to, value, n);
}
#endif

}  // namespace

RowKernels RowKernelsOf(VectorLevel level) {
#if PACKHOUSE_HAS_VECTOR_LEVELS
  if (level == VectorLevel::kAvx512) {
    return {CopyShiftedAvx512<uint8_t>, CopyShiftedAvx512<uint16_t>, CopyShiftedAvx512<uint32_t>,
            CopyShiftedAvx512<uint64_t>, FillAvx512};
  }
  if (level == VectorLevel::kAvx2) {
    return {CopyShiftedAvx2<uint8_t>, CopyShiftedAvx2<uint16_t>, CopyShiftedAvx2<uint32_t>,
            CopyShiftedAvx2<uint64_t>, FillAvx2};
  }
#endif
  static_cast<void>(level);
  return {CopyShifted<uint8_t>, CopyShifted<uint16_t>, CopyShifted<uint32_t>, CopyShifted<uint64_t>,
          Fill};
}

}  // namespace packhouse
