// Whether all indices of a graph are in range, with one version for each vector level and the same
// results.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_INDEX_CHECK_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_INDEX_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/base/vector_level.h"

namespace packhouse {

// For one integer dtype. Graphs are small and there are many of them, so what depends on the dtype
// alone is found once. Immutable; thread-safe.
class IndexCheck {
 public:
  // This machine must have `level`.
  explicit IndexCheck(DType dtype, VectorLevel level = BestVectorLevel());

  // Whether every element of `data`, a whole number of them, is in [0, bound). O(elements).
  bool AllInRange(absl::string_view data, uint64_t bound) const {
    if (data.empty()) return true;
    if (bound == 0) return false;
    const uint64_t largest = largest_of_(data.data(), data.size());
    // As unsigned numbers, negative ones are larger than all that the dtype has.
    return largest < bound && largest <= most_;
  }

 private:
  // The largest of some elements of the dtype's width, as unsigned numbers.
  uint64_t (*largest_of_)(const char* data, size_t bytes);
  uint64_t most_;  // The largest value of the dtype.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_INDEX_CHECK_H_
