// Reads a batch where it was received, without copying its tensors.
//
// Protobuf would copy every tensor into a string of its own. A BatchView reads the received bytes
// instead: small fields are decoded, tensors stay where they are. Start with batch_slices.h, which
// makes a BatchView from what gRPC received; this header does not use gRPC.
#ifndef PACKHOUSE_CLIENT_CPP_BATCH_VIEW_H_
#define PACKHOUSE_CLIENT_CPP_BATCH_VIEW_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

// As v1::Tensor.
struct TensorView {
  absl::string_view name;
  // Of the elements of `data`.
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  absl::InlinedVector<uint64_t, 4> shape;
  // Contiguous, dense, row-major, little-endian. It may be at any address, so load elements with
  // LoadLittleEndian (little_endian.h), or copy them to an aligned place.
  absl::string_view data;
  // Set if the data travelled in a narrower type than the tensor's own: Widened() (widen.h) gives
  // it as declared.
  v1::DataType declared_dtype = v1::DATA_TYPE_UNSPECIFIED;

  bool is_narrow() const { return declared_dtype != v1::DATA_TYPE_UNSPECIFIED; }
  v1::DataType own_dtype() const { return is_narrow() ? declared_dtype : dtype; }
};

// As v1::Batch, with v1::LoadedBatch around it. Unset fields are 0 or empty here.
//
// Views are valid as long as the BatchView, or what it was moved to. Immutable, so thread-safe.
class BatchView {
 public:
  // The batch of a response whose bytes are `pieces`, one after the other; nullopt if the response
  // has no batch: then parse it with protobuf. `owner` keeps the pieces alive; it is held as long
  // as there are views.
  //
  // A field that lies in one piece is viewed there; a field that is cut is copied. For tensors in
  // messages of a few hundred kilobytes or more this is rare if gRPC was told to read whole
  // messages (process_tuning.h).
  //
  // Accepted bytes are read in the same way as by protobuf. Errors: INVALID_ARGUMENT naming the
  // message and the byte, for everything that protobuf refuses, and for what no serializer writes:
  // a group, a response with two messages, a tensor's name that is not ASCII. Cost: O(fields) and
  // the copied bytes; memory O(fields) and the copied bytes.
  static absl::StatusOr<std::optional<BatchView>> OfPackResponse(
      absl::Span<const absl::string_view> pieces, std::shared_ptr<const void> owner);
  static absl::StatusOr<std::optional<BatchView>> OfLoadResponse(
      absl::Span<const absl::string_view> pieces, std::shared_ptr<const void> owner);

  BatchView(BatchView&&) = default;
  BatchView& operator=(BatchView&&) = default;
  // Views of cut fields would dangle in a copy: share one behind a pointer instead.
  BatchView(const BatchView&) = delete;
  BatchView& operator=(const BatchView&) = delete;

  uint64_t id() const { return id_; }
  uint64_t epoch() const { return epoch_; }
  uint64_t step() const { return step_; }
  // Little-endian uint64.
  absl::string_view graph_ids() const { return graph_ids_; }
  uint64_t num_graphs() const { return graph_ids_.size() / sizeof(uint64_t); }
  // Little-endian uint32, as SizeTable.counts.
  absl::string_view sizes() const { return sizes_; }
  absl::Span<const uint64_t> real_rows() const { return real_rows_; }
  absl::Span<const uint64_t> rows() const { return rows_; }
  absl::Span<const TensorView> tensors() const { return tensors_; }

  // For a data set's epoch.
  bool is_padding() const { return is_padding_; }
  bool is_redelivered() const { return is_redelivered_; }
  uint64_t graphs_of_step() const { return graphs_of_step_; }
  uint32_t shape() const { return shape_; }
  // Sub-graphs that were drawn smaller than the spec says.
  struct DrawnSmaller {
    uint64_t graph_id = 0;
    uint32_t level = 0;
  };
  absl::Span<const DrawnSmaller> drawn_smaller() const { return drawn_smaller_; }

  // Bytes of the response that this batch came in.
  uint64_t response_bytes() const { return response_bytes_; }
  // Bytes of fields that were cut, and therefore copied.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  friend class BatchViewReader;
  BatchView() = default;

  uint64_t id_ = 0;
  uint64_t epoch_ = 0;
  uint64_t step_ = 0;
  absl::string_view graph_ids_;
  absl::string_view sizes_;
  absl::InlinedVector<uint64_t, 4> real_rows_;
  absl::InlinedVector<uint64_t, 4> rows_;
  std::vector<TensorView> tensors_;
  bool is_padding_ = false;
  bool is_redelivered_ = false;
  uint64_t graphs_of_step_ = 0;
  uint32_t shape_ = 0;
  std::vector<DrawnSmaller> drawn_smaller_;

  uint64_t response_bytes_ = 0;
  std::shared_ptr<const void> owner_;
  std::vector<std::unique_ptr<char[]>> copies_;
  uint64_t copied_bytes_ = 0;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_BATCH_VIEW_H_
