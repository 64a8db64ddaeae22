// Loops over arrays, with one version for each vector level and the same results.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_VECTOR_KERNELS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_VECTOR_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "service/base/vector_level.h"

namespace packhouse {

struct VectorKernels {
  // to[i] = max(to[i], from[i] + added). `to` and `from` do not overlap. No sum may overflow.
  void (*max_plus)(int32_t* to, const int32_t* from, int32_t added, size_t n);
  // to[i] -= factor * from[i], each product rounded before it is subtracted. No overlap.
  void (*subtract_scaled)(double* to, const double* from, double factor, size_t n);
};

// This machine must have `level`.
VectorKernels VectorKernelsOf(VectorLevel level);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_VECTOR_KERNELS_H_
