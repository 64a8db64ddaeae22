#include "service/base/vector_level.h"

namespace packhouse {

VectorLevel BestVectorLevel() {
#if PACKHOUSE_HAS_VECTOR_LEVELS
  static const VectorLevel level = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return VectorLevel::kAvx512;
    }
    return __builtin_cpu_supports("avx2") ? VectorLevel::kAvx2 : VectorLevel::kPlain;
  }();
  return level;
#else
  return VectorLevel::kPlain;
#endif
}

absl::string_view VectorLevelName(VectorLevel level) {
  switch (level) {
    case VectorLevel::kPlain:
      return "plain";
    case VectorLevel::kAvx2:
      return "avx2";
    case VectorLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace packhouse
