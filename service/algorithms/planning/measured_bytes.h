// What batches were seen to take of a device's memory, as an upper model for batches of any
// capacities.
//
// The bytes of a batch are a constant and a sum over its components, none of which is negative. So
// a batch whose every capacity is at most r >= 1 times that of a batch that took b bytes takes at
// most F + r * (b - F) bytes, where F is the least that the constant can be. The least of these
// over all batches that were seen is a bound that holds whatever the coefficients are: no two of
// them need to be told apart. Batches that ran out of memory bound it from the other side.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_MEASURED_BYTES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_MEASURED_BYTES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace packhouse {

// Immutable once it is made; thread-safe. All capacities are per component, `graphs` last; 0 and
// kUnlimited mean that a component says nothing.
struct MeasuredBytes {
  struct Seen {
    std::vector<uint64_t> capacities;
    uint64_t bytes = 0;
  };
  // Batches that fitted, and the most bytes that they took. May be empty: then BytesOf() is 0.
  std::vector<Seen> fitted;
  // Of each batch, at least this is for no row: F above.
  uint64_t fixed_bytes = 0;
  // Batches that ran out of memory, whatever a profile says of it.
  std::vector<std::vector<uint64_t>> too_large;
  // No batch of more bytes fits, since one of as many ran out of memory; UINT64_MAX: not known.
  uint64_t most_bytes = UINT64_MAX;

  // An upper bound of the bytes of a batch; UINT64_MAX if it is not known. Does not fall when a
  // capacity grows. O(fitted batches * components).
  uint64_t BytesOf(absl::Span<const uint64_t> capacities) const;
  // False if it is as large as one that ran out of memory in every component, or its bytes are
  // above most_bytes. If larger capacities may fit, so may smaller ones.
  bool MayFit(absl::Span<const uint64_t> capacities) const;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_MEASURED_BYTES_H_
