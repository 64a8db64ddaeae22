#include "service/wings/graphs/files/npy_header.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionBytes = 2;
// numpy makes the elements begin at a multiple of this.
constexpr size_t kAlignment = 64;
constexpr size_t kShownBytes = 40;
constexpr uint64_t kMaxDataBytes = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

template <typename... Args>
absl::Status Malformed(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

std::string Shown(absl::string_view text) {
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kShownBytes)), "'");
}

struct NumpyType {
  absl::string_view name;  // Without its byte order.
  DType dtype;
};
constexpr NumpyType kNumpyTypes[] = {
    {"b1", DType::kBool},     {"i1", DType::kInt8},    {"i2", DType::kInt16},
    {"i4", DType::kInt32},    {"i8", DType::kInt64},   {"u1", DType::kUint8},
    {"u2", DType::kUint16},   {"u4", DType::kUint32},  {"u8", DType::kUint64},
    {"f2", DType::kFloat16},  {"f4", DType::kFloat32}, {"f8", DType::kFloat64},
    {"u2", DType::kBfloat16},
};

absl::StatusOr<DType> ParseElementType(absl::string_view descr) {
  if (!descr.empty()) {
    for (const auto& [name, dtype] : kNumpyTypes) {
      if (descr.substr(1) != name) continue;
      const bool one_byte = ElementBytes(dtype) == 1;
      if (descr[0] == '>' && !one_byte) {
        return Malformed("dtype ", Shown(descr), " is big-endian; save the array as '<", name, "'");
      }
      if (descr[0] == '<' || descr[0] == '>' || (descr[0] == '|' && one_byte)) return dtype;
    }
  }
  return Malformed("dtype ", Shown(descr), " cannot be read: only bool, integers and floats can");
}

// The Python literal `{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }`, accepted only
// as numpy writes it.
class DictionaryParser {
 public:
  explicit DictionaryParser(absl::string_view text) : rest_(text) {}

  absl::StatusOr<NpyHeader> Parse() {
    if (!Take("{")) return Unexpected("a '{'");
    while (!Take("}")) {
      const std::optional<absl::string_view> key = TakeString();
      if (!key.has_value()) return Unexpected("a key in quotes");
      if (!Take(":")) return Unexpected("a ':'");
      absl::Status status;
      if (*key == "descr" && !descr_.has_value()) {
        descr_ = TakeString();
        if (!descr_.has_value()) return Unexpected("a simple dtype in quotes");
      } else if (*key == "fortran_order" && !fortran_order_.has_value()) {
        if (Take("True")) {
          fortran_order_ = true;
        } else if (Take("False")) {
          fortran_order_ = false;
        } else {
          return Unexpected("True or False");
        }
      } else if (*key == "shape" && !shape_.has_value()) {
        if (status = ParseShape(); !status.ok()) return status;
      } else {
        return Malformed("header has the key ", Shown(*key), ", which is unknown or there twice");
      }
      if (!Take(",") && !absl::StartsWith(rest_, "}")) return Unexpected("a ',' or a '}'");
    }
    if (!absl::StripAsciiWhitespace(rest_).empty()) return Unexpected("the header's end");
    return Resolve();
  }

 private:
  // Skips spaces after the token.
  bool Take(absl::string_view token) {
    if (!absl::ConsumePrefix(&rest_, token)) return false;
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return true;
  }

  std::optional<absl::string_view> TakeString() {
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    const absl::string_view text = rest_.substr(1, end - 1);
    if (absl::StrContains(text, '\\')) return std::nullopt;
    Take(rest_.substr(0, end + 1));
    return text;
  }

  absl::Status ParseShape() {
    if (!Take("(")) return Unexpected("a '('");
    shape_.emplace();
    bool closed = Take(")");
    while (!closed) {
      uint64_t extent = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc()) return Unexpected("an extent below 2^64");
      if (shape_->size() == kMaxNpyDimensions) {
        return Malformed("shape has more than ", kMaxNpyDimensions, " dimensions");
      }
      shape_->push_back(extent);
      Take(rest_.substr(0, static_cast<size_t>(stop - rest_.data())));
      const bool comma = Take(",");
      closed = Take(")");
      // `(3)` is a number, `(3,)` a shape.
      if (!comma && (!closed || shape_->size() == 1)) return Unexpected("a ','");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<NpyHeader> Resolve() {
    for (const auto& [there, key] : {std::pair(descr_.has_value(), "descr"),
                                     std::pair(fortran_order_.has_value(), "fortran_order"),
                                     std::pair(shape_.has_value(), "shape")}) {
      if (!there) return Malformed("header lacks the key '", key, "'");
    }
    NpyHeader header;
    PH_ASSIGN_OR_RETURN(header.dtype, ParseElementType(*descr_));
    if (*fortran_order_) {
      return Malformed("is in Fortran order; save numpy.ascontiguousarray of it");
    }
    header.shape = *std::move(shape_);
    // An extent of 0 must not hide an overflow of the others.
    uint64_t bytes = ElementBytes(header.dtype);
    for (const uint64_t extent : header.shape) {
      header.num_elements *= extent;
      if (extent == 0) continue;
      if (bytes > kMaxDataBytes / extent) return Malformed("shape has more than 2^63 - 1 bytes");
      bytes *= extent;
    }
    header.data_bytes = header.num_elements * ElementBytes(header.dtype);
    return header;
  }

  absl::Status Unexpected(absl::string_view expected) const {
    return Malformed("header has ", Shown(rest_), " in place of ", expected);
  }

  absl::string_view rest_;
  std::optional<absl::string_view> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<uint64_t>> shape_;
};

// Bytes of the length field in this version; 0 if there is no such version.
size_t LengthBytes(absl::string_view header) {
  const char major = header[kMagic.size()];
  if (header[kMagic.size() + 1] != 0) return 0;
  return major == 1 ? sizeof(uint16_t) : major == 2 || major == 3 ? sizeof(uint32_t) : 0;
}

}  // namespace

