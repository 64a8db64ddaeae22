#include "service/algorithms/graphs/dtype.h"

#include <array>
#include <cassert>
#include <limits>

namespace packhouse {
namespace {

struct Properties {
  absl::string_view name;
  size_t bytes;
  uint64_t max_index;  // 0: not an integer.
};

template <typename T>
constexpr uint64_t kMax = std::numeric_limits<T>::max();

// In the order of DType.
constexpr std::array<Properties, 13> kProperties = {{
    {"bool", 1, 0},
    {"int8", 1, kMax<int8_t>},
    {"int16", 2, kMax<int16_t>},
    {"int32", 4, kMax<int32_t>},
    {"int64", 8, kMax<int64_t>},
    {"uint8", 1, kMax<uint8_t>},
    {"uint16", 2, kMax<uint16_t>},
    {"uint32", 4, kMax<uint32_t>},
    {"uint64", 8, kMax<uint64_t>},
    {"float16", 2, 0},
    {"bfloat16", 2, 0},
    {"float32", 4, 0},
    {"float64", 8, 0},
}};

const Properties& Of(DType dtype) { return kProperties.at(static_cast<size_t>(dtype)); }

}  // namespace

size_t ElementBytes(DType dtype) { return Of(dtype).bytes; }
absl::string_view DTypeName(DType dtype) { return Of(dtype).name; }
bool IsInteger(DType dtype) { return Of(dtype).max_index != 0; }
uint64_t MaxIndex(DType dtype) { return Of(dtype).max_index; }

}  // namespace packhouse
