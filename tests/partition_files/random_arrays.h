// Arrays of random types, shapes and bytes.
#ifndef PACKHOUSE_TESTS_PARTITION_FILES_RANDOM_ARRAYS_H_
#define PACKHOUSE_TESTS_PARTITION_FILES_RANDOM_ARRAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/wings/partition/files/array.h"
#include "tests/support/random.h"

namespace packhouse {

struct OwnedArray {
  ArrayHeader header;
  std::string bytes;

  ArrayView view() const { return {header, bytes}; }
};

inline OwnedArray RandomArray(std::string name, DType dtype, Random& random) {
  OwnedArray array = {{std::move(name), dtype, {}}, ""};
  for (uint64_t rank = random.Below(4); rank > 0; --rank) {
    array.header.shape.push_back(random.Below(5));
  }
  array.bytes.resize(ArrayBytes(array.header).value());
  for (char& byte : array.bytes) byte = static_cast<char>(random.Next());
  return array;
}

inline std::vector<ArraySource> SourcesOf(const std::vector<OwnedArray>& arrays) {
  std::vector<ArraySource> sources;
  for (const OwnedArray& array : arrays) sources.push_back(SourceOf(array.view()));
  return sources;
}

inline bool Same(const ArrayView& a, const ArrayView& b) {
  return a.header.name == b.header.name && a.header.dtype == b.header.dtype &&
         a.header.shape == b.header.shape && a.bytes == b.bytes;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITION_FILES_RANDOM_ARRAYS_H_
