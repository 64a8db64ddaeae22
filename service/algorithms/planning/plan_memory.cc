#include "service/algorithms/planning/plan_memory.h"

namespace packhouse {

uint64_t BytesOfPatterns(absl::Span<const Pattern> patterns) {
  uint64_t bytes = 0;
  for (const Pattern& pattern : patterns) bytes += BytesInList(pattern);
  return bytes;
}

}  // namespace packhouse
