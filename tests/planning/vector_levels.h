// The vector levels that can be tested here.
#ifndef PACKHOUSE_TESTS_PLANNING_VECTOR_LEVELS_H_
#define PACKHOUSE_TESTS_PLANNING_VECTOR_LEVELS_H_

#include <vector>

#include "service/base/vector_level.h"

namespace packhouse {

// Those that this machine has, kPlain first: it is what the others are held against.
inline std::vector<VectorLevel> VectorLevelsHere() {
  std::vector<VectorLevel> levels;
  for (const VectorLevel level : {VectorLevel::kPlain, VectorLevel::kAvx2, VectorLevel::kAvx512}) {
    if (level <= BestVectorLevel()) levels.push_back(level);
  }
  return levels;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_VECTOR_LEVELS_H_
