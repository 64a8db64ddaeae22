// Where the random numbers of a draw come from.
//
// Each op and node has a sequence of its own, so that a draw does not depend on what else is drawn,
// on the order of the work, or on threads. Never change this: it is part of what "the same seed"
// means.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_DRAW_RANDOM_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_DRAW_RANDOM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"

namespace packhouse {

// Of one sub-graph. `occurrences`: for each seed, or for each link, which time it comes, from 0;
// empty: all for the first time.
inline uint64_t DrawKey(uint64_t seed_number, uint64_t epoch, absl::Span<const uint32_t> seeds,
                        absl::Span<const uint32_t> occurrences = {}) {
  uint64_t key = SeededRandom(seed_number).Next();
  key = SeededRandom(key ^ epoch).Next();
  for (const uint32_t seed : seeds) key = SeededRandom(key ^ seed).Next();
  if (std::any_of(occurrences.begin(), occurrences.end(), [](uint32_t o) { return o != 0; })) {
    // Seeds and times are below 2^32: with the bits turned round they cannot be taken for each
    // other.
    for (const uint32_t occurrence : occurrences)
      key = SeededRandom(key ^ ~uint64_t{occurrence}).Next();
  }
  return key;
}

inline uint64_t OpKey(uint64_t draw_key, size_t op) {
  return SeededRandom(draw_key ^ ~uint64_t{op}).Next();
}

// Sequences of different nodes do not meet: their starts differ in the low 32 bits alone, and no
// multiple of SplitMix64's step that is small enough to matter is as small as that.
inline SeededRandom RowRandom(uint64_t op_key, uint32_t node) {
  return SeededRandom(op_key ^ node);
}

// The natural logarithm of x, 0 < x <= 1, to about 1e-15 of its value. Made of additions,
// multiplications and divisions alone, which are the same on every machine; std::log is not.
double PortableLog(double x);

// Exponentially distributed, with the mean 1; above 0.
double Exponential(SeededRandom& random);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_DRAW_RANDOM_H_
