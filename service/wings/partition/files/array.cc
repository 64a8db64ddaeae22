#include "service/wings/partition/files/array.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kMaxBytes = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

// Lets through as many bytes as were promised.
class ExactSink : public ByteSink {
 public:
  ExactSink(const ArrayHeader& header, uint64_t bytes, ByteSink& sink)
      : header_(header), promised_(bytes), left_(bytes), sink_(sink) {}

  absl::Status Write(absl::string_view bytes) override {
    if (bytes.size() > left_) return Wrong("more than");
    left_ -= bytes.size();
    return sink_.Write(bytes);
  }
  absl::Status Finish() const { return left_ == 0 ? absl::OkStatus() : Wrong("fewer than"); }

 private:
  absl::Status Wrong(absl::string_view what) const {
    return absl::InternalError(absl::StrCat("array ", Quoted(header_.name), " gives ", what,
                                            " the ", promised_, " bytes of its shape"));
  }

  const ArrayHeader& header_;
  const uint64_t promised_;
  uint64_t left_;
  ByteSink& sink_;
};

}  // namespace

absl::StatusOr<uint64_t> ArrayBytes(const ArrayHeader& header) {
  if (header.shape.size() > kMaxArrayRank) {
    return absl::InvalidArgumentError(absl::StrCat("array ", Quoted(header.name), " has ",
                                                   header.shape.size(), " dimensions, at most ",
                                                   kMaxArrayRank));
  }
  // An extent of 0 must not hide that the others are too large.
  uint64_t bytes = ElementBytes(header.dtype);
  bool empty = false;
  for (const uint64_t extent : header.shape) {
    empty = empty || extent == 0;
    const std::optional<uint64_t> product = CheckedMultiply(bytes, std::max<uint64_t>(extent, 1));
    if (!product || *product > kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("array ", Quoted(header.name), " has more than 2^63 - 1 bytes"));
    }
    bytes = *product;
  }
  return empty ? 0 : bytes;
}

absl::Status WriteRows(const ArraySource& array, ByteSink& sink) {
  PH_ASSIGN_OR_RETURN(const uint64_t bytes, ArrayBytes(array.header));
  ExactSink exact(array.header, bytes, sink);
  PH_RETURN_IF_ERROR(array.write(exact));
  return exact.Finish();
}

ArraySource SourceOf(const ArrayView& view) {
  return {view.header, [bytes = view.bytes](ByteSink& sink) { return sink.Write(bytes); }};
}

}  // namespace packhouse
