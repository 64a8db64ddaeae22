// Sums and products of counts that must not wrap around.
#ifndef PACKHOUSE_SERVICE_BASE_CHECKED_ARITHMETIC_H_
#define PACKHOUSE_SERVICE_BASE_CHECKED_ARITHMETIC_H_

#include <cstdint>
#include <optional>

namespace packhouse {

// a + b; nullopt if it exceeds 2^64 - 1.
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// a * b; nullopt if it exceeds 2^64 - 1.
inline std::optional<uint64_t> CheckedMultiply(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_CHECKED_ARITHMETIC_H_
