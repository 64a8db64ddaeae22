#include "service/algorithms/planning/vector_kernels.h"

#include <algorithm>

namespace packhouse {
namespace {

// Written once; the compiler turns it into vector instructions for each level.
[[gnu::always_inline]] inline void MaxPlusBody(int32_t* __restrict to,
                                               const int32_t* __restrict from, int32_t added,
                                               size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = std::max(to[i], from[i] + added);
}
[[gnu::always_inline]] inline void SubtractScaledBody(double* __restrict to,
                                                      const double* __restrict from, double factor,
                                                      size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] -= factor * from[i];
}

void MaxPlus(int32_t* to, const int32_t* from, int32_t added, size_t n) {
  MaxPlusBody(to, from, added, n);
}
void SubtractScaled(double* to, const double* from, double factor, size_t n) {
  SubtractScaledBody(to, from, factor, n);
}

#if PACKHOUSE_HAS_VECTOR_LEVELS
PACKHOUSE_TARGET_AVX2 void MaxPlusAvx2(int32_t* to, const int32_t* from, int32_t added, size_t n) {
  MaxPlusBody(to, from, added, n);
}
PACKHOUSE_TARGET_AVX2 void SubtractScaledAvx2(double* to, const double* from, double factor,
                                              size_t n) {
  SubtractScaledBody(to, from, factor, n);
}
PACKHOUSE_TARGET_AVX512 void MaxPlusAvx512(int32_t* to, const int32_t* from, int32_t added,
                                           size_t n) {
  MaxPlusBody(to, from, added, n);
}
PACKHOUSE_TARGET_AVX512 void SubtractScaledAvx512(double* to, const double* from, double factor,
                                                  size_t n) {
  SubtractScaledBody(to, from, factor, n);
}
#endif

}  // namespace

VectorKernels VectorKernelsOf(VectorLevel level) {
#if PACKHOUSE_HAS_VECTOR_LEVELS
  if (level == VectorLevel::kAvx512) return {MaxPlusAvx512, SubtractScaledAvx512};
  if (level == VectorLevel::kAvx2) return {MaxPlusAvx2, SubtractScaledAvx2};
#endif
  static_cast<void>(level);
  return {MaxPlus, SubtractScaled};
}

}  // namespace packhouse
