// Scans over the graphs that wait in a pool: the innermost loops of online packing.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PACKING_POOL_SCAN_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PACKING_POOL_SCAN_H_

#include <cstddef>
#include <cstdint>

#include "service/base/vector_level.h"

namespace packhouse {

// A pool's graphs in columns, with a slot for each graph. A slot with score 0 is a hole; its sizes
// do not matter.
struct PoolColumns {
  // How far beyond `end` a scan may read; those slots must be holes.
  static constexpr size_t kOverrun = 15;

  const int32_t* sizes;   // Component k of slot i: sizes[k * stride + i]; not negative.
  const int32_t* scores;  // Not negative; two of them sum to less than 2^31.
  size_t stride;
  size_t num_components;
};

struct PoolPair {
  size_t first;
  size_t second;
};

// A graph fits if its size is at most room[k], which is not negative, for each k < l. No alignment
// needed. Thread-safe.
struct PoolScan {
  static constexpr size_t kNone = SIZE_MAX;

  // The first graph in [begin, end) that fits. O((end - begin) * l).
  size_t (*first)(const PoolColumns& pool, const int32_t* room, size_t begin, size_t end);

  // Of the graphs in [begin, end) that fit, the one with the highest score, if that is above
  // `floor` >= 0; in a tie, the first. O((end - begin) * l).
  size_t (*best)(const PoolColumns& pool, const int32_t* room, size_t begin, size_t end,
                 int32_t floor);

  // The first graph in [begin, limit), limit <= end, that has a partner: a later graph in [begin,
  // end) that fits beside it, with a sum of scores above `floor` >= 0. Of its partners, the one
  // with the highest score; in a tie, the first. Both kNone if there is no such pair. `rest` must
  // have room for l numbers. O((limit - begin) * (end - begin) * l).
  PoolPair (*pair)(const PoolColumns& pool, const int32_t* room, size_t begin, size_t limit,
                   size_t end, int32_t floor, int32_t* rest);
};

// The scans for pools of this many components. This machine must have `level`. All levels give the
// same results.
const PoolScan& PoolScanOf(VectorLevel level, size_t num_components);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PACKING_POOL_SCAN_H_
