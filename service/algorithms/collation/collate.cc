#include "service/algorithms/collation/collate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/batch_place.h"
#include "service/algorithms/collation/compact_type.h"
#include "service/algorithms/collation/fake_indices.h"
#include "service/algorithms/collation/gathered_graph.h"
#include "service/algorithms/collation/narrowing_kernels.h"
#include "service/algorithms/collation/row_kernels.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

const RowKernels& Kernels() {
  static const RowKernels kernels = RowKernelsOf(BestVectorLevel());
  return kernels;
}

const NarrowingKernels& Narrowing() {
  static const NarrowingKernels kernels = NarrowingKernelsOf(BestVectorLevel());
  return kernels;
}

constexpr uint64_t kMaxInt32 = (uint64_t{1} << 31) - 1;

// Without framing, tensors begin at cache lines of a batch's buffer.
constexpr uint64_t kAlignment = TensorFraming::kAlignment;

// Fills with copies of an element or a text; empty: zero. `bytes` is a multiple of its size.
void Fill(char* data, uint64_t bytes, absl::string_view element) {
  if (element.find_first_not_of('\0') == absl::string_view::npos) {
    std::memset(data, 0, bytes);
    return;
  }
  // Doubles what is filled.
  uint64_t filled = std::min<uint64_t>(bytes, element.size());
  std::memcpy(data, element.data(), filled);
  while (filled < bytes) {
    const uint64_t more = std::min(filled, bytes - filled);
    std::memcpy(data + filled, data, more);
    filled += more;
  }
}

std::string IndexElement(DType dtype, uint64_t value) {
  std::string element(ElementBytes(dtype), '\0');
  ShiftIndices(dtype, element.data(), element.size(), value);
  return element;
}

// Graphs lie anywhere in memory. Their data is prefetched this far ahead.
constexpr size_t kGraphsAhead = 24;  // Sizes.
constexpr size_t kPiecesAhead = 32;  // Rows of a tensor.
// The most bytes of a graph's rows that are prefetched; the processor itself notices that more
// follow.
constexpr size_t kMaxBytesAhead = 1024;
constexpr size_t kCacheLine = 64;
// The same for graphs whose rows lie together.
constexpr size_t kGatheredAhead = 8;

// A plane of a tensor of the schema.
struct Plane {
  Plane() = default;
  Plane(const GraphSchema& schema, size_t of_tensor, size_t plane)
      : tensor(of_tensor),
        number(plane),
        component(schema.tensors()[of_tensor].component),
        row_bytes(schema.plane_row_bytes(of_tensor)) {}

  size_t tensor = 0;
  size_t number = 0;
  // The tensor grows along it.
  size_t component = 0;
  // In this plane, as declared.
  size_t row_bytes = 0;
};

// How rows of a tensor of the schema are copied to the type in which it travels.
class RowCopy {
 public:
  RowCopy(const TensorSpec& spec, DType type) : is_index_(spec.index_into.has_value()) {
    const size_t declared_bytes = ElementBytes(spec.dtype);
    if (type != spec.dtype) {
      const size_t bytes = ElementBytes(type);
      narrowed_ = Narrowing().CopyNarrowedOf(declared_bytes, bytes);
      while (declared_bytes >> halvings_ > bytes) ++halvings_;
      most_ = MaxIndex(type);
    } else if (is_index_) {
      shifted_ = Kernels().CopyShiftedOf(declared_bytes);
    }
  }

  // Bytes that these bytes of rows become.
  size_t BytesOf(size_t declared) const { return declared >> halvings_; }
  // Returns where the copy ends. `shift` is 0 unless it is an index tensor.
  char* Copy(char* to, const char* from, size_t bytes, uint64_t shift) {
    if (narrowed_ != nullptr) {
      sums_ |= narrowed_(to, from, bytes, shift);
    } else if (shifted_ != nullptr) {
      shifted_(to, from, bytes, shift);
    } else {
      std::memcpy(to, from, bytes);
    }
    return to + BytesOf(bytes);
  }
  // Whether nothing was lost. Values have been looked at; indices have not.
  bool is_exact() const { return !is_index_ || (sums_ & ~most_) == 0; }

 private:
  bool is_index_;
  // How often the type is half as wide.
  int halvings_ = 0;
  NarrowingKernels::CopyNarrowed narrowed_ = nullptr;
  RowKernels::CopyShifted shifted_ = nullptr;
  uint64_t sums_ = 0;
  uint64_t most_ = ~uint64_t{0};
};

// The places of the rows of a batch's graphs.
class RowExtents {
 public:
  // Graphs [begin, end) of the batch follow each other in their chunk, and so do their rows. Most
  // graphs of a stream are packed in the order in which they came; drawn ones are runs of one.
  struct Run {
    size_t begin;
    size_t end;
  };

