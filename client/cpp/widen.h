// Tensors that travel in a narrow type (INTEGER_WIDTH_COMPACT), in their own.
//
// A narrow tensor may also be used as it comes: send it to the device, and convert it there.
#ifndef PACKHOUSE_CLIENT_CPP_WIDEN_H_
#define PACKHOUSE_CLIENT_CPP_WIDEN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/batch_view.h"
#include "packhouse/v1/batch.pb.h"

namespace packhouse::client {

// A copy of the tensor's data in its own type, TensorView::own_dtype(). Little-endian as before.
//
// Errors: INVALID_ARGUMENT naming the tensor, if it comes in a type in which its own never travels
// (see IntegerWidth in batch.proto), or if its data is no whole number of elements. Cost: O(bytes);
// thread-safe.
absl::StatusOr<std::string> Widened(const TensorView& tensor);

// The same in a message: afterwards `declared_dtype` is unset. A tensor that came in its own type
// stays as it is; after an error, tensors before the wrong one are widened.
absl::Status Widen(v1::Tensor& tensor);
absl::Status Widen(v1::Batch& batch);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_WIDEN_H_
