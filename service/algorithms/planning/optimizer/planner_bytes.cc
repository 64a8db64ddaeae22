#include "service/algorithms/planning/optimizer/planner_bytes.h"

#include "service/algorithms/planning/optimizer/column_generation.h"
#include "service/algorithms/planning/optimizer/component_program.h"

namespace packhouse {

uint64_t PlannerBytes(uint64_t num_distinct, size_t num_components) {
  // For each size, columns of 4 to 8 bytes: orders, scores, counts that are left and used, an urn,
  // and indexes of what fits. Several planners and a verification have some of them at the same
  // time.
  constexpr uint64_t kBytesOfSize = 328;
  // The original sizes, in units, in blocks for each index, and for verification; and orders by
  // shape, one for each component.
  constexpr uint64_t kCopiesOfSizes = 9;
  constexpr uint64_t kLeast = uint64_t{1} << 20;
  return kLeast +
         (kBytesOfSize + kCopiesOfSizes * sizeof(uint32_t) * (num_components + 1)) * num_distinct +
         ColumnGenerationBytes(num_distinct) + ComponentProgramBytes(num_distinct);
}

}  // namespace packhouse
