// Columns of one number a row: weights and times.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_COLUMN_NUMBERS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_COLUMN_NUMBERS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/base/casts.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/wings/graphs/source_graphs/source_graph.h"

namespace packhouse {

inline bool IsOneNumber(const SourceColumnSpec& spec) {
  const bool number =
      IsInteger(spec.dtype) || spec.dtype == DType::kFloat32 || spec.dtype == DType::kFloat64;
  return number && spec.row_shape.empty() && !spec.ragged;
}

// A column for which IsOneNumber() is true. Immutable; thread-safe.
class NumberColumn {
 public:
  NumberColumn() = default;
  NumberColumn(const SourceColumn& column, DType dtype) : data_(column.data), dtype_(dtype) {}

  bool exists() const { return data_ != nullptr; }
  void Prefetch(uint64_t row) const { __builtin_prefetch(data_ + row * ElementBytes(dtype_)); }

  // Integers beyond 2^53 are rounded.
  double Double(uint64_t row) const {
    switch (dtype_) {
      case DType::kFloat32:
        return At<float>(row);
      case DType::kFloat64:
        return At<double>(row);
      case DType::kUint64:
        return static_cast<double>(At<uint64_t>(row));
      default:
        return static_cast<double>(Integer(row));
    }
  }

  // Of columns of integers, without uint64.
  int64_t Integer(uint64_t row) const {
    switch (dtype_) {
      case DType::kInt8:
        return At<int8_t>(row);
      case DType::kInt16:
        return At<int16_t>(row);
      case DType::kInt32:
        return At<int32_t>(row);
      case DType::kUint8:
        return At<uint8_t>(row);
      case DType::kUint16:
        return At<uint16_t>(row);
      case DType::kUint32:
        return At<uint32_t>(row);
      default:
        return At<int64_t>(row);
    }
  }

  // Larger for larger numbers, exactly; 0 for NaN.
  uint64_t Rank(uint64_t row) const {
    constexpr uint64_t kSign = uint64_t{1} << 63;
    switch (dtype_) {
      case DType::kUint64:
        return At<uint64_t>(row);
      case DType::kFloat32:
      case DType::kFloat64: {
        const double value = Double(row);
        if (std::isnan(value)) return 0;
        const uint64_t bits = absl::bit_cast<uint64_t>(value + 0.0);  // -0 becomes 0.
        return (bits & kSign) != 0 ? ~bits : bits | kSign;
      }
      default:
        return static_cast<uint64_t>(Integer(row)) ^ kSign;
    }
  }

 private:
  template <typename T>
  T At(uint64_t row) const {
    T value;
    std::memcpy(&value, data_ + row * sizeof(T), sizeof(T));
    return value;
  }

  const char* data_ = nullptr;
  DType dtype_ = DType::kInt64;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_COLUMN_NUMBERS_H_