  RowExtents(absl::Span<const GraphRef> graphs, const Batch& batch)
      : graphs_(graphs), num_components_(batch.rows.size() - 1), sizes_(batch.sizes) {
    first_.reserve(graphs.size() * num_components_);
    runs_.reserve(graphs.size());
    for (size_t g = 0; g < graphs.size(); ++g) {
      const GraphRef& graph = graphs[g];
      const uint64_t* const first = graph.chunk->first_rows(graph.index);
      first_.insert(first_.end(), first, first + num_components_);
      if (g != 0 && graph.chunk == graphs[g - 1].chunk && graph.index == graphs[g - 1].index + 1) {
        runs_.back().end = g + 1;
      } else {
        runs_.push_back({g, g + 1});
      }
    }
  }

  absl::Span<const Run> runs() const { return runs_; }
  // Rows of graph g in component k; k may be `graphs`.
  uint64_t count(size_t g, size_t k) const {
    return k == num_components_ ? 1 : sizes_[g * num_components_ + k];
  }
  // Rows of a run's graphs in component k.
  uint64_t count(const Run& run, size_t k) const {
    if (k == num_components_) return run.end - run.begin;
    return first_[(run.end - 1) * num_components_ + k] + count(run.end - 1, k) -
           first_[run.begin * num_components_ + k];
  }
  // Where its rows begin in a plane.
  const char* begin(size_t g, const Plane& plane) const {
    const uint64_t first = plane.component == num_components_
                               ? graphs_[g].index
                               : first_[g * num_components_ + plane.component];
    const GraphChunk& chunk = *graphs_[g].chunk;
    return chunk.column(plane.tensor).data() + chunk.plane_begin(plane.tensor, plane.number) +
           first * plane.row_bytes;
  }

 private:
  const absl::Span<const GraphRef> graphs_;
  const size_t num_components_;
  const std::vector<uint32_t>& sizes_;
  std::vector<uint64_t> first_;
  std::vector<Run> runs_;
};

// Prefetches the rows of these tensors in the order in which they will be read: plane by plane, and
// run by run.
class RowPrefetch {
 public:
  RowPrefetch(const GraphSchema& schema, const RowExtents& extents, std::vector<size_t> tensors)
      : schema_(schema), extents_(extents), tensors_(std::move(tensors)) {
    is_over_ = extents.runs().empty() || tensors_.empty();
    if (!is_over_) plane_ = Plane(schema_, tensors_[0], 0);
    for (size_t i = 0; i < kPiecesAhead; ++i) Next();
  }

  void Next() {
    if (is_over_) return;
    const RowExtents::Run& run = extents_.runs()[run_];
    const char* const from = extents_.begin(run.begin, plane_);
    const size_t bytes =
        std::min<size_t>(extents_.count(run, plane_.component) * plane_.row_bytes, kMaxBytesAhead);
    // Into the second cache: the first can wait for few lines at a time, and then the prefetch
    // itself waits.
    for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(from + at, 0, 1);
    if (++run_ == extents_.runs().size()) NextPlane();
  }

 private:
  void NextPlane() {
    run_ = 0;
    size_t number = plane_.number + 1;
    if (number == schema_.num_planes(plane_.tensor)) {
      ++tensor_;
      number = 0;
    }
    is_over_ = tensor_ == tensors_.size();
    if (!is_over_) plane_ = Plane(schema_, tensors_[tensor_], number);
  }

  const GraphSchema& schema_;
  const RowExtents& extents_;
  const std::vector<size_t> tensors_;
  bool is_over_ = false;  // Everything has been prefetched.
  size_t tensor_ = 0;     // Among tensors_.
  Plane plane_;
  size_t run_ = 0;
};

// Writes the real rows of a plane of a tensor of the schema. Every Write... function fills its
// whole range, which may begin at any address.
void WritePlane(const TensorSpec& spec, const Plane& plane, const RowExtents& extents,
                RowPrefetch& prefetch, RowCopy& copy, char* next) {
  if (!spec.index_into) {
    for (const RowExtents::Run& run : extents.runs()) {
      prefetch.Next();
      const size_t bytes = extents.count(run, plane.component) * plane.row_bytes;
      if (bytes == 0) continue;
      next = copy.Copy(next, extents.begin(run.begin, plane), bytes, 0);
    }
    return;
  }
  uint64_t target_rows = 0;  // Rows of the target component in the graphs before.
  for (const RowExtents::Run& run : extents.runs()) {
    prefetch.Next();
    const char* from = extents.begin(run.begin, plane);
    for (size_t g = run.begin; g < run.end; ++g) {
      const size_t bytes = extents.count(g, plane.component) * plane.row_bytes;
      next = copy.Copy(next, from, bytes, target_rows);
      from += bytes;
      target_rows += extents.count(g, *spec.index_into);
    }
  }
}

