// The padding of index tensors as TF-GNN has it.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_FAKE_INDICES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_FAKE_INDICES_H_

#include <cstddef>
#include <cstdint>

#include "service/algorithms/graphs/dtype.h"

namespace packhouse {

// Fills `count` rows of an index tensor, each with `row_elements` equal elements of `dtype`, which
// spread over the rows `first` to `first` + `num_fake` - 1 of their target: bit for bit what
// tfgnn.pad_to_total_sizes gives for the ends of fake edges, with the rounding of its float32
// beyond 2^24. `to` may be at any address. Requires num_fake >= 1, first + num_fake < 2^31, and a
// dtype that can number these rows. O(count * row_elements).
void WriteFakeIndices(DType dtype, uint64_t first, uint64_t num_fake, size_t row_elements,
                      uint64_t count, char* to);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_FAKE_INDICES_H_
