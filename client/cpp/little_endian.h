// Reading and writing the little-endian bytes of the wire, on hosts of either byte order.
#ifndef PACKHOUSE_CLIENT_CPP_LITTLE_ENDIAN_H_
#define PACKHOUSE_CLIENT_CPP_LITTLE_ENDIAN_H_

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/types/span.h"

namespace packhouse::client {

// Reverses the bytes of `value` if the host is big-endian; its own inverse.
template <typename T>
T SwapUnlessLittleEndian(T value) {
  static_assert(std::is_arithmetic_v<T>);
  if constexpr (std::endian::native == std::endian::little || sizeof(T) == 1) {
    return value;
  } else {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    for (std::size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
}

// The element of type T at `bytes`, which need not be aligned.
template <typename T>
T LoadLittleEndian(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return SwapUnlessLittleEndian(value);
}

template <typename T>
void StoreLittleEndian(T value, char* bytes) {
  value = SwapUnlessLittleEndian(value);
  std::memcpy(bytes, &value, sizeof(T));
}

// Appends sizeof(T) bytes for each value. O(values).
template <typename T>
void AppendLittleEndian(absl::Span<const T> values, std::string& bytes) {
  if constexpr (std::endian::native == std::endian::little) {
    if (!values.empty()) {
      bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    }
  } else {
    const std::size_t start = bytes.size();
    bytes.resize(start + values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      StoreLittleEndian(values[i], bytes.data() + start + i * sizeof(T));
    }
  }
}

// A read-only view of packed elements, such as SizeTable.counts or Batch.graph_ids. Trailing bytes
// that make no whole element are ignored: check the length first. The bytes must outlive the view.
template <typename T>
class LittleEndianView {
 public:
  explicit LittleEndianView(const std::string& bytes)
      : bytes_(bytes.data()), size_(bytes.size() / sizeof(T)) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Requires index < size().
  T operator[](std::size_t index) const { return LoadLittleEndian<T>(bytes_ + index * sizeof(T)); }

 private:
  const char* bytes_;
  std::size_t size_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LITTLE_ENDIAN_H_