// Calls write(plane, copy, data) for each plane of the schema's tensors, which begin at base +
// `begins`.
template <typename Write>
void ForEachPlane(const GraphSchema& schema, const Batch& batch, char* base,
                  const std::vector<uint64_t>& begins, Write write) {
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    char* data = base + begins[t];
    for (size_t number = 0; number < schema.num_planes(t); ++number) {
      const Plane plane(schema, t, number);
      const RowCopy copy(schema.tensors()[t], batch.tensors[t].dtype);
      write(plane, copy, data);
      data += copy.BytesOf(batch.rows[plane.component] * plane.row_bytes);
    }
  }
}

absl::Status CheckExact(const RowCopy& copy, const TensorSpec& spec) {
  if (copy.is_exact()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("batch: an index of tensor '", spec.name, "' is beyond the batch's rows"));
}

// Where the next rows of a plane go, while graphs are copied one after the other.
struct PlaneEnd {
  char* next;
  size_t component;
  size_t row_bytes;
  RowCopy copy;
  const TensorSpec* spec;
};

// Writes the real rows of all tensors, graph by graph: what lies together is read at once.
absl::Status WriteGathered(const GraphSchema& schema, absl::Span<const absl::string_view> graphs,
                           const Batch& batch, char* base, const std::vector<uint64_t>& begins) {
  const size_t l = schema.num_components();
  std::vector<PlaneEnd> ends;
  ForEachPlane(
      schema, batch, base, begins, [&](const Plane& plane, const RowCopy& copy, char* data) {
        ends.push_back(
            {data, plane.component, plane.row_bytes, copy, &schema.tensors()[plane.tensor]});
      });
  // Rows of each component in the graphs before; and those of this graph.
  std::vector<uint64_t> before(l + 1, 0);
  std::vector<uint64_t> counts(l + 1, 1);
  for (size_t g = 0; g < graphs.size(); ++g) {
    if (g + kGatheredAhead < graphs.size()) GatheredGraph(graphs[g + kGatheredAhead]).Prefetch();
    for (size_t k = 0; k < l; ++k) counts[k] = batch.sizes[g * l + k];
    const char* from = GatheredGraph(graphs[g]).rows(l);
    for (PlaneEnd& end : ends) {
      const size_t bytes = counts[end.component] * end.row_bytes;
      const auto& target = end.spec->index_into;
      end.next = end.copy.Copy(end.next, from, bytes, target ? before[*target] : 0);
      from += bytes;
    }
    for (size_t k = 0; k <= l; ++k) before[k] += counts[k];
  }
  for (const PlaneEnd& end : ends) PH_RETURN_IF_ERROR(CheckExact(end.copy, *end.spec));
  return absl::OkStatus();
}

// Writes what follows the real rows of a plane that begins at `data`.
void WritePadding(const BatchLayout& layout, const Plane& plane, const RowCopy& copy,
                  const Batch& batch, char* data) {
  const uint64_t real_rows = batch.real_rows[plane.component];
  const uint64_t padding_rows = batch.rows[plane.component] - real_rows;
  const uint64_t padding_bytes = copy.BytesOf(padding_rows * plane.row_bytes);
  if (padding_bytes == 0) return;
  char* const begin = data + copy.BytesOf(real_rows * plane.row_bytes);
  const TensorSpec& spec = layout.schema().tensors()[plane.tensor];
  const DType type = batch.tensors[plane.tensor].dtype;
  if (!spec.index_into) {
    // A narrow integer is the lowest bytes of the wide one; only a text is longer than an element,
    // and bytes of texts are never narrowed.
    absl::string_view fill = layout.fill(plane.tensor);
    if (type != spec.dtype) fill = fill.substr(0, ElementBytes(type));
    Fill(begin, padding_bytes, fill);
    return;
  }
  const uint64_t first = batch.real_rows[*spec.index_into];
  if (layout.padding() == Padding::kTfgnn) {
    return WriteFakeIndices(type, first, batch.rows[*spec.index_into] - first,
                            plane.row_bytes / ElementBytes(spec.dtype), padding_rows, begin);
  }
  const uint64_t last_row = std::max<uint64_t>(batch.rows[*spec.index_into], 1) - 1;
  Fill(begin, padding_bytes, IndexElement(type, std::min(first, last_row)));
}

// Writes values of a derived tensor, one after the other. T is the type in which it travels, which
// holds them.
template <typename T>
class DerivedWriter {
 public:
  DerivedWriter(char* begin, char* end) : next_(begin), end_(end) {}