uint64_t NpyHeader::RowElements() const {
  uint64_t elements = 1;
  for (size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

std::string ShapeText(const NpyHeader& header) {
  return absl::StrCat("[", absl::StrJoin(header.shape, ", "), "]");
}

absl::StatusOr<size_t> NpyHeaderBytes(absl::string_view prefix) {
  if (prefix.size() < kNpyPrefixBytes) {
    return Malformed("is no .npy file: it ends after ", prefix.size(), " bytes");
  }
  if (!absl::StartsWith(prefix, kMagic)) {
    return Malformed("is no .npy file: it begins with ", Shown(prefix.substr(0, kMagic.size())));
  }
  const size_t length_bytes = LengthBytes(prefix);
  const char* const length = prefix.data() + kMagic.size() + kVersionBytes;
  if (length_bytes == 0) {
    return Malformed("has version ", static_cast<int>(static_cast<unsigned char>(prefix[6])), ".",
                     static_cast<int>(static_cast<unsigned char>(prefix[7])),
                     " of the .npy format, not 1.0, 2.0 or 3.0");
  }
  uint32_t text_bytes = 0;  // Little-endian.
  for (size_t i = length_bytes; i > 0; --i) {
    text_bytes = text_bytes << 8 | static_cast<unsigned char>(length[i - 1]);
  }
  const size_t bytes = kMagic.size() + kVersionBytes + length_bytes + size_t{text_bytes};
  if (bytes < kNpyPrefixBytes || bytes > kMaxNpyHeaderBytes) {
    return Malformed("has a header of ", bytes, " bytes, must be ", kNpyPrefixBytes, " to ",
                     kMaxNpyHeaderBytes);
  }
  return bytes;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view header) {
  const absl::StatusOr<size_t> bytes = NpyHeaderBytes(header.substr(0, kNpyPrefixBytes));
  if (!bytes.ok()) return bytes.status();
  if (header.size() < *bytes) {
    return Malformed("ends within its header: ", header.size(), " of ", *bytes, " bytes");
  }
  const absl::string_view text =
      header.substr(0, *bytes).substr(kMagic.size() + kVersionBytes + LengthBytes(header));
  if (!absl::EndsWith(text, "\n")) return Malformed("header does not end in a newline");
  absl::StatusOr<NpyHeader> parsed = DictionaryParser(text).Parse();
  if (parsed.ok()) parsed->header_bytes = *bytes;
  return parsed;
}

std::string MakeNpyHeader(DType dtype, absl::Span<const uint64_t> shape, size_t least_bytes) {
  absl::string_view type;
  for (const NumpyType& known : kNumpyTypes) {
    if (known.dtype == dtype) type = known.name;
  }
  std::string text =
      absl::StrCat("{'descr': '", ElementBytes(dtype) == 1 ? "|" : "<", type,
                   "', 'fortran_order': False, 'shape': (", absl::StrJoin(shape, ", "),
                   shape.size() == 1 ? ",)" : ")", ", }");
  constexpr size_t kBefore = kMagic.size() + kVersionBytes + sizeof(uint16_t);
  // Spaces and a newline.
  const size_t needed = kBefore + text.size() + 1;
  const size_t bytes = std::max(needed + kAlignment - needed % kAlignment, least_bytes);
  text.append(bytes - needed, ' ');
  text += '\n';
  const char length[] = {static_cast<char>(text.size() & 0xff),
                         static_cast<char>(text.size() >> 8)};
  return absl::StrCat(kMagic, absl::string_view("\x01\x00", kVersionBytes),
                      absl::string_view(length, sizeof(length)), text);
}

}  // namespace packhouse
