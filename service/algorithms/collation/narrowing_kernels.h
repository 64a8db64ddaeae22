// Loops over integers that travel in a narrower type, with one version for each vector level and
// the same results.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_NARROWING_KERNELS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_NARROWING_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "service/base/vector_level.h"

namespace packhouse {

// The bits that some integer of a column has: enough to tell the narrowest type that holds all of
// them, since the largest value of each type has ones only.
struct ValueBits {
  // Of the values, as 64 bits with their sign.
  uint64_t any = 0;
  // Of v for v >= 0 and of -1 - v for v < 0.
  uint64_t folded = 0;

  bool has_negative() const { return any >> 63 != 0; }
};

// Integers may begin at any address.
struct NarrowingKernels {
  // Adds `bytes` bytes of signed integers to `bits`. Also for unsigned ones: their own bits are the
  // lowest of `any`.
  using CollectBits = void (*)(const char* from, size_t bytes, ValueBits& bits);
  CollectBits collect_2;
  CollectBits collect_4;
  CollectBits collect_8;
  // Copies `bytes` bytes of integers, adds `shift` to each, and keeps the lowest bytes of the sums.
  // Returns the bits that any sum has: those of the narrow type if nothing was lost and no sum is
  // negative. No overlap.
  using CopyNarrowed = uint64_t (*)(char* to, const char* from, size_t bytes, uint64_t shift);
  CopyNarrowed narrow_2_to_1;
  CopyNarrowed narrow_4_to_1;
  CopyNarrowed narrow_4_to_2;
  CopyNarrowed narrow_8_to_1;
  CopyNarrowed narrow_8_to_2;
  CopyNarrowed narrow_8_to_4;

  // For integers of 2, 4 or 8 bytes.
  CollectBits CollectBitsOf(size_t element_bytes) const {
    return element_bytes == 2 ? collect_2 : element_bytes == 4 ? collect_4 : collect_8;
  }
  // From 2, 4 or 8 bytes to fewer, at most 4.
  CopyNarrowed CopyNarrowedOf(size_t from_bytes, size_t to_bytes) const {
    if (from_bytes == 2) return narrow_2_to_1;
    if (from_bytes == 4) return to_bytes == 1 ? narrow_4_to_1 : narrow_4_to_2;
    return to_bytes == 1 ? narrow_8_to_1 : to_bytes == 2 ? narrow_8_to_2 : narrow_8_to_4;
  }
};

// This machine must have `level`.
NarrowingKernels NarrowingKernelsOf(VectorLevel level);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_NARROWING_KERNELS_H_
