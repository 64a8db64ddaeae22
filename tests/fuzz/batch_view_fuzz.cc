// The bytes of a response, in pieces as long as the first byte says. Whatever comes in: no crash,
// and what is accepted as a batch is one for protobuf too, with the same tensors.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/batch_view.h"
#include "client/cpp/widen.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/loader.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t longest = std::max<size_t>(1, data[0]);
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<absl::string_view> pieces;
  for (size_t at = 0; at < bytes.size(); at += longest) pieces.push_back(bytes.substr(at, longest));
  const auto view = packhouse::client::BatchView::OfLoadResponse(pieces, nullptr);
  if (!view.ok()) {
    if (view.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
    return 0;
  }
  if (!view->has_value()) return 0;
  packhouse::v1::LoadResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) std::abort();
  const packhouse::v1::Batch& batch = response.batch().batch();
  if ((*view)->id() != batch.id() || (*view)->graph_ids() != batch.graph_ids()) std::abort();
  if ((*view)->sizes() != batch.sizes() || (*view)->shape() != response.batch().shape()) {
    std::abort();
  }
  const auto tensors = (*view)->tensors();
  if (tensors.size() != static_cast<size_t>(batch.tensors_size())) std::abort();
  for (size_t t = 0; t < tensors.size(); ++t) {
    const packhouse::v1::Tensor& tensor = batch.tensors(static_cast<int>(t));
    if (tensors[t].name != tensor.name() || tensors[t].data != tensor.data()) std::abort();
    if (tensors[t].dtype != tensor.dtype()) std::abort();
    if (tensors[t].declared_dtype != tensor.declared_dtype()) std::abort();
    const auto wide = packhouse::client::Widened(tensors[t]);
    packhouse::v1::Tensor widened = tensor;
    const absl::Status status = packhouse::client::Widen(widened);
    if (wide.status() != status) std::abort();
    if (status.ok() ? *wide != widened.data() : !absl::IsInvalidArgument(status)) std::abort();
    if (!std::equal(tensors[t].shape.begin(), tensors[t].shape.end(), tensor.shape().begin(),
                    tensor.shape().end())) {
      std::abort();
    }
  }
  return 0;
}
