// Which vector instructions the machine has, found out when the program runs.
//
// Kernels that profit come in one version a level and are picked by it. All versions compute the
// same: whole numbers, or doubles element by element, so that a plan does not depend on the machine
// it was made on. Tests hold them against each other.
#ifndef PACKHOUSE_SERVICE_BASE_VECTOR_LEVEL_H_
#define PACKHOUSE_SERVICE_BASE_VECTOR_LEVEL_H_

#include "absl/strings/string_view.h"

// Attributes of a function compiled for a level, on machines that have such levels. Only x86-64
// has; elsewhere there is kPlain alone.
#if defined(__x86_64__)
#define PACKHOUSE_TARGET_AVX2 [[gnu::target("avx2")]]
#define PACKHOUSE_TARGET_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
#define PACKHOUSE_HAS_VECTOR_LEVELS 1
#else
#define PACKHOUSE_HAS_VECTOR_LEVELS 0
#endif

namespace packhouse {

enum class VectorLevel { kPlain, kAvx2, kAvx512 };

// The highest level of this machine. Constant while the program runs; thread-safe.
VectorLevel BestVectorLevel();

// "plain", "avx2", "avx512".
absl::string_view VectorLevelName(VectorLevel level);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_VECTOR_LEVEL_H_
