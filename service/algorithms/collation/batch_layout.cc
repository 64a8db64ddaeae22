#include "service/algorithms/collation/batch_layout.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/text_features.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

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
  if (!HasPaddingGraph(padding)) return reserved;
  bool any = false;
  for (size_t k = 0; k < l; ++k) {
    reserved[k] = schema.IsPointedInto(k) ? 1 : 0;
    any |= reserved[k] != 0;
  }
  if (!any && l > 0 && padding == Padding::kGraph) reserved[0] = 1;
  reserved[l] = 1;
  return reserved;
}

bool NeedsCapacity(const GraphSchema& schema, Padding padding, size_t k) {
  if (padding == Padding::kNone) return false;
  return padding != Padding::kTfgnn || !schema.IsRaggedFeature(k);
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
                                                DerivedTensors derived, MinRows min_rows,
                                                IntegerWidth integer_width) {
  const size_t l = schema->num_components();
  if (capacities.size() != l + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout: ", capacities.size(), " capacities for ", l + 1, " components"));
  }
  // Beside what padding keeps free, each component must take a row of a graph.
  const std::vector<uint64_t> reserved = ReservedRows(*schema, padding);
  for (size_t k = 0; k <= l; ++k) {
    const absl::string_view name = schema->sizes().name(k);
    if (capacities[k] == kRagged) {
      if (!NeedsCapacity(*schema, padding, k)) continue;
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
  // An index of the batch may be any row, the last padding row too.
  for (const TensorSpec& tensor : schema->tensors()) {
    if (!tensor.index_into || capacities[*tensor.index_into] == kRagged) continue;
    const uint64_t target = capacities[*tensor.index_into];
    if (target - 1 > MaxIndex(tensor.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limits: tensor '", tensor.name, "' of ", DTypeName(tensor.dtype), " cannot number the ",
          target, " rows of component '", schema->sizes().name(*tensor.index_into), "'"));
    }
  }
  for (size_t k = 0; k < l; ++k) {
    if (min_rows[k] == 0) continue;
    const absl::string_view name = schema->sizes().name(k);
    if (padding != Padding::kTfgnn) {
      return absl::InvalidArgumentError(
          absl::StrCat("min_rows: component '", name, "': only with the padding of TF-GNN"));
    }
    if (capacities[k] > MinRows::kMaxCapacity) {
      return absl::InvalidArgumentError(absl::StrCat(
          "min_rows: component '", name, "' has ",
          capacities[k] == kRagged ? "no limit" : absl::StrCat("limit ", capacities[k]),
          ", a minimum needs one of at most ", MinRows::kMaxCapacity));
    }
    // Each graph that a batch has place for may be a padding graph, which has the least rows.
    const auto least = CheckedMultiply(min_rows[k], capacities[l]);
    if (!least || *least > capacities[k]) {
      return absl::InvalidArgumentError(
          absl::StrCat("limits: capacity ", capacities[k], " of component '", name, "' is below ",
                       capacities[l], " graphs of at least ", min_rows[k], " rows (min_rows)"));
    }
  }
  BatchLayout layout(schema, std::move(capacities), padding, derived, std::move(min_rows),
                     integer_width);
  PH_RETURN_IF_ERROR(layout.AddPaddingTexts());
  return layout;
}

BatchLayout::BatchLayout(const GraphSchema* schema, std::vector<uint64_t> capacities,
                         Padding padding, DerivedTensors derived, MinRows min_rows,
                         IntegerWidth integer_width)
    : schema_(schema),
      capacities_(std::move(capacities)),
      is_fixed_(padding != Padding::kNone &&
                std::find(capacities_.begin(), capacities_.end(), kRagged) == capacities_.end()),
      padding_(padding),
      derived_(derived),
      min_rows_(std::move(min_rows)),
      integer_width_(integer_width) {
  // Column t is tensor t of the schema; what is derived comes behind them (Uncollate relies on it).
  using Source = BatchColumn::Source;
  for (size_t t = 0; t < schema->tensors().size(); ++t) {
    const TensorSpec& spec = schema->tensors()[t];
    // A text that is no element fills nothing by itself.
    fills_.push_back(spec.padding_value.size() > ElementBytes(spec.dtype) ? ""
                                                                          : spec.padding_value);
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

absl::Status BatchLayout::AddPaddingTexts() {
  if (padding_ != Padding::kTfgnn) return absl::OkStatus();
  for (size_t t = 0; t < schema_->tensors().size(); ++t) {
    const TensorSpec& spec = schema_->tensors()[t];
    if (spec.padding_value.empty() || capacities_[spec.component] != kRagged) continue;
    const std::optional<size_t> lengths = LengthsOfText(*schema_, t);
    if (!lengths) continue;
    const TensorSpec& told = schema_->tensors()[*lengths];
    const uint64_t element_bytes = ElementBytes(told.dtype);
    const uint64_t length = spec.padding_value.size();
    const uint64_t per_row = schema_->row_bytes(*lengths) / element_bytes * length;
    const auto most = CheckedMultiply(capacities_[told.component], per_row);
    if (!most || *most > kMaxCapacity) {
      return absl::InvalidArgumentError(
          absl::StrCat("limits: capacity ", capacities_[told.component], " of component '",
                       schema_->sizes().name(told.component), "' with ", per_row, " bytes of '",
                       spec.name, "' in each padding row exceeds 2^31 - 1 bytes"));
    }
    padding_texts_.push_back({told.component, spec.component, per_row});
    fills_[t] = spec.padding_value;
    std::string& of_lengths = fills_[*lengths];
    of_lengths.assign(element_bytes, '\0');
    for (size_t i = 0; i < element_bytes && i < sizeof(length); ++i) {
      of_lengths[i] = static_cast<char>(length >> (8 * i));
    }
  }
  return absl::OkStatus();
}

const PaddingText* BatchLayout::PaddingTextOf(size_t k) const {
  for (const PaddingText& text : padding_texts_) {
    if (text.bytes == k) return &text;
  }
  return nullptr;
}

std::vector<uint64_t> BatchLayout::RowsFor(absl::Span<const uint64_t> real) const {
  std::vector<uint64_t> rows(real.begin(), real.end());
  for (size_t k = 0; k < rows.size(); ++k) {
    if (!is_ragged(k)) rows[k] = capacities_[k];
  }
  for (const PaddingText& text : padding_texts_) {
    if (rows[text.owner] <= real[text.owner]) continue;
    rows[text.bytes] += (rows[text.owner] - real[text.owner]) * text.bytes_per_row;
  }
  return rows;
}

std::optional<uint64_t> BatchLayout::BatchBytes(absl::Span<const uint64_t> rows) const {
  return BytesAlong(rows, [](size_t /*k*/) { return true; });
}

std::optional<uint64_t> BatchLayout::RaggedBytes(absl::Span<const uint64_t> rows) const {
  return BytesAlong(rows, [this](size_t k) { return is_ragged(k); });
}

std::optional<uint64_t> BatchLayout::PaddedBytes() const {
  const auto padded = BytesAlong(capacities_, [this](size_t k) { return !is_ragged(k); });
  if (!padded || padding_texts_.empty()) return padded;
  const auto texts = RaggedBytes(RowsFor(std::vector<uint64_t>(capacities_.size(), 0)));
  return texts ? CheckedAdd(*padded, *texts) : std::nullopt;
}

template <typename Counts>
std::optional<uint64_t> BatchLayout::BytesAlong(absl::Span<const uint64_t> rows,
                                                Counts counts) const {
  uint64_t total = 0;
  for (const BatchColumn& column : columns_) {
    if (!counts(column.component)) continue;
    const auto num_rows = column.source == BatchColumn::Source::kRowOffsets
                              ? CheckedAdd(rows[column.component], 1)
                              : std::optional(rows[column.component]);
    if (!num_rows || !Accumulate(total, *num_rows, column.row_bytes)) return std::nullopt;
  }
  return total;
}

}  // namespace packhouse
