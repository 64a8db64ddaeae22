#include "service/wings/partition/files/npy_file.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kVersionEnd = 8;
// numpy makes the rows begin at a multiple of this.
constexpr size_t kAlignment = 64;

constexpr std::pair<DType, absl::string_view> kNpyTypes[] = {
    {DType::kBool, "|b1"},     {DType::kInt8, "|i1"},    {DType::kInt16, "<i2"},
    {DType::kInt32, "<i4"},    {DType::kInt64, "<i8"},   {DType::kUint8, "|u1"},
    {DType::kUint16, "<u2"},   {DType::kUint32, "<u4"},  {DType::kUint64, "<u8"},
    {DType::kFloat16, "<f2"},  {DType::kFloat32, "<f4"}, {DType::kFloat64, "<f8"},
    {DType::kBfloat16, "<u2"},
};

absl::Status WrongNpy(absl::string_view what) { return absl::InvalidArgumentError(what); }

// The Python literal of the header, as numpy writes it: keys in any order.
class NpyHeaderText {
 public:
  explicit NpyHeaderText(absl::string_view text) : rest_(text) {}

  absl::StatusOr<ArrayHeader> Parse() {
    ArrayHeader header;
    bool has_type = false, has_order = false, has_shape = false;
    if (!Take("{")) return Unexpected("'{'");
    while (!Take("}")) {
      if (!has_type && Take("'descr'")) {
        has_type = true;
        if (!Take(":")) return Unexpected("':'");
        bool known = false;
        for (const auto& [dtype, word] : kNpyTypes) {
          if (known = Take(absl::StrCat("'", word, "'")); known) {
            header.dtype = dtype;
            break;
          }
        }
        if (!known) return Unexpected("a little-endian number type or bool");
      } else if (!has_order && Take("'fortran_order'")) {
        has_order = true;
        if (!Take(":") || !Take("False")) return Unexpected("': False' (row-major order)");
      } else if (!has_shape && Take("'shape'")) {
        has_shape = true;
        if (!Take(":")) return Unexpected("':'");
        PH_RETURN_IF_ERROR(ParseShape(header.shape));
      } else {
        return Unexpected("one each of 'descr', 'fortran_order', 'shape'");
      }
      if (!Take(",") && !absl::StartsWith(rest_, "}")) return Unexpected("',' or '}'");
    }
    if (!has_type || !has_order || !has_shape) return WrongNpy("the header lacks a key");
    if (!absl::StripAsciiWhitespace(rest_).empty()) return Unexpected("the header's end");
    return header;
  }

 private:
  bool Take(absl::string_view token) {
    if (!absl::ConsumePrefix(&rest_, token)) return false;
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return true;
  }

  absl::Status Unexpected(absl::string_view wanted) const {
    return WrongNpy(
        absl::StrCat("the header has ", Quoted(rest_), " where there must be ", wanted));
  }

  absl::Status ParseShape(std::vector<uint64_t>& shape) {
    if (!Take("(")) return Unexpected("'('");
    while (!Take(")")) {
      uint64_t extent = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc()) return Unexpected("an extent below 2^64");
      if (shape.size() == kMaxArrayRank) {
        return WrongNpy(absl::StrCat("the shape has more than ", kMaxArrayRank, " dimensions"));
      }
      shape.push_back(extent);
      Take(rest_.substr(0, static_cast<size_t>(stop - rest_.data())));
      if (!Take(",") && (shape.size() == 1 || !absl::StartsWith(rest_, ")"))) {
        return Unexpected("','");
      }
    }
    return absl::OkStatus();
  }

  absl::string_view rest_;
};

}  // namespace

absl::Status WriteNpyFile(const ArraySource& array, ByteSink& sink) {
  absl::string_view type;
  for (const auto& [dtype, word] : kNpyTypes) {
    if (dtype == array.header.dtype) type = word;
  }
  const std::vector<uint64_t>& shape = array.header.shape;
  const std::string shape_text =
      absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
  std::string text =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape_text, ", }");
  const size_t before = kVersionEnd + sizeof(uint16_t);
  text.append(kAlignment - (before + text.size() + 1) % kAlignment, ' ');
  text.push_back('\n');
  const uint16_t length = static_cast<uint16_t>(text.size());
  std::string head = absl::StrCat(kNpyMagic, absl::string_view("\x01\x00", 2));
  head.append(reinterpret_cast<const char*>(&length), sizeof(length));
  PH_RETURN_IF_ERROR(ArrayBytes(array.header).status());
  PH_RETURN_IF_ERROR(sink.Write(head + text));
  return WriteRows(array, sink);
}

absl::StatusOr<ArrayView> ReadNpyFile(absl::string_view file) {
  if (!absl::StartsWith(file, kNpyMagic) || file.size() < kVersionEnd + sizeof(uint32_t)) {
    return WrongNpy("is no .npy file, or ends within its head");
  }
  const int major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3 || file[7] != 0) {
    return WrongNpy("has a version of the .npy format that is not 1.0, 2.0 or 3.0");
  }
  size_t begin = kVersionEnd;
  size_t length = 0;
  if (major == 1) {
    uint16_t value;
    std::memcpy(&value, file.data() + begin, sizeof(value));
    begin += sizeof(value);
    length = value;
  } else {
    uint32_t value;
    std::memcpy(&value, file.data() + begin, sizeof(value));
    begin += sizeof(value);
    length = value;
  }
  if (length > kMaxNpyHeader || length > file.size() - begin) {
    return WrongNpy(absl::StrCat("has a header of ", length, " bytes, at most ", kMaxNpyHeader,
                                 " and within the file"));
  }
  PH_ASSIGN_OR_RETURN(ArrayHeader header, NpyHeaderText(file.substr(begin, length)).Parse());
  PH_ASSIGN_OR_RETURN(const uint64_t bytes, ArrayBytes(header));
  const absl::string_view rows = file.substr(begin + length);
  if (rows.size() != bytes) {
    return WrongNpy(absl::StrCat("has ", rows.size(), " bytes of rows, its shape needs ", bytes));
  }
  return ArrayView{std::move(header), rows};
}

}  // namespace packhouse
