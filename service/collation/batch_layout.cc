#include "service/collation/batch_layout.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"
#include "service/planning/limits.h"

namespace packhouse {
namespace {

// Adds rows * row_bytes to `total`; false if that wraps around.
bool Accumulate(uint64_t& total, uint64_t rows, uint64_t row_bytes) {
  const auto bytes = CheckedMultiply(rows, row_bytes);
  const auto sum = bytes ? CheckedAdd(total, *bytes) : std::nullopt;
  if (sum) total = *sum;
  return sum.has_value();
}

}  // namespace

std::vector<uint64_t> ReservedRows(const GraphSchema& schema, Padding padding) {
  const size_t l = schema.num_components();
  std::vector<uint64_t> reserved(l + 1, 0);
  if (padding != Padding::kGraph) return reserved;
  bool any = false;
  for (size_t k = 0; k < l; ++k) {
    reserved[k] = schema.IsPointedInto(k) ? 1 : 0;
    any |= reserved[k] != 0;
  }
  if (!any && l > 0) reserved[0] = 1;
  reserved[l] = 1;
  return reserved;
}

std::vector<uint64_t> BatchColumn::Shape(uint64_t rows) const {
  std::vector<uint64_t> shape;
  shape.reserve(1 + row_shape.size());
  if (layout == Layout::kRowsFirst) shape.push_back(rows);
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());
  if (layout == Layout::kRowsLast) shape.push_back(rows);
  return shape;
}

absl::StatusOr<BatchLayout> BatchLayout::Create(const GraphSchema* schema,
                                                std::vector<uint64_t> capacities, Padding padding,
                                                DerivedTensors derived) {
  const size_t l = schema->num_components();
  if (capacities.size() != l + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout: ", capacities.size(), " capacities for ", l + 1, " components"));
  }
  const std::vector<uint64_t> reserved = ReservedRows(*schema, padding);
  for (size_t k = 0; k <= l; ++k) {
    const absl::string_view name = schema->sizes().name(k);
    if (capacities[k] == kRagged) {
      if (padding == Padding::kNone) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("limits: padding needs a capacity of component '", name, "'"));
    }
    if (capacities[k] <= reserved[k]) {
      return absl::InvalidArgumentError(
          absl::StrCat("limits: capacity ", capacities[k], " of component '", name,
                       "' leaves no room beside the ", reserved[k], " that padding keeps free"));
    }
    if (capacities[k] > kMaxCapacity) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limits: capacity ", capacities[k], " of component '", name, "' exceeds 2^31 - 1"));
    }
  }
  for (const TensorSpec& tensor : schema->tensors()) {
    if (!tensor.index_into || capacities[*tensor.index_into] == kRagged) continue;
    const uint64_t target = capacities[*tensor.index_into];
    if (target - 1 > MaxIndex(tensor.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limits: tensor '", tensor.name, "' of ", DTypeName(tensor.dtype), " cannot number the ",
          target, " rows of component '", schema->sizes().name(*tensor.index_into), "'"));
    }
  }
  return BatchLayout(schema, std::move(capacities), padding, derived);
}

BatchLayout::BatchLayout(const GraphSchema* schema, std::vector<uint64_t> capacities,
                         Padding padding, DerivedTensors derived)
    : schema_(schema), capacities_(std::move(capacities)), padding_(padding), derived_(derived) {
  using Source = BatchColumn::Source;
  for (size_t t = 0; t < schema->tensors().size(); ++t) {
    const TensorSpec& spec = schema->tensors()[t];
    columns_.push_back({Source::kRows,
                        t,
                        spec.name,
                        spec.dtype,
                        {spec.row_shape.begin(), spec.row_shape.end()},
                        schema->row_bytes(t),
                        spec.component,
                        spec.layout});
  }
  const size_t l = schema->num_components();
  const auto add = [&](Source source, size_t k, absl::string_view suffix, size_t component) {
    const DType dtype = source == Source::kMask ? DType::kBool : DType::kInt32;
    columns_.push_back({source,
                        k,
                        absl::StrCat(schema->sizes().name(k), suffix),
                        dtype,
                        {},
                        ElementBytes(dtype),
                        component});
  };
  for (size_t k = 0; k < l; ++k) {
    if (derived.row_counts) add(Source::kRowCounts, k, "/counts", l);
    if (derived.graph_index) add(Source::kGraphIndex, k, "/graph", k);
    if (derived.row_offsets) add(Source::kRowOffsets, k, "/offsets", l);
    if (derived.masks) add(Source::kMask, k, "/mask", k);
  }
  if (derived.masks) add(Source::kMask, l, "/mask", l);
}

std::optional<uint64_t> BatchLayout::BatchBytes(absl::Span<const uint64_t> rows) const {
  uint64_t total = 0;
  for (const BatchColumn& column : columns_) {
    const auto num_rows = column.source == BatchColumn::Source::kRowOffsets
                              ? CheckedAdd(rows[column.component], 1)
                              : std::optional(rows[column.component]);
    if (!num_rows || !Accumulate(total, *num_rows, column.row_bytes)) return std::nullopt;
  }
  return total;
}

}  // namespace packhouse
