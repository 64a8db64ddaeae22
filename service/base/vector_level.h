// Which vector instructions the machine has, found out when the program runs.
//
// A kernel that profits has one version for each level. All versions compute the same, in whole
// numbers or in doubles element by element, so that a plan does not depend on the machine that made
// it. Tests compare the versions.
#ifndef PACKHOUSE_SERVICE_BASE_VECTOR_LEVEL_H_
#define PACKHOUSE_SERVICE_BASE_VECTOR_LEVEL_H_

#include "absl/strings/string_view.h"

// Attributes of a function that is compiled for a level. Only x86-64 has levels; other machines
// have only kPlain.
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
