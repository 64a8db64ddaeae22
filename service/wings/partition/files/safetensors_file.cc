#include "service/wings/partition/files/safetensors_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/json_fields.h"

namespace packhouse {
namespace {

constexpr absl::string_view kMetadata = "__metadata__";
constexpr size_t kHeadAlignment = 8;

constexpr std::pair<DType, absl::string_view> kSafetensorsTypes[] = {
    {DType::kBool, "BOOL"},     {DType::kInt8, "I8"},     {DType::kInt16, "I16"},
    {DType::kInt32, "I32"},     {DType::kInt64, "I64"},   {DType::kUint8, "U8"},
    {DType::kUint16, "U16"},    {DType::kUint32, "U32"},  {DType::kUint64, "U64"},
    {DType::kFloat16, "F16"},   {DType::kFloat32, "F32"}, {DType::kFloat64, "F64"},
    {DType::kBfloat16, "BF16"},
};

absl::StatusOr<DType> DTypeOfWord(absl::string_view word) {
  for (const auto& [dtype, known] : kSafetensorsTypes) {
    if (known == word) return dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("dtype ", Quoted(word), " is not known"));
}

struct Placed {
  ArrayHeader header;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::StatusOr<Placed> ParsePlaced(const std::string& name, const ReadJson& value) {
  Placed placed;
  placed.header.name = name;
  PH_ASSIGN_OR_RETURN(const std::string word, StringField(value, "dtype"));
  PH_ASSIGN_OR_RETURN(placed.header.dtype, DTypeOfWord(word));
  PH_ASSIGN_OR_RETURN(placed.header.shape, NumbersField(value, "shape"));
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, NumbersField(value, "data_offsets"));
  PH_ASSIGN_OR_RETURN(const uint64_t bytes, ArrayBytes(placed.header));
  if (offsets.size() != 2 || offsets[1] < offsets[0] || offsets[1] - offsets[0] != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_offsets must be two, ", bytes, " bytes apart"));
  }
  placed.begin = offsets[0];
  placed.end = offsets[1];
  return placed;
}

}  // namespace

absl::Status WriteSafetensorsFile(absl::Span<const ArraySource> arrays, ByteSink& sink) {
  OrderedJson head = OrderedJson::object();
  absl::flat_hash_set<absl::string_view> names;
  uint64_t at = 0;
  for (const ArraySource& array : arrays) {
    const ArrayHeader& header = array.header;
    if (header.name == kMetadata || !names.insert(header.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("array ", Quoted(header.name), " is there twice, or has a reserved name"));
    }
    PH_ASSIGN_OR_RETURN(const uint64_t bytes, ArrayBytes(header));
    absl::string_view type;
    for (const auto& [dtype, word] : kSafetensorsTypes) {
      if (dtype == header.dtype) type = word;
    }
    AppendMember(
        header.name,
        {{"dtype", std::string(type)}, {"shape", header.shape}, {"data_offsets", {at, at + bytes}}},
        head);
    at += bytes;
  }
  PH_ASSIGN_OR_RETURN(std::string text, JsonLine(head));
  text.resize((text.size() + kHeadAlignment - 1) / kHeadAlignment * kHeadAlignment, ' ');
  if (text.size() > kMaxSafetensorsHead) {
    return absl::InvalidArgumentError(absl::StrCat("the names of ", arrays.size(), " arrays take ",
                                                   text.size(), " bytes, at most ",
                                                   kMaxSafetensorsHead));
  }
  const uint64_t length = text.size();
  PH_RETURN_IF_ERROR(
      sink.Write(absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length))));
  PH_RETURN_IF_ERROR(sink.Write(text));
  for (const ArraySource& array : arrays) PH_RETURN_IF_ERROR(WriteRows(array, sink));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ArrayView>> ReadSafetensorsFile(absl::string_view file) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) return absl::InvalidArgumentError("ends within its head");
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kMaxSafetensorsHead || length > file.size() - sizeof(length)) {
    return absl::InvalidArgumentError(absl::StrCat("has a head of ", length, " bytes, at most ",
                                                   kMaxSafetensorsHead, " and within the file"));
  }
  PH_ASSIGN_OR_RETURN(const ReadJson head, ParseJsonObject(file.substr(sizeof(length), length)));
  const absl::string_view rows = file.substr(sizeof(length) + length);
  std::vector<Placed> all;
  for (const auto& [name, value] : head.items()) {
    if (name == kMetadata) continue;
    absl::StatusOr<Placed> placed = ParsePlaced(name, value);
    if (!placed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("array ", Quoted(name), ": ", placed.status().message()));
    }
    all.push_back(*std::move(placed));
  }
  // Empty arrays may lie anywhere between.
  std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::vector<ArrayView> arrays;
  uint64_t at = 0;
  for (Placed& placed : all) {
    if (placed.begin != at || placed.end > rows.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("array ", Quoted(placed.header.name), " lies at [", placed.begin, ", ",
                       placed.end, "), must begin at ", at, " and end by ", rows.size()));
    }
    at = placed.end;
    arrays.push_back(
        {std::move(placed.header), rows.substr(placed.begin, placed.end - placed.begin)});
  }
  if (at != rows.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", rows.size() - at, " bytes that belong to no array"));
  }
  return arrays;
}

}  // namespace packhouse
