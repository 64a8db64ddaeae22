#include "service/algorithms/packing/pool_scan.h"

#include <algorithm>
#include <array>
#include <utility>

#if PACKHOUSE_HAS_VECTOR_LEVELS
#include <immintrin.h>
#endif

namespace packhouse {
namespace {

constexpr PoolPair kNoPair = {PoolScan::kNone, PoolScan::kNone};

// room - size of a slot that fits.
void TakeFrom(const PoolColumns& pool, const int32_t* room, size_t slot, int32_t* rest) {
  for (size_t k = 0; k < pool.num_components; ++k) {
    rest[k] = room[k] - pool.sizes[k * pool.stride + slot];
  }
}

bool FitsPlain(const PoolColumns& pool, const int32_t* room, size_t slot) {
  if (pool.scores[slot] == 0) return false;
  for (size_t k = 0; k < pool.num_components; ++k) {
    if (pool.sizes[k * pool.stride + slot] > room[k]) return false;
  }
  return true;
}

size_t FirstPlain(const PoolColumns& pool, const int32_t* room, size_t begin, size_t end) {
  for (size_t slot = begin; slot < end; ++slot) {
    if (FitsPlain(pool, room, slot)) return slot;
  }
  return PoolScan::kNone;
}

// Works in blocks and columns, so that the compiler can use vector instructions.
size_t BestPlain(const PoolColumns& pool, const int32_t* room, size_t begin, size_t end,
                 int32_t floor) {
  constexpr size_t kBlock = 64;
  int32_t best = floor;
  size_t best_slot = PoolScan::kNone;
  for (; begin < end; begin += kBlock) {
    const size_t n = std::min(kBlock, end - begin);
    int32_t scores[kBlock];
    std::copy_n(pool.scores + begin, n, scores);
    for (size_t k = 0; k < pool.num_components; ++k) {
      const int32_t* const sizes = pool.sizes + k * pool.stride + begin;
      const int32_t bound = room[k];
      for (size_t i = 0; i < n; ++i) scores[i] = sizes[i] <= bound ? scores[i] : 0;
    }
    int32_t highest = 0;
    for (size_t i = 0; i < n; ++i) highest = std::max(highest, scores[i]);
    if (highest <= best) continue;
    best = highest;
    best_slot = begin + (std::find(scores, scores + n, highest) - scores);
  }
  return best_slot;
}

PoolPair PairPlain(const PoolColumns& pool, const int32_t* room, size_t begin, size_t limit,
                   size_t end, int32_t floor, int32_t* rest) {
  for (size_t first = begin; first < limit; ++first) {
    if (!FitsPlain(pool, room, first)) continue;
    TakeFrom(pool, room, first, rest);
    const int32_t needed = std::max(0, floor - pool.scores[first]);
    const size_t second = BestPlain(pool, rest, first + 1, end, needed);
    if (second != PoolScan::kNone) return {first, second};
  }
  return kNoPair;
}

constexpr PoolScan kPlainScan = {FirstPlain, BestPlain, PairPlain};

#if PACKHOUSE_HAS_VECTOR_LEVELS

// The kernels below are compiled once for each of the usual numbers of components, so that the room
// stays in registers, and once for any number.
constexpr size_t kUsualComponents = 8;
constexpr size_t kAny = 0;

template <size_t kComponents>
size_t NumComponents(const PoolColumns& pool) {
  return kComponents == kAny ? pool.num_components : kComponents;
}

// Scores of eight slots, 0 of those that do not fit.
template <size_t kComponents>
PACKHOUSE_TARGET_AVX2 inline __m256i FittingScores8(const PoolColumns& pool, const int32_t* room,
                                                    size_t slot) {
  __m256i exceeds = _mm256_setzero_si256();
  for (size_t k = 0; k < NumComponents<kComponents>(pool); ++k) {
    const int32_t* const sizes = pool.sizes + k * pool.stride + slot;
    exceeds = _mm256_or_si256(
        exceeds, _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sizes)),
                                    _mm256_set1_epi32(room[k])));
  }
  return _mm256_andnot_si256(
      exceeds, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pool.scores + slot)));
}

