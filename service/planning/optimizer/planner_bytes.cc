#include "service/planning/optimizer/planner_bytes.h"

#include "service/planning/optimizer/column_generation.h"

namespace packhouse {

uint64_t PlannerBytes(uint64_t num_distinct, size_t num_components) {
  // Columns of 4 to 8 bytes a size: orders, scores, counts that are left and used, an urn, and
  // indexes of what fits; several planners and a verification have some of them at a time.
  constexpr uint64_t kBytesOfSize = 320;
  // Sizes as they are, in units, in blocks for each index, and as they are verified.
  constexpr uint64_t kCopiesOfSizes = 8;
  constexpr uint64_t kLeast = uint64_t{1} << 20;
  return kLeast +
         (kBytesOfSize + kCopiesOfSizes * sizeof(uint32_t) * (num_components + 1)) * num_distinct +
         ColumnGenerationBytes(num_distinct);
}

}  // namespace packhouse
