// Loops over the rows of a batch, with one version for each vector level and the same results.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_ROW_KERNELS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_ROW_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "service/base/vector_level.h"

namespace packhouse {

// Rows may begin at any address.
struct RowKernels {
  // Copies `bytes` bytes of integers and adds `shift` to each, modulo 2^bits of the integer. No
  // overlap.
  using CopyShifted = void (*)(char* to, const char* from, size_t bytes, uint64_t shift);
  CopyShifted copy_shifted_1;
  CopyShifted copy_shifted_2;
  CopyShifted copy_shifted_4;
  CopyShifted copy_shifted_8;
  // Writes n times the same value.
  void (*fill_4)(char* to, uint32_t value, size_t n);

  // For integers of 1, 2, 4 or 8 bytes.
  CopyShifted CopyShiftedOf(size_t element_bytes) const {
    switch (element_bytes) {
      case 1:
        return copy_shifted_1;
      case 2:
        return copy_shifted_2;
      case 4:
        return copy_shifted_4;
      default:
        return copy_shifted_8;
    }
  }
};

// This machine must have `level`.
RowKernels RowKernelsOf(VectorLevel level);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_ROW_KERNELS_H_
