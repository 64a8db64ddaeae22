#include "service/graphs/graph_schema.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
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
    if (extent == 0) return Invalid(tensor, "row_shape has an extent of 0");
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
  if (!tensor.padding_value.empty() && tensor.padding_value.size() != ElementBytes(tensor.dtype)) {
    return Invalid(tensor, "padding_value has ", tensor.padding_value.size(), " bytes, ",
                   DTypeName(tensor.dtype), " has ", ElementBytes(tensor.dtype));
  }
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
  return GraphSchema(std::move(sizes), std::move(tensors), std::move(row_bytes));
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

}  // namespace packhouse