PACKHOUSE_TARGET_AVX2 inline uint32_t Bits8(__m256i mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
}

template <size_t kComponents>
PACKHOUSE_TARGET_AVX2 size_t FirstAvx2(const PoolColumns& pool, const int32_t* room, size_t begin,
                                       size_t end) {
  for (size_t slot = begin; slot < end; slot += 8) {
    const uint32_t fits = Bits8(
        _mm256_cmpgt_epi32(FittingScores8<kComponents>(pool, room, slot), _mm256_setzero_si256()));
    if (fits != 0) return slot + static_cast<size_t>(__builtin_ctz(fits));
  }
  return PoolScan::kNone;
}

template <size_t kComponents>
PACKHOUSE_TARGET_AVX2 inline size_t BestAvx2(const PoolColumns& pool, const int32_t* room,
                                             size_t begin, size_t end, int32_t floor) {
  const __m256i floors = _mm256_set1_epi32(floor);
  __m256i highest = floors;
  for (size_t slot = begin; slot < end; slot += 8) {
    highest = _mm256_max_epi32(highest, FittingScores8<kComponents>(pool, room, slot));
  }
  if (Bits8(_mm256_cmpgt_epi32(highest, floors)) == 0) return PoolScan::kNone;
  // Rare: a second scan finds which slot it was.
  int32_t lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), highest);
  const __m256i best = _mm256_set1_epi32(*std::max_element(lanes, lanes + 8));
  for (size_t slot = begin;; slot += 8) {
    const uint32_t found =
        Bits8(_mm256_cmpeq_epi32(FittingScores8<kComponents>(pool, room, slot), best));
    if (found != 0) return slot + static_cast<size_t>(__builtin_ctz(found));
  }
}

template <size_t kComponents>
PACKHOUSE_TARGET_AVX2 PoolPair PairAvx2(const PoolColumns& pool, const int32_t* room, size_t begin,
                                        size_t limit, size_t end, int32_t floor, int32_t* rest) {
  for (size_t block = begin; block < limit; block += 8) {
    uint32_t firsts = Bits8(
        _mm256_cmpgt_epi32(FittingScores8<kComponents>(pool, room, block), _mm256_setzero_si256()));
    if (limit - block < 8) firsts &= (uint32_t{1} << (limit - block)) - 1;
    for (; firsts != 0; firsts &= firsts - 1) {
      const size_t first = block + static_cast<size_t>(__builtin_ctz(firsts));
      TakeFrom(pool, room, first, rest);
      const int32_t needed = std::max(0, floor - pool.scores[first]);
      const size_t second = BestAvx2<kComponents>(pool, rest, first + 1, end, needed);
      if (second != PoolScan::kNone) return {first, second};
    }
  }
  return kNoPair;
}

// Which of sixteen slots fit, holes among them.
template <size_t kComponents>
PACKHOUSE_TARGET_AVX512 inline __mmask16 Fits16(const PoolColumns& pool, const int32_t* room,
                                                size_t slot) {
  __mmask16 fits = 0xffff;
  for (size_t k = 0; k < NumComponents<kComponents>(pool); ++k) {
    const __m512i sizes = _mm512_loadu_si512(pool.sizes + k * pool.stride + slot);
    fits &= _mm512_cmple_epi32_mask(sizes, _mm512_set1_epi32(room[k]));
  }
  return fits;
}

// The same without holes.
template <size_t kComponents>
PACKHOUSE_TARGET_AVX512 inline uint32_t GraphsThatFit16(const PoolColumns& pool,
                                                        const int32_t* room, size_t slot) {
  const __m512i scores = _mm512_loadu_si512(pool.scores + slot);
  return Fits16<kComponents>(pool, room, slot) & _mm512_test_epi32_mask(scores, scores);
}