  void Add(int32_t number) {
    const auto value = static_cast<T>(number);
    std::memcpy(next_, &value, sizeof(value));
    next_ += sizeof(value);
  }
  void Add(uint64_t n, int32_t number) {
    const auto value = static_cast<T>(number);
    // Writes whole blocks without checking where the last one ends: excess values are overwritten.
    std::array<T, 64 / sizeof(T)> block;
    block.fill(value);
    char* const behind = next_ + n * sizeof(value);
    while (next_ < behind && end_ - next_ >= static_cast<ptrdiff_t>(sizeof(block))) {
      std::memcpy(next_, block.data(), sizeof(block));
      next_ += sizeof(block);
    }
    while (next_ < behind) Add(number);
    next_ = behind;
  }
  // Fills the rest of the room.
  void FillUp(int32_t number) {
    const size_t n = static_cast<size_t>(end_ - next_) / sizeof(T);
    if constexpr (sizeof(T) == sizeof(uint32_t)) {
      Kernels().fill_4(next_, static_cast<uint32_t>(number), n);
    } else {
      Add(n, number);
    }
    next_ = end_;
  }

 private:
  char* next_;
  char* const end_;
};

// Rows of graph i in component k, padding graphs included. The first padding graph holds the spare
// rows in kGraph and kTfgnn; in kMasked they count for no graph, but the graph index must name some
// graph for them. The bytes of padding texts are with the rows that have them.
class PaddedCounts {
 public:
  PaddedCounts(const BatchLayout& layout, const Batch& batch, size_t k)
      : batch_(batch), k_(k), num_components_(layout.schema().num_components()) {
    const PaddingText* const text = layout.PaddingTextOf(k);
    const size_t owner = text != nullptr ? text->owner : k;
    const uint64_t factor = text != nullptr ? text->bytes_per_row : 1;
    // Each padding graph has one row of `graphs`.
    least_ = factor * (owner == num_components_ ? 1 : layout.min_rows()[owner]);
    if (HasPaddingGraph(layout.padding())) {
      padding_rows_ = factor * (batch.rows[owner] - batch.real_rows[owner]);
    }
  }

  uint64_t num_graphs() const { return batch_.rows[num_components_]; }
  uint64_t num_real() const { return batch_.real_rows[num_components_]; }
  uint64_t least() const { return least_; }
  int32_t operator[](uint64_t i) const {
    if (i < num_real()) return static_cast<int32_t>(batch_.sizes[i * num_components_ + k_]);
    if (i != num_real()) return static_cast<int32_t>(least_);
    return static_cast<int32_t>(padding_rows_ - least_ * (num_graphs() - num_real() - 1));
  }

 private:
  const Batch& batch_;
  const size_t k_;
  const size_t num_components_;
  uint64_t padding_rows_ = 0;
  // Rows of each padding graph after the first.
  uint64_t least_ = 0;
};

template <typename Writer>
void WriteRowCounts(const PaddedCounts& counts, Writer out) {
  for (uint64_t i = 0; i < counts.num_graphs(); ++i) out.Add(counts[i]);
}

template <typename Writer>
void WriteGraphIndex(const PaddedCounts& counts, Writer out) {
  const uint64_t numbered = counts.least() == 0 ? counts.num_real() : counts.num_graphs();
  for (uint64_t i = 0; i < numbered; ++i) {
    out.Add(static_cast<uint64_t>(counts[i]), static_cast<int32_t>(i));
  }
  const uint64_t last_graph = std::max<uint64_t>(counts.num_graphs(), 1) - 1;
  out.FillUp(static_cast<int32_t>(std::min(counts.num_real(), last_graph)));
}

template <typename Writer>
void WriteRowOffsets(const PaddedCounts& counts, Writer out) {
  int32_t offset = 0;
  out.Add(offset);
  for (uint64_t i = 0; i < counts.num_graphs(); ++i) out.Add(offset += counts[i]);
}

void WriteMask(uint64_t real_rows, uint64_t rows, char* data) {
  std::memset(data, 1, real_rows);
  std::memset(data + real_rows, 0, rows - real_rows);
}

// Writes a tensor that is computed from the sizes. Its element type, unless it is a mask, is T.
template <typename T>
void WriteDerived(const BatchLayout& layout, const BatchColumn& column, const Batch& batch,
                  char* begin, uint64_t bytes) {
  const size_t k = column.index;
  const auto counts = [&] { return PaddedCounts(layout, batch, k); };
  const DerivedWriter<T> out(begin, begin + bytes);
  switch (column.source) {
    case BatchColumn::Source::kRows:
      return;
    case BatchColumn::Source::kRowCounts:
      return WriteRowCounts(counts(), out);
    case BatchColumn::Source::kGraphIndex:
      return WriteGraphIndex(counts(), out);
    case BatchColumn::Source::kRowOffsets:
      return WriteRowOffsets(counts(), out);
    case BatchColumn::Source::kMask:
      return WriteMask(batch.real_rows[k], batch.rows[k], begin);
  }
}

