// The fixed shape of a batch, and what padding keeps free.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_LAYOUT_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/compact_type.h"
#include "service/algorithms/collation/min_rows.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse {

enum class Padding {
  kNone,    // Real rows only.
  kMasked,  // Filled up to the capacity; real rows first.
  kGraph,   // As kMasked, with a free graph and free rows (jraph.pad_with_graphs).
  // As kGraph, with padding indices spread over the padding rows; components of ragged features may
  // be without a capacity (tfgnn.pad_to_total_sizes).
  kTfgnn,
};

// Whether the first padding graph holds all spare rows.
inline bool HasPaddingGraph(Padding padding) {
  return padding == Padding::kGraph || padding == Padding::kTfgnn;
}

// Tensors computed from the sizes, for every component c.
struct DerivedTensors {
  bool row_counts = false;   // c/counts, int32 [graphs]
  bool graph_index = false;  // c/graph, int32 [rows]
  bool row_offsets = false;  // c/offsets, int32 [graphs + 1]
  bool masks = false;        // c/mask, bool [rows], and graphs/mask, bool [graphs]
};

// Rows that padding keeps free of real data, for each component, `graphs` last. With kGraph: one
// graph, and one row of every component that an index tensor points into (without index tensors, of
// the first component), so that padding rows never point to real rows. With kTfgnn the same, but
// without index tensors no row. Otherwise 0.
std::vector<uint64_t> ReservedRows(const GraphSchema& schema, Padding padding);

// Whether a padded batch needs a capacity of component k: always, except for ragged features with
// kTfgnn.
bool NeedsCapacity(const GraphSchema& schema, Padding padding, size_t k);

// One tensor of every batch of a layout.
struct BatchColumn {
  enum class Source {
    kRows,  // Those of tensor `index` of the schema.
    // Computed from the counts of component `index`:
    kRowCounts,
    kGraphIndex,
    kRowOffsets,
    kMask,
  };
  Source source;
  size_t index;
  std::string name;
  DType dtype;
  std::vector<uint64_t> row_shape;
  uint64_t row_bytes;
  // It has a row for each row of this component, and for kRowOffsets one more.
  size_t component;
  Layout layout = Layout::kRowsFirst;

  // The shape with this many rows.
  std::vector<uint64_t> Shape(uint64_t rows) const;
  uint64_t RowsOf(absl::Span<const uint64_t> rows) const {
    return rows[component] + (source == Source::kRowOffsets ? 1 : 0);
  }
};

// A text that padding rows of a feature have.
struct PaddingText {
  size_t owner;            // The component of the feature's lengths.
  size_t bytes;            // The component of the bytes.
  uint64_t bytes_per_row;  // Of each padding row of `owner`.
};

// Schema, shape and padding of the batches of one stream. Immutable; thread-safe.
class BatchLayout {
 public:
  // No capacity.
  static constexpr uint64_t kRagged = UINT64_MAX;

  // `capacities` has l + 1 entries, `graphs` last; kRagged for a component without a capacity.
  // `schema` must outlive the layout.
  //
  // INVALID_ARGUMENT if a padded layout lacks a capacity (see NeedsCapacity), if a capacity is not
  // above what padding keeps free, if an index tensor's dtype cannot number the rows of its target,
  // if texts of padding rows could have more than 2^31 - 1 bytes, or if there is a minimum for a
  // component without a capacity, with a capacity above MinRows::kMaxCapacity or with one below
  // that of as many graphs, or without kTfgnn; names the component or tensor, the value and the
  // bound.
  static absl::StatusOr<BatchLayout> Create(const GraphSchema* schema,
                                            std::vector<uint64_t> capacities, Padding padding,
                                            DerivedTensors derived, MinRows min_rows = {},
                                            IntegerWidth integer_width = IntegerWidth::kDeclared);

  const GraphSchema& schema() const { return *schema_; }
  Padding padding() const { return padding_; }
  const DerivedTensors& derived() const { return derived_; }
  // In which types integers travel. All bytes that this class tells are those of declared types.
  IntegerWidth integer_width() const { return integer_width_; }
  // Of every padding graph; none if the padding is not kTfgnn.
  const MinRows& min_rows() const { return min_rows_; }
  // The schema's tensors in order, then the derived ones.
  absl::Span<const BatchColumn> columns() const { return columns_; }
  // Whether batches have the real rows of component k alone: without padding, or without a
  // capacity.
  bool is_ragged(size_t k) const { return padding_ == Padding::kNone || capacities_[k] == kRagged; }
  // Whether all batches have one shape: no component is ragged.
  bool is_fixed() const { return is_fixed_; }

  // That of the component of its bytes; null if there is none. Only with kTfgnn, for texts with a
  // padding value whose bytes have no capacity.
  const PaddingText* PaddingTextOf(size_t k) const;

  // Rows of each component (`graphs` last) in a batch with `real` rows: the capacity if padded.
  // Bytes of the texts of padding rows count.
  std::vector<uint64_t> RowsFor(absl::Span<const uint64_t> real) const;
  // What fills padding rows of a tensor of the schema that is no index tensor: copies of an
  // element, or of a text; empty: zero.
  absl::string_view fill(size_t t) const { return fills_[t]; }

  // Bytes of all tensors of a batch with this many rows per component (`graphs` last); nullopt if
  // the sum exceeds 2^64 - 1.
  std::optional<uint64_t> BatchBytes(absl::Span<const uint64_t> rows) const;
  // Of these, the bytes of tensors along ragged components.
  std::optional<uint64_t> RaggedBytes(absl::Span<const uint64_t> rows) const;

  // Bytes of the tensors along padded components, the same in every batch, and of the padding texts
  // of a batch of padding only; nullopt if the sum exceeds 2^64 - 1.
  std::optional<uint64_t> PaddedBytes() const;
  // Bytes of a padded batch; nullopt if the shape is not fixed.
  std::optional<uint64_t> FixedBatchBytes() const {
    return is_fixed() ? PaddedBytes() : std::nullopt;
  }

 private:
  BatchLayout(const GraphSchema* schema, std::vector<uint64_t> capacities, Padding padding,
              DerivedTensors derived, MinRows min_rows, IntegerWidth integer_width);

  absl::Status AddPaddingTexts();
  // Bytes of the tensors along the components k with counts(k).
  template <typename Counts>
  std::optional<uint64_t> BytesAlong(absl::Span<const uint64_t> rows, Counts counts) const;

  const GraphSchema* schema_;
  std::vector<uint64_t> capacities_;
  bool is_fixed_;
  Padding padding_;
  DerivedTensors derived_;
  MinRows min_rows_;
  IntegerWidth integer_width_;
  std::vector<BatchColumn> columns_;
  std::vector<PaddingText> padding_texts_;
  std::vector<std::string> fills_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_LAYOUT_H_
