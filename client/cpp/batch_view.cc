#include "client/cpp/batch_view.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/sampling.pb.h"

namespace packhouse::client {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

constexpr int kMaxVarintBytes = 10;
// Protobuf accepts tags and lengths of at most this many bytes.
constexpr int kMaxShortVarintBytes = 5;
constexpr uint64_t kMaxFieldBytes = std::numeric_limits<int32_t>::max() - 16;

}  // namespace

// One pass over the pieces of one response. The end of a message is given by the bytes of the
// response that are left then.
class BatchViewReader {
 public:
  BatchViewReader(absl::string_view response, absl::Span<const absl::string_view> pieces)
      : response_(response), pieces_(pieces) {
    for (const absl::string_view piece : pieces) left_ += piece.size();
    size_ = left_;
  }

  // `batch_field` is the response's field of a batch. The other fields up to `last_field` are
  // messages too; a response has one of them.
  absl::StatusOr<std::optional<BatchView>> Read(uint32_t batch_field, uint32_t last_field,
                                                bool is_loaded, std::shared_ptr<const void> owner) {
    bool has_batch = false;
    bool has_other = false;
    Field field;
    while (left_ > 0) {
      if (!ReadField(0, field)) return Refusal();
      const bool is_message = field.type == kLengthDelimited;
      if (is_message && field.number <= last_field) {
        if (has_batch || has_other) {
          Fail("a second message in one response");
          return Refusal();
        }
        (field.number == batch_field ? has_batch : has_other) = true;
      }
      if (!is_message || field.number != batch_field) {
        Skip(field);
      } else if (!(is_loaded ? ReadLoadedBatch(field.end) : ReadBatch(field.end))) {
        return Refusal();
      }
    }
    if (!has_batch) return std::nullopt;
    view_.response_bytes_ = size_;
    view_.owner_ = std::move(owner);
    return std::move(view_);
  }

 private:
  struct Field {
    uint32_t number = 0;
    uint32_t type = 0;
    // The value of a varint.
    uint64_t value = 0;
    // For all others: the bytes of the response that are left after it.
    uint64_t end = 0;
  };

  bool Fail(absl::string_view what) {
    error_ = absl::StrCat(response_, ", byte ", size_ - left_, ": ", what);
    return false;
  }
  absl::Status Refusal() const { return absl::InvalidArgumentError(error_); }

  // The piece that has the next byte. Requires left_ > 0.
  absl::string_view Rest() {
    while (at_ == pieces_[piece_].size()) {
      ++piece_;
      at_ = 0;
    }
    return pieces_[piece_].substr(at_);
  }
  void Advance(uint64_t bytes) {
    at_ += bytes;
    left_ -= bytes;
  }

