#include "service/algorithms/graphs/graph_schema.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "service/algorithms/graphs/text_features.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

template <typename... Parts>
absl::Status Invalid(const TensorSpec& tensor, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(
      "schema: tensor '", absl::CHexEscape(tensor.name.substr(0, 128)), "': ", parts...));
}

absl::StatusOr<size_t> RowBytes(const TensorSpec& tensor) {
  if (tensor.row_shape.size() > GraphSchema::kMaxRank) {
    return Invalid(tensor, "row_shape has ", tensor.row_shape.size(), " extents, at most ",
                   GraphSchema::kMaxRank);
  }
  uint64_t bytes = ElementBytes(tensor.dtype);
  for (const uint32_t extent : tensor.row_shape) {
    if (extent == 0) return Invalid(tensor, "row_shape has an extent of 0, at least 1");
    const auto product = CheckedMultiply(bytes, extent);
    if (!product || *product > GraphSchema::kMaxRowBytes) {
      return Invalid(tensor, "a row of shape [", absl::StrJoin(tensor.row_shape, ", "),
                     "] exceeds ", GraphSchema::kMaxRowBytes, " bytes");
    }
    bytes = *product;
  }
  return bytes;
}

// Whether a derived tensor of a batch may have this name.
bool IsNameOfDerivedTensor(absl::string_view name, const SizeSchema& sizes) {
  for (const absl::string_view suffix : {"/counts", "/graph", "/offsets", "/mask"}) {
    if (absl::EndsWith(name, suffix) && sizes.IndexOf(absl::StripSuffix(name, suffix))) return true;
  }
  return false;
}

absl::Status Check(const TensorSpec& tensor, const SizeSchema& sizes) {
  const size_t l = sizes.num_components();
  if (!IsValidName(tensor.name, GraphSchema::kMaxTensorNameLength, kNamePunctuation)) {
    return Invalid(tensor, "the name is not 1 to ", GraphSchema::kMaxTensorNameLength,
                   " characters of [A-Za-z0-9", kNamePunctuation, "]");
  }
  if (IsNameOfDerivedTensor(tensor.name, sizes)) {
    return Invalid(tensor, "the name is that of a tensor derived from a component");
  }
  if (tensor.component > l) return Invalid(tensor, "there is no component ", tensor.component);
  if (tensor.layout == Layout::kRowsLast &&
      (tensor.row_shape.size() != 1 || tensor.row_shape[0] > GraphSchema::kMaxPlanes)) {
    return Invalid(tensor, "layout: rows last needs a row_shape of one extent, at most ",
                   GraphSchema::kMaxPlanes, ", not [", absl::StrJoin(tensor.row_shape, ", "), "]");
  }
  if (!tensor.index_into) return absl::OkStatus();
  if (*tensor.index_into > l) {
    return Invalid(tensor, "index_into: there is no component ", *tensor.index_into);
  }
  if (!IsInteger(tensor.dtype)) {
    return Invalid(tensor, "an index tensor must have an integer dtype, not ",
                   DTypeName(tensor.dtype));
  }
  if (!tensor.padding_value.empty()) {
    return Invalid(tensor, "an index tensor must not have a padding_value");
  }
  return absl::OkStatus();
}

absl::Status CheckPaddingValue(const GraphSchema& schema, size_t t) {
  const TensorSpec& tensor = schema.tensors()[t];
  const size_t bytes = tensor.padding_value.size();
  if (bytes == 0 || bytes == ElementBytes(tensor.dtype)) return absl::OkStatus();
  const std::optional<size_t> lengths = LengthsOfText(schema, t);
  if (!lengths) {
    return Invalid(tensor, "padding_value has ", bytes, " bytes, ", DTypeName(tensor.dtype),
                   " has ", ElementBytes(tensor.dtype));
  }
  const TensorSpec& told = schema.tensors()[*lengths];
  if (bytes > std::min<uint64_t>(kMaxPaddingText, MaxIndex(told.dtype))) {
    return Invalid(tensor, "padding_value has ", bytes, " bytes, a text at most ", kMaxPaddingText,
                   ", and not more than '", told.name, "' of ", DTypeName(told.dtype), " can tell");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GraphSchema> GraphSchema::Create(SizeSchema sizes, std::vector<TensorSpec> tensors) {
  if (tensors.size() > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema: ", tensors.size(), " tensors, at most ", kMaxTensors));
  }
  absl::flat_hash_set<absl::string_view> names;
  std::vector<size_t> row_bytes;
  for (const TensorSpec& tensor : tensors) {
    PH_RETURN_IF_ERROR(Check(tensor, sizes));
    if (!names.insert(tensor.name).second) return Invalid(tensor, "is listed twice");
    PH_ASSIGN_OR_RETURN(const size_t bytes, RowBytes(tensor));
    row_bytes.push_back(bytes);
  }
  GraphSchema schema(std::move(sizes), std::move(tensors), std::move(row_bytes));
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    PH_RETURN_IF_ERROR(CheckPaddingValue(schema, t));
  }
  return schema;
}

std::optional<size_t> GraphSchema::TensorIndex(absl::string_view name) const {
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (tensors_[t].name == name) return t;
  }
  return std::nullopt;
}

bool GraphSchema::IsPointedInto(size_t k) const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [k](const TensorSpec& tensor) { return tensor.index_into == k; });
}

bool GraphSchema::IsRaggedFeature(size_t k) const {
  if (k == num_components() || IsPointedInto(k)) return false;
  const TensorSpec* only = nullptr;
  for (const TensorSpec& tensor : tensors_) {
    if (tensor.component != k) continue;
    // An inner ragged dimension has its lengths, and nothing else, along its component.
    if (only != nullptr) return false;
    only = &tensor;
  }
  return only != nullptr && !only->index_into && only->name == sizes_.name(k);
}

std::optional<size_t> LengthsOfText(const GraphSchema& schema, size_t t) {
  const TensorSpec& bytes = schema.tensors()[t];
  if (bytes.dtype != DType::kUint8 || !bytes.row_shape.empty() ||
      !absl::EndsWith(bytes.name, ".bytes") || !schema.IsRaggedFeature(bytes.component) ||
      schema.TensorIndex(absl::StrCat(bytes.name, ".d2"))) {
    return std::nullopt;
  }
  const std::optional<size_t> lengths = schema.TensorIndex(absl::StrCat(bytes.name, ".d1"));
  if (!lengths) return std::nullopt;
  const TensorSpec& told = schema.tensors()[*lengths];
  if (told.index_into || !IsInteger(told.dtype) || schema.IsRaggedFeature(told.component)) {
    return std::nullopt;
  }
  return lengths;
}

}  // namespace packhouse
