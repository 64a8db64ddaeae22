// The bytes before a tensor's data in the message that carries it.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_TENSOR_FRAMING_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_TENSOR_FRAMING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "service/algorithms/collation/batch.h"

namespace packhouse {

// Lets a batch be built as it will be sent: frame, data, frame, data, in one run of bytes. Pure;
// thread-safe.
class TensorFraming {
 public:
  virtual ~TensorFraming() = default;

  // Where it is asked for, data begins at a multiple of this.
  static constexpr uint64_t kAlignment = 64;

  // Appends the frame of `tensor`, whose data is not there yet but will have `data_bytes` bytes.
  // With `aligned_from` the frame begins there, and is as long as makes its data begin at a
  // multiple of kAlignment, unless there is none. Equal arguments make equal frames.
  virtual void AppendFrame(const BatchTensor& tensor, uint64_t data_bytes,
                           std::optional<uint64_t> aligned_from, std::string& frames) const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_TENSOR_FRAMING_H_