void WriteDerived(const BatchLayout& layout, const BatchColumn& column, const Batch& batch,
                  DType type, char* begin, uint64_t bytes) {
  if (type == DType::kUint8) return WriteDerived<uint8_t>(layout, column, batch, begin, bytes);
  if (type == DType::kInt16) return WriteDerived<int16_t>(layout, column, batch, begin, bytes);
  WriteDerived<int32_t>(layout, column, batch, begin, bytes);
}

// The types in which columns travel.
class TravelTypes {
 public:
  TravelTypes(const BatchLayout& layout, const Batch& batch) : layout_(layout) {
    types_.reserve(layout.columns().size());
    for (size_t i = 0; i < layout.columns().size(); ++i) {
      const BatchColumn& column = layout.columns()[i];
      types_.push_back(column.dtype);
      if (layout.integer_width() == IntegerWidth::kDeclared || !CanNarrow(column.dtype)) continue;
      if (const auto largest = LargestOf(column, batch)) {
        types_.back() = CompactTypeUpTo(column.dtype, *largest);
      } else {
        by_values_.push_back(i);
      }
    }
  }

  DType operator[](size_t i) const { return types_[i]; }
  // Tensors of the schema whose values decide. Without an element they have the narrowest type.
  const std::vector<size_t>& by_values() const { return by_values_; }
  // Says which bits the values of such a tensor have, those of padding rows not counted.
  void SetBits(size_t t, ValueBits bits) {
    const DType declared = layout_.columns()[t].dtype;
    // Padded batches count it even if they are full: then more of them have one type.
    if (const absl::string_view fill = layout_.fill(t);
        layout_.padding() != Padding::kNone && !fill.empty()) {
      Narrowing().CollectBitsOf(ElementBytes(declared))(fill.data(), fill.size(), bits);
    }
    types_[t] = CompactType(declared, bits);
  }

 private:
  // The largest value of a column that numbers rows; of these none is negative.
  std::optional<uint64_t> LargestOf(const BatchColumn& column, const Batch& batch) const {
    const auto last = [](uint64_t rows) { return std::max<uint64_t>(rows, 1) - 1; };
    switch (column.source) {
      case BatchColumn::Source::kRows:
        if (const auto target = layout_.schema().tensors()[column.index].index_into) {
          return last(batch.rows[*target]);
        }
        return std::nullopt;
      case BatchColumn::Source::kGraphIndex:
        return last(batch.rows.back());
      case BatchColumn::Source::kRowCounts:
      case BatchColumn::Source::kRowOffsets:
      case BatchColumn::Source::kMask:
        break;
    }
    return batch.rows[column.index];
  }

  const BatchLayout& layout_;
  std::vector<DType> types_;
  std::vector<size_t> by_values_;
};

// Looks at the values that decide about types.
void ReadValues(const GraphSchema& schema, const RowExtents& extents, TravelTypes& types) {
  if (types.by_values().empty()) return;
  RowPrefetch prefetch(schema, extents, types.by_values());
  for (const size_t t : types.by_values()) {
    const auto collect = Narrowing().CollectBitsOf(ElementBytes(schema.tensors()[t].dtype));
    ValueBits bits;
    for (size_t number = 0; number < schema.num_planes(t); ++number) {
      const Plane plane(schema, t, number);
      for (const RowExtents::Run& run : extents.runs()) {
        prefetch.Next();
        const size_t bytes = extents.count(run, plane.component) * plane.row_bytes;
        if (bytes != 0) collect(extents.begin(run.begin, plane), bytes, bits);
      }
    }
    types.SetBits(t, bits);
  }
}

// The same of graphs that lie together.
void ReadGatheredValues(const GraphSchema& schema, absl::Span<const absl::string_view> graphs,
                        const Batch& batch, TravelTypes& types) {
  if (types.by_values().empty()) return;
  struct Column {
    size_t component;
    size_t row_bytes;
    NarrowingKernels::CollectBits collect;  // Null: it is skipped.
    ValueBits bits;
  };
  std::vector<Column> columns;
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    columns.push_back({schema.tensors()[t].component, schema.row_bytes(t), nullptr, {}});
  }
  for (const size_t t : types.by_values()) {
    columns[t].collect = Narrowing().CollectBitsOf(ElementBytes(schema.tensors()[t].dtype));
  }
  // Those behind the last one that is read do not matter.
  columns.resize(types.by_values().back() + 1);
  const size_t l = schema.num_components();
  for (size_t g = 0; g < graphs.size(); ++g) {
    if (g + kGatheredAhead < graphs.size()) GatheredGraph(graphs[g + kGatheredAhead]).Prefetch();
    const char* from = GatheredGraph(graphs[g]).rows(l);
    // Planes of a tensor follow each other.
    for (Column& column : columns) {
      const size_t count = column.component == l ? 1 : batch.sizes[g * l + column.component];
      const size_t bytes = count * column.row_bytes;
      if (column.collect != nullptr) column.collect(from, bytes, column.bits);
      from += bytes;
    }
  }
  for (const size_t t : types.by_values()) types.SetBits(t, columns[t].bits);
}

