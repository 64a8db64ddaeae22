// Arrays as files have them: a name, an element type, a shape, and little-endian rows.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_ARRAY_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_ARRAY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// More dimensions are refused, written or read.
inline constexpr size_t kMaxArrayRank = 32;

struct ArrayHeader {
  std::string name;
  DType dtype = DType::kInt64;
  std::vector<uint64_t> shape;
};

// An array that is made while it is written, so that no file needs the memory of its arrays.
struct ArraySource {
  ArrayHeader header;
  // Writes all rows, dense and little-endian. May be called more than once, with the same result.
  std::function<absl::Status(ByteSink&)> write;
};

// An array of a file that is in memory or mapped. Views live as long as the file's bytes.
struct ArrayView {
  ArrayHeader header;
  absl::string_view bytes;
};

// INVALID_ARGUMENT naming the array if its rank is above kMaxArrayRank or it has more than 2^63 - 1
// bytes.
absl::StatusOr<uint64_t> ArrayBytes(const ArrayHeader& header);

// Writes the rows of `array`. INTERNAL naming it if it gives fewer or more bytes than its shape
// has.
absl::Status WriteRows(const ArraySource& array, ByteSink& sink);

// How many bytes are converted at a time while an array is written.
inline constexpr size_t kConvertedElements = 8192;

// An array of one dimension: element i is map(values[i]). `values` must outlive it.
template <typename Element, typename Value, typename Map>
ArraySource MappedArray(std::string name, DType dtype, absl::Span<const Value> values, Map map) {
  ArraySource array;
  array.header = {std::move(name), dtype, {values.size()}};
  array.write = [values, map](ByteSink& sink) {
    std::array<Element, kConvertedElements> block;
    for (size_t at = 0; at < values.size(); at += block.size()) {
      const size_t count = std::min(block.size(), values.size() - at);
      for (size_t i = 0; i < count; ++i) block[i] = map(values[at + i]);
      const absl::string_view bytes(reinterpret_cast<const char*>(block.data()),
                                    count * sizeof(Element));
      if (absl::Status status = sink.Write(bytes); !status.ok()) return status;
    }
    return absl::OkStatus();
  };
  return array;
}

// `values` as int64. They must outlive the array.
template <typename Value>
ArraySource Int64Array(std::string name, absl::Span<const Value> values) {
  return MappedArray<int64_t>(std::move(name), DType::kInt64, values,
                              [](Value value) { return static_cast<int64_t>(value); });
}

// An array of one dimension: element i is make(i), for i below `count`.
template <typename Element, typename Make>
ArraySource MadeArray(std::string name, DType dtype, uint64_t count, Make make) {
  ArraySource array;
  array.header = {std::move(name), dtype, {count}};
  array.write = [count, make](ByteSink& sink) {
    std::array<Element, kConvertedElements> block;
    for (uint64_t at = 0; at < count; at += block.size()) {
      const size_t here = static_cast<size_t>(std::min<uint64_t>(block.size(), count - at));
      for (size_t i = 0; i < here; ++i) block[i] = static_cast<Element>(make(at + i));
      const absl::string_view bytes(reinterpret_cast<const char*>(block.data()),
                                    here * sizeof(Element));
      if (absl::Status status = sink.Write(bytes); !status.ok()) return status;
    }
    return absl::OkStatus();
  };
  return array;
}

// The same array again, for example one that was read. Its bytes must outlive the source.
ArraySource SourceOf(const ArrayView& view);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_ARRAY_H_
