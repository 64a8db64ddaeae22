// The types in which integers travel, if the client asked for narrow ones.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_COMPACT_TYPE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_COMPACT_TYPE_H_

#include <cstdint>

#include "service/algorithms/collation/narrowing_kernels.h"
#include "service/algorithms/graphs/dtype.h"

namespace packhouse {

enum class IntegerWidth {
  kDeclared,
  // Each column of integers as the first of uint8, int16 and int32 that is narrower than declared
  // and holds its values. Each of the three holds all values of the one before, so graphs that
  // share a batch need the last one that any of them needs.
  kCompact,
};

// Whether columns of this type may travel in a narrower one.
inline bool CanNarrow(DType declared) { return IsInteger(declared) && ElementBytes(declared) > 1; }

// The type for values with these bits (ValueBits); `declared` if no narrower one holds them.
DType CompactType(DType declared, const ValueBits& bits);
// The type for values from 0 to `largest`.
DType CompactTypeUpTo(DType declared, uint64_t largest);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_COMPACT_TYPE_H_
