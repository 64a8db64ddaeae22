#include "service/algorithms/collation/fake_indices.h"

#include <algorithm>
#include <cstring>

#include "service/algorithms/graphs/index_values.h"

namespace packhouse {
namespace {

// tf.linspace(first, stop, count) in float32, then cut to whole numbers and clipped to last.
class Spread {
 public:
  Spread(uint64_t first, uint64_t num_fake, uint64_t count)
      : first_(first),
        last_(first + num_fake - 1),
        count_(count),
        start_(static_cast<float>(first)),
        stop_(static_cast<float>(first + num_fake)),
        step_(count > 1 ? (stop_ - start_) / static_cast<float>(count - 1) : 0) {}

  uint64_t operator[](uint64_t i) const {
    if (count_ > 1 && i == count_ - 1)
      return std::clamp(static_cast<uint64_t>(stop_), first_, last_);
    const float product = step_ * static_cast<float>(i);
    return std::clamp(static_cast<uint64_t>(start_ + product), first_, last_);
  }

 private:
  const uint64_t first_;
  const uint64_t last_;
  const uint64_t count_;
  const float start_;
  const float stop_;
  const float step_;
};

}  // namespace

void WriteFakeIndices(DType dtype, uint64_t first, uint64_t num_fake, size_t row_elements,
                      uint64_t count, char* to) {
  const Spread spread(first, num_fake, count);
  WithIndexType(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (uint64_t i = 0; i < count; ++i) {
      const auto value = static_cast<T>(spread[i]);
      for (size_t j = 0; j < row_elements; ++j) {
        std::memcpy(to, &value, sizeof(T));
        to += sizeof(T);
      }
    }
  });
}

}  // namespace packhouse
