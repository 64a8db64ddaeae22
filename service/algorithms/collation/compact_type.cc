#include "service/algorithms/collation/compact_type.h"

#include <cstddef>

namespace packhouse {

DType CompactType(DType declared, const ValueBits& bits) {
  if (!CanNarrow(declared)) return declared;
  const size_t bytes = ElementBytes(declared);
  // Of a signed type, half of the numbers are negative.
  const bool is_signed = MaxIndex(declared) >> (8 * bytes - 1) == 0;
  if (!is_signed || !bits.has_negative()) {
    const uint64_t mask = ~uint64_t{0} >> (64 - 8 * bytes);
    return CompactTypeUpTo(declared, bits.any & mask);
  }
  for (const DType type : {DType::kInt16, DType::kInt32}) {
    if (bits.folded <= MaxIndex(type) && ElementBytes(type) < bytes) return type;
  }
  return declared;
}

DType CompactTypeUpTo(DType declared, uint64_t largest) {
  if (!CanNarrow(declared)) return declared;
  for (const DType type : {DType::kUint8, DType::kInt16, DType::kInt32}) {
    if (largest <= MaxIndex(type) && ElementBytes(type) < ElementBytes(declared)) return type;
  }
  return declared;
}

}  // namespace packhouse