// Bytes of rows of a column that travels in a type.
uint64_t BytesOf(const BatchColumn& column, DType type, uint64_t rows) {
  return rows * (column.row_bytes / ElementBytes(column.dtype) * ElementBytes(type));
}

// Where the tensors of a batch lie, and what lies before each.
struct TensorPlaces {
  // Of each tensor's data.
  std::vector<uint64_t> begins;
  uint64_t end = 0;
  std::string frames;
  // Of each tensor's frame; none without framing.
  std::vector<size_t> frame_ends;
};

// `is_aligned` is about framing alone.
TensorPlaces PlaceTensors(const TensorFraming* framing, bool is_aligned,
                          absl::Span<const BatchTensor> tensors,
                          absl::FunctionRef<uint64_t(size_t)> bytes_of) {
  TensorPlaces places;
  places.begins.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const BatchTensor& tensor = tensors[i];
    const uint64_t bytes = bytes_of(i);
    if (framing != nullptr) {
      const size_t before = places.frames.size();
      framing->AppendFrame(tensor, bytes,
                           is_aligned ? std::optional<uint64_t>(places.end) : std::nullopt,
                           places.frames);
      places.frame_ends.push_back(places.frames.size());
      places.end += places.frames.size() - before;
    } else {
      places.end = (places.end + kAlignment - 1) / kAlignment * kAlignment;
    }
    places.begins.push_back(places.end);
    places.end += bytes;
  }
  return places;
}

void WriteFrames(const TensorPlaces& places, char* base) {
  size_t framed = 0;
  for (size_t i = 0; i < places.frame_ends.size(); ++i) {
    const size_t frame_bytes = places.frame_ends[i] - framed;
    std::memcpy(base + places.begins[i] - frame_bytes, places.frames.data() + framed, frame_bytes);
    framed = places.frame_ends[i];
  }
}

// Adds the tensors without their data.
void AddTensors(const BatchLayout& layout, const TravelTypes& types, Batch& batch) {
  batch.tensors.reserve(layout.columns().size());
  for (size_t i = 0; i < layout.columns().size(); ++i) {
    const BatchColumn& column = layout.columns()[i];
    BatchTensor& tensor = batch.tensors.emplace_back();
    tensor.name = column.name;
    tensor.dtype = types[i];
    if (tensor.dtype != column.dtype) tensor.declared_dtype = column.dtype;
    tensor.shape = column.Shape(column.RowsOf(batch.rows));
  }
}

// Adds the tensors, all in one buffer, without their data, and returns the buffer. Tensors begin at
// begin + `data_begins`; the frames are written.
std::shared_ptr<char[]> LayOut(const BatchLayout& layout, const TravelTypes& types,
                               const TensorFraming* framing, Batch& batch,
                               std::vector<uint64_t>& data_begins) {
  AddTensors(layout, types, batch);
  const auto bytes_of = [&](size_t i) {
    const BatchColumn& column = layout.columns()[i];
    return BytesOf(column, batch.tensors[i].dtype, column.RowsOf(batch.rows));
  };
  TensorPlaces places;
  if (BatchPlace* const there = CurrentBatchPlace(); there != nullptr && framing != nullptr) {
    places = PlaceTensors(framing, /*is_aligned=*/true, batch.tensors, bytes_of);
    batch.buffer = there->RoomFor(places.end, batch.graph_ids.size());
  }
  char* base = static_cast<char*>(const_cast<void*>(batch.buffer.get()));
  if (base == nullptr) {
    places = PlaceTensors(framing, /*is_aligned=*/false, batch.tensors, bytes_of);
    // Not zeroed: each tensor writes all of its bytes, and the bytes between them are never read.
    const auto own = std::make_shared_for_overwrite<char[]>(places.end + kAlignment);
    base =
        own.get() + (kAlignment - reinterpret_cast<uintptr_t>(own.get()) % kAlignment) % kAlignment;
    batch.buffer = own;
  }
  WriteFrames(places, base);
  if (framing != nullptr) batch.framed = absl::string_view(base, places.end);
  data_begins = std::move(places.begins);
  // Shares the buffer, and points to its first byte.
  return std::shared_ptr<char[]>(std::const_pointer_cast<void>(batch.buffer), base);
}

