#include "service/algorithms/planning/optimizer/fit_mask.h"

#if PACKHOUSE_HAS_VECTOR_LEVELS
#include <immintrin.h>
#endif

namespace packhouse {
namespace {

uint64_t FitMaskPlain(const uint32_t* block, const uint32_t* room, size_t l) {
  uint64_t mask = ~uint64_t{0};
  for (size_t k = 0; k < l && mask != 0; ++k, block += kFitBlock) {
    uint64_t fits = 0;
    for (size_t i = 0; i < kFitBlock; ++i) fits |= uint64_t{block[i] <= room[k]} << i;
    mask &= fits;
  }
  return mask;
}

#if PACKHOUSE_HAS_VECTOR_LEVELS

PACKHOUSE_TARGET_AVX2 uint64_t FitMaskAvx2(const uint32_t* block, const uint32_t* room, size_t l) {
  uint64_t mask = ~uint64_t{0};
  for (size_t k = 0; k < l && mask != 0; ++k, block += kFitBlock) {
    const __m256i bound = _mm256_set1_epi32(static_cast<int>(room[k]));
    uint64_t fits = 0;
    for (size_t i = 0; i < kFitBlock; i += 8) {
      const __m256i sizes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + i));
      // Compares unsigned sizes <= bound; AVX2 has no instruction for it.
      const __m256i within = _mm256_cmpeq_epi32(_mm256_min_epu32(sizes, bound), sizes);
      const int bits = _mm256_movemask_ps(_mm256_castsi256_ps(within));
      fits |= uint64_t{static_cast<uint32_t>(bits)} << i;
    }
    mask &= fits;
  }
  return mask;
}

PACKHOUSE_TARGET_AVX512 uint64_t FitMaskAvx512(const uint32_t* block, const uint32_t* room,
                                               size_t l) {
  uint64_t mask = ~uint64_t{0};
  for (size_t k = 0; k < l && mask != 0; ++k, block += kFitBlock) {
    const __m512i bound = _mm512_set1_epi32(static_cast<int>(room[k]));
    uint64_t fits = 0;
    for (size_t i = 0; i < kFitBlock; i += 16) {
      const __m512i sizes = _mm512_loadu_si512(block + i);
      fits |= uint64_t{_mm512_cmple_epu32_mask(sizes, bound)} << i;
    }
    mask &= fits;
  }
  return mask;
}

#endif

}  // namespace

FitMaskFunction FitMaskOf(VectorLevel level) {
#if PACKHOUSE_HAS_VECTOR_LEVELS
  if (level == VectorLevel::kAvx512) return FitMaskAvx512;
  if (level == VectorLevel::kAvx2) return FitMaskAvx2;
#endif
  static_cast<void>(level);
  return FitMaskPlain;
}

}  // namespace packhouse
