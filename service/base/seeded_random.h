// Random numbers that are the same on every machine and in every release.
#ifndef PACKHOUSE_SERVICE_BASE_SEEDED_RANDOM_H_
#define PACKHOUSE_SERVICE_BASE_SEEDED_RANDOM_H_

#include <cstdint>

#include "absl/numeric/int128.h"

namespace packhouse {

// SplitMix64 (Steele, Lea and Flood 2014). Thread-compatible.
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // A number in [0, bound), by the high half of a product (Lemire 2019). `bound` must be above 0.
  // The bias is below bound / 2^64, which does not matter to a heuristic.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((absl::uint128(Next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_SEEDED_RANDOM_H_