// Checks that int32 tensors and index tensors of the batch can number the rows.
absl::Status CheckNumberable(const BatchLayout& layout, const Batch& batch) {
  const GraphSchema& schema = layout.schema();
  for (const TensorSpec& tensor : schema.tensors()) {
    if (!tensor.index_into || batch.rows[*tensor.index_into] == 0) continue;
    if (batch.rows[*tensor.index_into] - 1 > MaxIndex(tensor.dtype)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "batch: ", batch.rows[*tensor.index_into], " rows of component '",
          schema.sizes().name(*tensor.index_into), "', which has no limit, exceed what tensor '",
          tensor.name, "' of ", DTypeName(tensor.dtype), " can number"));
    }
  }
  for (size_t k = 0; k < batch.rows.size(); ++k) {
    if (batch.rows[k] > kMaxInt32) {
      return absl::ResourceExhaustedError(
          absl::StrCat("batch: ", batch.rows[k], " rows of component '", schema.sizes().name(k),
                       "', which has no limit, exceed 2^31 - 1"));
    }
  }
  return absl::OkStatus();
}

// Checks that padding rows have a graph, and padding indices a padding row. As in TF-GNN, a batch
// that is full in every component needs neither.
absl::Status CheckPaddable(const BatchLayout& layout, const Batch& batch) {
  if (!HasPaddingGraph(layout.padding())) return absl::OkStatus();
  const GraphSchema& schema = layout.schema();
  const size_t l = schema.num_components();
  const auto is_full = [&](size_t k) { return batch.real_rows[k] == batch.rows[k]; };
  bool needs_graph = layout.padding() == Padding::kGraph;
  for (size_t k = 0; k < l; ++k) needs_graph |= !is_full(k);
  if (is_full(l) && needs_graph) return absl::InternalError("batch: no graph is left for padding");
  if (layout.padding() != Padding::kTfgnn) return absl::OkStatus();
  for (size_t k = 0; k < l; ++k) {
    const uint64_t least = layout.min_rows()[k] * (batch.rows[l] - batch.real_rows[l]);
    if (batch.rows[k] - batch.real_rows[k] >= least) continue;
    return absl::InternalError(absl::StrCat("batch: ", batch.real_rows[k], " rows of '",
                                            schema.sizes().name(k), "' leave fewer than the ",
                                            least, " of its padding graphs"));
  }
  for (const TensorSpec& tensor : schema.tensors()) {
    if (!tensor.index_into || is_full(tensor.component) || !is_full(*tensor.index_into)) continue;
    return absl::InternalError(
        absl::StrCat("batch: no row of '", schema.sizes().name(*tensor.index_into),
                     "' is left for the padding of tensor '", tensor.name, "'"));
  }
  return absl::OkStatus();
}

// Without graphs.
Batch BatchOf(const BatchLayout& layout, size_t num_graphs) {
  Batch batch;
  batch.graph_ids.reserve(num_graphs);
  batch.sizes.reserve(num_graphs * layout.schema().num_components());
  return batch;
}

