#include "client/cpp/widen.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/schema_layout.h"

namespace packhouse::client {
namespace {

template <typename From, typename To>
std::string WidenedElements(absl::string_view data) {
  const std::size_t n = data.size() / sizeof(From);
  std::string wide(n * sizeof(To), '\0');
  for (std::size_t i = 0; i < n; ++i) {
    StoreLittleEndian(static_cast<To>(LoadLittleEndian<From>(data.data() + i * sizeof(From))),
                      wide.data() + i * sizeof(To));
  }
  return wide;
}

// To this many bytes, more than those of From. A two's complement is the same, signed or not.
template <typename From>
std::string WidenedTo(std::size_t bytes, absl::string_view data) {
  if (bytes == 8) return WidenedElements<From, int64_t>(data);
  return bytes == 4 ? WidenedElements<From, int32_t>(data) : WidenedElements<From, int16_t>(data);
}

absl::StatusOr<std::string> Widened(absl::string_view name, v1::DataType dtype,
                                    v1::DataType declared, absl::string_view data) {
  const std::size_t from = ElementBytes(dtype);
  const std::size_t to = ElementBytes(declared);
  const bool is_narrow =
      dtype == v1::DATA_TYPE_UINT8 || dtype == v1::DATA_TYPE_INT16 || dtype == v1::DATA_TYPE_INT32;
  if (!is_narrow || !IsInteger(declared) || to <= from) {
    return absl::InvalidArgumentError(absl::StrCat("batch: tensor '", name, "' of dtype ",
                                                   static_cast<int>(declared), " comes as dtype ",
                                                   static_cast<int>(dtype)));
  }
  if (data.size() % from != 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch: tensor '", name, "' has ", data.size(),
                                                   " bytes, no multiple of ", from));
  }
  if (from == 1) return WidenedTo<uint8_t>(to, data);
  return from == 2 ? WidenedTo<int16_t>(to, data) : WidenedTo<int32_t>(to, data);
}

}  // namespace

absl::StatusOr<std::string> Widened(const TensorView& tensor) {
  if (!tensor.is_narrow()) return std::string(tensor.data);
  return Widened(tensor.name, tensor.dtype, tensor.declared_dtype, tensor.data);
}

absl::Status Widen(v1::Tensor& tensor) {
  if (tensor.declared_dtype() == v1::DATA_TYPE_UNSPECIFIED) return absl::OkStatus();
  absl::StatusOr<std::string> data =
      Widened(tensor.name(), tensor.dtype(), tensor.declared_dtype(), tensor.data());
  if (!data.ok()) return data.status();
  tensor.set_data(*std::move(data));
  tensor.set_dtype(tensor.declared_dtype());
  tensor.clear_declared_dtype();
  return absl::OkStatus();
}

absl::Status Widen(v1::Batch& batch) {
  for (v1::Tensor& tensor : *batch.mutable_tensors()) {
    if (absl::Status status = Widen(tensor); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace packhouse::client
