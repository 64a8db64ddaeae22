// A generator that gives the same numbers everywhere, for seeded tests.
#ifndef PACKHOUSE_TESTS_SUPPORT_RANDOM_H_
#define PACKHOUSE_TESTS_SUPPORT_RANDOM_H_

#include <cstdint>

namespace packhouse {

// SplitMix64 (Steele et al. 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, bound); bound must not be 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // In [low, high].
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }

 private:
  uint64_t state_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_RANDOM_H_