// From the sizes to the rows. INTERNAL if they exceed the layout.
absl::Status CountRows(const BatchLayout& layout, Batch& batch) {
  const size_t l = layout.schema().num_components();
  batch.real_rows.assign(l + 1, 0);
  for (size_t g = 0; g < batch.graph_ids.size(); ++g) {
    for (size_t k = 0; k < l; ++k) batch.real_rows[k] += batch.sizes[g * l + k];
  }
  batch.real_rows[l] = batch.graph_ids.size();
  batch.rows = layout.RowsFor(batch.real_rows);
  for (size_t k = 0; k <= l; ++k) {
    if (batch.real_rows[k] > batch.rows[k]) {
      return absl::InternalError(absl::StrCat("batch: ", batch.real_rows[k], " rows of component '",
                                              layout.schema().sizes().name(k), "', capacity ",
                                              batch.rows[k]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTensors(const BatchLayout& layout, const Batch& batch, uint64_t max_bytes) {
  PH_RETURN_IF_ERROR(CheckNumberable(layout, batch));
  const auto bytes = layout.BatchBytes(batch.rows);
  if (!bytes || *bytes > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("batch: its tensors would take ",
                                                     bytes.value_or(UINT64_MAX), " bytes, at most ",
                                                     max_bytes, " are allowed"));
  }
  return CheckPaddable(layout, batch);
}

// Writes what is not in the graphs' rows, and says where each tensor is.
void FinishTensors(const BatchLayout& layout, char* base, const std::vector<uint64_t>& begins,
                   Batch& batch) {
  ForEachPlane(layout.schema(), batch, base, begins,
               [&](const Plane& plane, const RowCopy& copy, char* data) {
                 WritePadding(layout, plane, copy, batch, data);
               });
  for (size_t i = 0; i < layout.columns().size(); ++i) {
    const BatchColumn& column = layout.columns()[i];
    char* const begin = base + begins[i];
    const DType type = batch.tensors[i].dtype;
    const uint64_t data_bytes = BytesOf(column, type, column.RowsOf(batch.rows));
    if (data_bytes != 0) WriteDerived(layout, column, batch, type, begin, data_bytes);
    batch.tensors[i].data = absl::string_view(begin, data_bytes);
  }
}

}  // namespace

absl::StatusOr<Batch> CollateSizes(const BatchLayout& layout, absl::Span<const GraphRef> graphs) {
  Batch batch = BatchOf(layout, graphs.size());
  for (size_t g = 0; g < graphs.size(); ++g) {
    if (const size_t ahead = g + kGraphsAhead; ahead < graphs.size()) {
      graphs[ahead].chunk->Prefetch(graphs[ahead].index);
    }
    const GraphRef& graph = graphs[g];
    const auto tuple = graph.chunk->sizes().tuple(graph.index);
    batch.graph_ids.push_back(graph.chunk->sizes().graph_id(graph.index));
    batch.sizes.insert(batch.sizes.end(), tuple.begin(), tuple.end());
  }
  PH_RETURN_IF_ERROR(CountRows(layout, batch));
  return batch;
}

absl::StatusOr<Batch> Collate(const BatchLayout& layout, absl::Span<const GraphRef> graphs,
                              uint64_t max_bytes, const TensorFraming* framing) {
  PH_ASSIGN_OR_RETURN(Batch batch, CollateSizes(layout, graphs));
  PH_RETURN_IF_ERROR(CheckTensors(layout, batch, max_bytes));
  const RowExtents extents(graphs, batch);
  TravelTypes types(layout, batch);
  ReadValues(layout.schema(), extents, types);
  std::vector<size_t> all_tensors(layout.schema().tensors().size());
  std::iota(all_tensors.begin(), all_tensors.end(), 0);
  RowPrefetch prefetch(layout.schema(), extents, std::move(all_tensors));
  std::vector<uint64_t> begins;
  const std::shared_ptr<char[]> buffer = LayOut(layout, types, framing, batch, begins);
  absl::Status status;
  ForEachPlane(layout.schema(), batch, buffer.get(), begins,
               [&](const Plane& plane, RowCopy copy, char* data) {
                 const TensorSpec& spec = layout.schema().tensors()[plane.tensor];
                 WritePlane(spec, plane, extents, prefetch, copy, data);
                 status.Update(CheckExact(copy, spec));
               });
  PH_RETURN_IF_ERROR(status);
  FinishTensors(layout, buffer.get(), begins, batch);
  return batch;
}

absl::StatusOr<Batch> CollateGathered(const BatchLayout& layout,
                                      absl::Span<const absl::string_view> graphs,
                                      uint64_t max_bytes, const TensorFraming* framing) {
  const size_t l = layout.schema().num_components();
  Batch batch = BatchOf(layout, graphs.size());
  batch.sizes.resize(graphs.size() * l);
  for (size_t g = 0; g < std::min(kGatheredAhead, graphs.size()); ++g) {
    GatheredGraph(graphs[g]).Prefetch();
  }
  for (size_t g = 0; g < graphs.size(); ++g) {
    if (g + kGatheredAhead < graphs.size()) GatheredGraph(graphs[g + kGatheredAhead]).Prefetch();
    const GatheredGraph graph(graphs[g]);
    batch.graph_ids.push_back(graph.id());
    if (l != 0) std::memcpy(&batch.sizes[g * l], graph.counts(), l * sizeof(uint32_t));
  }
  PH_RETURN_IF_ERROR(CountRows(layout, batch));
  PH_RETURN_IF_ERROR(CheckTensors(layout, batch, max_bytes));
  std::vector<uint64_t> begins;
  TravelTypes types(layout, batch);
  ReadGatheredValues(layout.schema(), graphs, batch, types);
  const std::shared_ptr<char[]> buffer = LayOut(layout, types, framing, batch, begins);
  PH_RETURN_IF_ERROR(WriteGathered(layout.schema(), graphs, batch, buffer.get(), begins));
  FinishTensors(layout, buffer.get(), begins, batch);
  return batch;
}

Batch AtBatchPlace(Batch batch, const TensorFraming* framing) {
  BatchPlace* const there = CurrentBatchPlace();
  if (there == nullptr || framing == nullptr || batch.tensors.empty()) return batch;
  const TensorPlaces places =
      PlaceTensors(framing, /*is_aligned=*/true, batch.tensors,
                   [&](size_t i) { return uint64_t{batch.tensors[i].data.size()}; });
  const std::shared_ptr<char[]> room = there->RoomFor(places.end, batch.graph_ids.size());
  if (room == nullptr) return batch;
  WriteFrames(places, room.get());
  for (size_t i = 0; i < batch.tensors.size(); ++i) {
    absl::string_view& data = batch.tensors[i].data;
    char* const begin = room.get() + places.begins[i];
    std::copy(data.begin(), data.end(), begin);
    data = absl::string_view(begin, data.size());
  }
  batch.framed = absl::string_view(room.get(), places.end);
  batch.buffer = room;
  return batch;
}

}  // namespace packhouse
