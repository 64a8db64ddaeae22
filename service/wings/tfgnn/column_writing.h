// Lists of tf.Examples into columns, for each element type.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_COLUMN_WRITING_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_COLUMN_WRITING_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/wings/tfgnn/number_lists.h"

namespace packhouse::tfgnn {

struct WriteResult {
  // Some varint has more than ten bytes.
  bool is_malformed = false;
  // Position of the first value that is out of range.
  std::optional<size_t> bad;
};

// Writes the values of a packed list that is_good(bits) as T to `to`, which has room for all.
template <typename T, typename IsGood, typename Convert>
WriteResult WriteVarints(absl::string_view packed, char* to, IsGood is_good, Convert convert) {
  WriteResult result;
  bool all_good = true;
  result.is_malformed = !ForEachVarint(packed, [&](uint64_t bits) {
    all_good &= is_good(bits);
    const T value = convert(bits);
    std::memcpy(to, &value, sizeof(value));
    to += sizeof(value);
  });
  if (all_good) return result;
  size_t position = 0;
  ForEachVarint(packed, [&](uint64_t bits) {
    if (!result.bad && !is_good(bits)) result.bad = position;
    ++position;
  });
  return result;
}

// As int32; good values are in [0, bound), bound <= 2^31.
inline WriteResult WriteIndices(absl::string_view packed, uint64_t bound, char* to) {
  return WriteVarints<int32_t>(
      packed, to, [bound](uint64_t bits) { return bits < bound; },
      [](uint64_t bits) { return static_cast<int32_t>(bits); });
}

// As elements of an integer type, or of bool.
inline WriteResult WriteIntegers(absl::string_view packed, DType dtype, char* to) {
  if (dtype == DType::kBool) {
    return WriteVarints<uint8_t>(
        packed, to, [](uint64_t) { return true; },
        [](uint64_t bits) { return static_cast<uint8_t>(bits != 0); });
  }
  return WithIndexType(dtype, [&](auto zero) {
    using T = decltype(zero);
    return WriteVarints<T>(packed, to, &IsValueOf<T>,
                           [](uint64_t bits) { return static_cast<T>(bits); });
  });
}

// As elements of a float type.
inline void WriteFloats(absl::string_view floats, DType dtype, char* to) {
  if (dtype == DType::kFloat32) {
    std::memcpy(to, floats.data(), floats.size());
    return;
  }
  const auto write_each = [&](auto convert) {
    for (size_t i = 0; i < floats.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, floats.data() + i, sizeof(value));
      const auto converted = convert(value);
      std::memcpy(to, &converted, sizeof(converted));
      to += sizeof(converted);
    }
  };
  if (dtype == DType::kFloat64) {
    write_each([](float value) { return static_cast<double>(value); });
  } else if (dtype == DType::kFloat16) {
    write_each(Float16Of);
  } else {
    write_each(Bfloat16Of);
  }
}

// The range of an integer type of less than 64 bits: `[-128, 127]`.
inline std::string RangeText(DType dtype) {
  return WithIndexType(dtype, [](auto zero) {
    using T = decltype(zero);
    return absl::StrCat("[", static_cast<int64_t>(std::numeric_limits<T>::min()), ", ",
                        static_cast<uint64_t>(std::numeric_limits<T>::max()), "]");
  });
}

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_COLUMN_WRITING_H_