template <size_t kComponents>
PACKHOUSE_TARGET_AVX512 size_t FirstAvx512(const PoolColumns& pool, const int32_t* room,
                                           size_t begin, size_t end) {
  for (size_t slot = begin; slot < end; slot += 16) {
    const uint32_t fits = GraphsThatFit16<kComponents>(pool, room, slot);
    if (fits != 0) return slot + static_cast<size_t>(__builtin_ctz(fits));
  }
  return PoolScan::kNone;
}

template <size_t kComponents>
PACKHOUSE_TARGET_AVX512 inline size_t BestAvx512(const PoolColumns& pool, const int32_t* room,
                                                 size_t begin, size_t end, int32_t floor) {
  const __m512i floors = _mm512_set1_epi32(floor);
  __m512i highest = floors;
  for (size_t slot = begin; slot < end; slot += 16) {
    highest = _mm512_mask_max_epi32(highest, Fits16<kComponents>(pool, room, slot), highest,
                                    _mm512_loadu_si512(pool.scores + slot));
  }
  if (_mm512_cmpgt_epi32_mask(highest, floors) == 0) return PoolScan::kNone;
  int32_t lanes[16];
  _mm512_storeu_si512(lanes, highest);
  const __m512i best = _mm512_set1_epi32(*std::max_element(lanes, lanes + 16));
  for (size_t slot = begin;; slot += 16) {
    const uint32_t found = Fits16<kComponents>(pool, room, slot) &
                           _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(pool.scores + slot), best);
    if (found != 0) return slot + static_cast<size_t>(__builtin_ctz(found));
  }
}

template <size_t kComponents>
PACKHOUSE_TARGET_AVX512 PoolPair PairAvx512(const PoolColumns& pool, const int32_t* room,
                                            size_t begin, size_t limit, size_t end, int32_t floor,
                                            int32_t* rest) {
  for (size_t block = begin; block < limit; block += 16) {
    uint32_t firsts = GraphsThatFit16<kComponents>(pool, room, block);
    if (limit - block < 16) firsts &= (uint32_t{1} << (limit - block)) - 1;
    for (; firsts != 0; firsts &= firsts - 1) {
      const size_t first = block + static_cast<size_t>(__builtin_ctz(firsts));
      TakeFrom(pool, room, first, rest);
      const int32_t needed = std::max(0, floor - pool.scores[first]);
      const size_t second = BestAvx512<kComponents>(pool, rest, first + 1, end, needed);
      if (second != PoolScan::kNone) return {first, second};
    }
  }
  return kNoPair;
}

// Index is the number of components.
template <size_t... kComponents>
constexpr std::array<PoolScan, sizeof...(kComponents)> Avx2Scans(
    std::index_sequence<kComponents...> /*unused*/) {
  return {{{FirstAvx2<kComponents>, BestAvx2<kComponents>, PairAvx2<kComponents>}...}};
}
template <size_t... kComponents>
constexpr std::array<PoolScan, sizeof...(kComponents)> Avx512Scans(
    std::index_sequence<kComponents...> /*unused*/) {
  return {{{FirstAvx512<kComponents>, BestAvx512<kComponents>, PairAvx512<kComponents>}...}};
}
constexpr auto kAvx2Scans = Avx2Scans(std::make_index_sequence<kUsualComponents + 1>());
constexpr auto kAvx512Scans = Avx512Scans(std::make_index_sequence<kUsualComponents + 1>());

#endif

}  // namespace

const PoolScan& PoolScanOf(VectorLevel level, size_t num_components) {
#if PACKHOUSE_HAS_VECTOR_LEVELS
  const size_t index = num_components <= kUsualComponents ? num_components : kAny;
  if (level == VectorLevel::kAvx512) return kAvx512Scans[index];
  if (level == VectorLevel::kAvx2) return kAvx2Scans[index];
#endif
  static_cast<void>(level);
  static_cast<void>(num_components);
  return kPlainScan;
}

}  // namespace packhouse