  bool ReadVarint(uint64_t end, int max_bytes, uint64_t& value) {
    value = 0;
    for (int i = 0; i < max_bytes; ++i) {
      if (left_ <= end) return Fail("a number ends behind its message");
      const auto byte = static_cast<unsigned char>(Rest().front());
      Advance(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
      if (byte < 0x80) return true;
    }
    return Fail("a number is too long");
  }

  // Reads tag and value or length.
  bool ReadField(uint64_t end, Field& field) {
    uint64_t tag = 0;
    if (!ReadVarint(end, kMaxShortVarintBytes, tag)) return false;
    if (tag > std::numeric_limits<uint32_t>::max() || tag >> 3 == 0) return Fail("a bad tag");
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = static_cast<uint32_t>(tag & 7);
    uint64_t bytes = 0;
    switch (field.type) {
      case kVarint:
        return ReadVarint(end, kMaxVarintBytes, field.value);
      case kFixed64:
        bytes = 8;
        break;
      case kFixed32:
        bytes = 4;
        break;
      case kLengthDelimited:
        if (!ReadVarint(end, kMaxShortVarintBytes, bytes)) return false;
        if (bytes > kMaxFieldBytes) return Fail("a field is too long");
        break;
      default:
        return Fail("a group, which no message here has");
    }
    if (bytes > left_ - end) return Fail("a field ends behind its message");
    field.end = left_ - bytes;
    return true;
  }

  void Skip(const Field& field) {
    if (field.type == kVarint) return;
    while (left_ > field.end) Advance(std::min<uint64_t>(Rest().size(), left_ - field.end));
  }

  // Everything up to `end`, in one piece.
  absl::string_view ReadBytes(uint64_t end) {
    const uint64_t bytes = left_ - end;
    if (bytes == 0) return {};
    const absl::string_view rest = Rest();
    if (rest.size() >= bytes) {
      Advance(bytes);
      return rest.substr(0, bytes);
    }
    // The response has that many bytes, so no more can be asked for than was received.
    view_.copies_.push_back(std::unique_ptr<char[]>(new char[bytes]));
    char* const copy = view_.copies_.back().get();
    for (char* to = copy; left_ > end;) {
      const absl::string_view part = Rest().substr(0, left_ - end);
      std::memcpy(to, part.data(), part.size());
      to += part.size();
      Advance(part.size());
    }
    view_.copied_bytes_ += bytes;
    return {copy, bytes};
  }

  // A repeated number, packed or not.
  bool ReadNumbers(const Field& field, absl::InlinedVector<uint64_t, 4>& numbers) {
    if (field.type == kVarint) {
      numbers.push_back(field.value);
      return true;
    }
    while (left_ > field.end) {
      uint64_t number = 0;
      if (!ReadVarint(field.end, kMaxVarintBytes, number)) return false;
      numbers.push_back(number);
    }
    return true;
  }

  bool ReadTensor(uint64_t end) {
    TensorView& tensor = view_.tensors_.emplace_back();
    Field field;
    while (left_ > end) {
      if (!ReadField(end, field)) return false;
      const bool is_number = field.type == kVarint;
      const bool is_bytes = field.type == kLengthDelimited;
      if (field.number == v1::Tensor::kNameFieldNumber && is_bytes) {
        tensor.name = ReadBytes(field.end);
        if (!std::all_of(tensor.name.begin(), tensor.name.end(), [](char c) {
              return absl::ascii_isascii(static_cast<unsigned char>(c));
            })) {
          return Fail("a tensor's name is not ASCII");
        }
      } else if (field.number == v1::Tensor::kDtypeFieldNumber && is_number) {
        tensor.dtype = static_cast<v1::DataType>(static_cast<int32_t>(field.value));
      } else if (field.number == v1::Tensor::kDeclaredDtypeFieldNumber && is_number) {
        tensor.declared_dtype = static_cast<v1::DataType>(static_cast<int32_t>(field.value));
      } else if (field.number == v1::Tensor::kShapeFieldNumber && (is_number || is_bytes)) {
        if (!ReadNumbers(field, tensor.shape)) return false;
      } else if (field.number == v1::Tensor::kDataFieldNumber && is_bytes) {
        tensor.data = ReadBytes(field.end);
      } else {
        Skip(field);
      }
    }
    return true;
  }

  bool ReadBatch(uint64_t end) {
    Field field;
    while (left_ > end) {
      if (!ReadField(end, field)) return false;
      const bool is_number = field.type == kVarint;
      const bool is_bytes = field.type == kLengthDelimited;
      if (field.number == v1::Batch::kTensorsFieldNumber && is_bytes) {
        if (!ReadTensor(field.end)) return false;
      } else if (field.number == v1::Batch::kGraphIdsFieldNumber && is_bytes) {
        view_.graph_ids_ = ReadBytes(field.end);
      } else if (field.number == v1::Batch::kSizesFieldNumber && is_bytes) {
        view_.sizes_ = ReadBytes(field.end);
      } else if (field.number == v1::Batch::kRealRowsFieldNumber && (is_number || is_bytes)) {
        if (!ReadNumbers(field, view_.real_rows_)) return false;
      } else if (field.number == v1::Batch::kRowsFieldNumber && (is_number || is_bytes)) {
        if (!ReadNumbers(field, view_.rows_)) return false;
      } else if (field.number == v1::Batch::kIdFieldNumber && is_number) {
        view_.id_ = field.value;
      } else if (field.number == v1::Batch::kEpochFieldNumber && is_number) {
        view_.epoch_ = field.value;
      } else if (field.number == v1::Batch::kStepFieldNumber && is_number) {
        view_.step_ = field.value;
      } else {
        Skip(field);
      }
    }
    return true;
  }

  bool ReadLoadedBatch(uint64_t end) {
    bool has_batch = false;
    Field field;
    while (left_ > end) {
      if (!ReadField(end, field)) return false;
      const bool is_number = field.type == kVarint;
      if (field.number == v1::LoadedBatch::kBatchFieldNumber && field.type == kLengthDelimited) {
        if (has_batch) return Fail("a second batch in one response");
        has_batch = true;
        if (!ReadBatch(field.end)) return false;
      } else if (field.number == v1::LoadedBatch::kIsPaddingFieldNumber && is_number) {
        view_.is_padding_ = field.value != 0;
      } else if (field.number == v1::LoadedBatch::kIsRedeliveredFieldNumber && is_number) {
        view_.is_redelivered_ = field.value != 0;
      } else if (field.number == v1::LoadedBatch::kGraphsOfStepFieldNumber && is_number) {
        view_.graphs_of_step_ = field.value;
      } else if (field.number == v1::LoadedBatch::kShapeFieldNumber && is_number) {
        view_.shape_ = static_cast<uint32_t>(field.value);
      } else if (field.number == v1::LoadedBatch::kDrawnSmallerFieldNumber &&
                 field.type == kLengthDelimited) {
        if (!ReadDrawnSmaller(field.end)) return false;
      } else {
        Skip(field);
      }
    }
    return true;
  }

  bool ReadDrawnSmaller(uint64_t end) {
    BatchView::DrawnSmaller& smaller = view_.drawn_smaller_.emplace_back();
    Field field;
    while (left_ > end) {
      if (!ReadField(end, field)) return false;
      const bool is_number = field.type == kVarint;
      if (field.number == v1::DrawnSmaller::kGraphIdFieldNumber && is_number) {
        smaller.graph_id = field.value;
      } else if (field.number == v1::DrawnSmaller::kLevelFieldNumber && is_number) {
        smaller.level = static_cast<uint32_t>(field.value);
      } else {
        Skip(field);
      }
    }
    return true;
  }

  const absl::string_view response_;
  const absl::Span<const absl::string_view> pieces_;
  uint64_t size_ = 0;
  uint64_t left_ = 0;
  std::size_t piece_ = 0;
  std::size_t at_ = 0;
  BatchView view_;
  std::string error_;
};

absl::StatusOr<std::optional<BatchView>> BatchView::OfPackResponse(
    absl::Span<const absl::string_view> pieces, std::shared_ptr<const void> owner) {
  return BatchViewReader("PackResponse", pieces)
      .Read(v1::PackResponse::kBatchFieldNumber, v1::PackResponse::kDriftedFieldNumber, false,
            std::move(owner));
}

absl::StatusOr<std::optional<BatchView>> BatchView::OfLoadResponse(
    absl::Span<const absl::string_view> pieces, std::shared_ptr<const void> owner) {
  return BatchViewReader("LoadResponse", pieces)
      .Read(v1::LoadResponse::kBatchFieldNumber, v1::LoadResponse::kRedirectFieldNumber, true,
            std::move(owner));
}

}  // namespace packhouse::client
