#include "service/collation/collate.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/graphs/index_values.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kMaxInt32 = (uint64_t{1} << 31) - 1;

// Where tensors begin in a batch's buffer: cache lines.
constexpr uint64_t kAlignment = 64;

// Fills with copies of an element; empty: zero. `bytes` is a multiple of its size.
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

// Graphs lie anywhere in memory. What is needed for one is asked for so many graphs before.
constexpr size_t kGraphsAhead = 12;
// Of a graph's rows so much is asked for; the processor notices by itself that more follow.
constexpr size_t kBytesAhead = 512;
constexpr size_t kCacheLine = 64;

// Where the graphs of a batch have their rows.
class RowExtents {
 public:
  RowExtents(absl::Span<const GraphRef> graphs, const Batch& batch)
      : graphs_(graphs), num_components_(batch.rows.size() - 1), sizes_(batch.sizes) {
    first_.reserve(graphs.size() * num_components_);
    for (const GraphRef& graph : graphs) {
      const uint64_t* const first = graph.chunk->first_rows(graph.index);
      first_.insert(first_.end(), first, first + num_components_);
    }
  }

  size_t num_graphs() const { return graphs_.size(); }
  // Rows of graph g in component k, `graphs` among them.
  uint64_t count(size_t g, size_t k) const {
    return k == num_components_ ? 1 : sizes_[g * num_components_ + k];
  }
  // Where they begin in tensor t, which grows along k.
  const char* begin(size_t g, size_t t, size_t k, size_t row_bytes) const {
    const uint64_t first =
        k == num_components_ ? graphs_[g].index : first_[g * num_components_ + k];
    return graphs_[g].chunk->column(t).data() + first * row_bytes;
  }

 private:
  const absl::Span<const GraphRef> graphs_;
  const size_t num_components_;
  const std::vector<uint32_t>& sizes_;
  std::vector<uint64_t> first_;
};

// Calls write(g, from, bytes) for the rows of each graph of tensor t.
template <typename Write>
void ForEachGraph(const RowExtents& extents, size_t t, size_t k, size_t row_bytes, Write write) {
  const size_t n = extents.num_graphs();
  for (size_t g = 0; g < n; ++g) {
    if (const size_t ahead = g + kGraphsAhead; ahead < n) {
      const char* const from = extents.begin(ahead, t, k, row_bytes);
      const size_t bytes = std::min<size_t>(extents.count(ahead, k) * row_bytes, kBytesAhead);
      for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(from + at);
    }
    const size_t bytes = extents.count(g, k) * row_bytes;
    if (bytes != 0) write(g, extents.begin(g, t, k, row_bytes), bytes);
  }
}

// Writes tensor t of the schema.
void JoinTensor(const BatchLayout& layout, size_t t, const RowExtents& extents, const Batch& batch,
                char* data) {
  const TensorSpec& spec = layout.schema().tensors()[t];
  const size_t row_bytes = layout.schema().row_bytes(t);
  char* next = data;
  if (spec.index_into) {
    WithIndexType(spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      uint64_t target_rows = 0;  // Rows of the target component in the graphs before `counted`.
      size_t counted = 0;
      ForEachGraph(extents, t, spec.component, row_bytes,
                   [&](size_t g, const char* from, size_t bytes) {
                     for (; counted < g; ++counted) {
                       target_rows += extents.count(counted, *spec.index_into);
                     }
                     CopyShifted<T>(from, bytes, target_rows, next);
                     next += bytes;
                   });
    });
  } else {
    ForEachGraph(extents, t, spec.component, row_bytes,
                 [&](size_t /*g*/, const char* from, size_t bytes) {
                   std::memcpy(next, from, bytes);
                   next += bytes;
                 });
  }
  const auto padding_bytes =
      batch.rows[spec.component] * row_bytes - static_cast<uint64_t>(next - data);
  if (padding_bytes == 0) return;
  if (!spec.index_into) {
    Fill(next, padding_bytes, spec.padding_value);
    return;
  }
  const uint64_t last_row = std::max<uint64_t>(batch.rows[*spec.index_into], 1) - 1;
  Fill(next, padding_bytes,
       IndexElement(spec.dtype, std::min(batch.real_rows[*spec.index_into], last_row)));
}

// The tensors of a batch before they have data, and what writes it.
class TensorPlan {
 public:
  using Write = std::function<void(char*)>;

  void Add(std::string name, DType dtype, std::vector<uint64_t> shape, uint64_t bytes,
           Write write) {
    tensors_.push_back({std::move(name), dtype, std::move(shape), {}});
    begins_.push_back(end_);
    sizes_.push_back(bytes);
    writes_.push_back(std::move(write));
    end_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  void AddInt32(std::string name, uint64_t n, std::function<void(int32_t*)> write) {
    Add(std::move(name), DType::kInt32, {n}, n * sizeof(int32_t),
        [write = std::move(write)](char* data) { write(reinterpret_cast<int32_t*>(data)); });
  }
  void AddMask(std::string name, uint64_t rows, uint64_t real) {
    Add(std::move(name), DType::kBool, {rows}, rows, [rows, real](char* data) {
      std::memset(data, 1, real);
      std::memset(data + real, 0, rows - real);
    });
  }

  // Lays all of them out in one buffer.
  void Build(Batch& batch) {
    // Not zeroed: each tensor writes all of its bytes, and nobody looks at what is between them.
    const std::shared_ptr<char[]> buffer =
        std::make_shared_for_overwrite<char[]>(end_ + kAlignment);
    char* const base =
        buffer.get() +
        (kAlignment - reinterpret_cast<uintptr_t>(buffer.get()) % kAlignment) % kAlignment;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (sizes_[t] != 0) writes_[t](base + begins_[t]);
      tensors_[t].data = absl::string_view(base + begins_[t], sizes_[t]);
    }
    batch.tensors = std::move(tensors_);
    batch.buffer = buffer;
  }

 private:
  std::vector<BatchTensor> tensors_;
  std::vector<uint64_t> begins_;
  std::vector<uint64_t> sizes_;
  std::vector<Write> writes_;
  uint64_t end_ = 0;
};

void AddDerived(const BatchLayout& layout, size_t k, const Batch& batch, TensorPlan& plan) {
  const DerivedTensors& derived = layout.derived();
  const size_t l = layout.schema().num_components();
  const std::string name(layout.schema().sizes().name(k));
  const uint64_t num_graphs = batch.rows[l];
  const uint64_t real_graphs = batch.real_rows[l];
  const uint64_t padding_rows = batch.rows[k] - batch.real_rows[k];

  // Rows of graph i, padding graphs included. The first padding graph holds the spare rows in
  // kGraph; in kMasked they belong to no graph's count, only the graph index has to name some graph
  // for them.
  const auto count = [&batch, &layout, l, k, real_graphs, padding_rows](uint64_t i) {
    if (i < real_graphs) return static_cast<int32_t>(batch.sizes[i * l + k]);
    const bool holds_padding = i == real_graphs && layout.padding() == Padding::kGraph;
    return static_cast<int32_t>(holds_padding ? padding_rows : 0);
  };
  if (derived.row_counts) {
    plan.AddInt32(name + "/counts", num_graphs, [count, num_graphs](int32_t* counts) {
      for (uint64_t i = 0; i < num_graphs; ++i) counts[i] = count(i);
    });
  }
  if (derived.graph_index) {
    plan.AddInt32(name + "/graph", batch.rows[k],
                  [&batch, count, num_graphs, real_graphs, k](int32_t* graph_of_row) {
                    int32_t* next = graph_of_row;
                    for (uint64_t i = 0; i < real_graphs; ++i) {
                      next = std::fill_n(next, count(i), static_cast<int32_t>(i));
                    }
                    const uint64_t last_graph = std::max<uint64_t>(num_graphs, 1) - 1;
                    std::fill(next, graph_of_row + batch.rows[k],
                              static_cast<int32_t>(std::min(real_graphs, last_graph)));
                  });
  }
  if (derived.row_offsets) {
    plan.AddInt32(name + "/offsets", num_graphs + 1, [count, num_graphs](int32_t* offsets) {
      offsets[0] = 0;
      for (uint64_t i = 0; i < num_graphs; ++i) offsets[i + 1] = offsets[i] + count(i);
    });
  }
  if (derived.masks) plan.AddMask(name + "/mask", batch.rows[k], batch.real_rows[k]);
}

// What an int32 tensor or an index tensor of the batch must be able to number.
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

}  // namespace

absl::StatusOr<Batch> CollateSizes(const BatchLayout& layout, absl::Span<const GraphRef> graphs) {
  const size_t l = layout.schema().num_components();
  Batch batch;
  batch.graph_ids.reserve(graphs.size());
  batch.sizes.reserve(graphs.size() * l);
  batch.real_rows.assign(l + 1, 0);
  for (size_t g = 0; g < graphs.size(); ++g) {
    if (const size_t ahead = g + 2 * kGraphsAhead; ahead < graphs.size()) {
      graphs[ahead].chunk->Prefetch(graphs[ahead].index);
    }
    const GraphRef& graph = graphs[g];
    const auto tuple = graph.chunk->sizes().tuple(graph.index);
    batch.graph_ids.push_back(graph.chunk->sizes().graph_id(graph.index));
    batch.sizes.insert(batch.sizes.end(), tuple.begin(), tuple.end());
    for (size_t k = 0; k < l; ++k) batch.real_rows[k] += tuple[k];
  }
  batch.real_rows[l] = graphs.size();
  for (size_t k = 0; k <= l; ++k) {
    batch.rows.push_back(layout.RowsFor(k, batch.real_rows[k]));
    if (batch.real_rows[k] > batch.rows[k]) {
      return absl::InternalError(absl::StrCat("batch: ", batch.real_rows[k], " rows of component '",
                                              layout.schema().sizes().name(k), "', capacity ",
                                              batch.rows[k]));
    }
  }
  return batch;
}

absl::StatusOr<Batch> Collate(const BatchLayout& layout, absl::Span<const GraphRef> graphs,
                              uint64_t max_bytes) {
  const size_t l = layout.schema().num_components();
  PH_ASSIGN_OR_RETURN(Batch batch, CollateSizes(layout, graphs));
  PH_RETURN_IF_ERROR(CheckNumberable(layout, batch));
  const auto bytes = layout.BatchBytes(batch.rows);
  if (!bytes || *bytes > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("batch: its tensors would take ",
                                                     bytes.value_or(UINT64_MAX), " bytes, at most ",
                                                     max_bytes, " are allowed"));
  }
  if (layout.padding() == Padding::kGraph && batch.real_rows[l] >= batch.rows[l]) {
    return absl::InternalError("batch: no graph is left for padding");
  }
  const RowExtents extents(graphs, batch);
  TensorPlan plan;
  for (size_t t = 0; t < layout.schema().tensors().size(); ++t) {
    const TensorSpec& spec = layout.schema().tensors()[t];
    const uint64_t rows = batch.rows[spec.component];
    std::vector<uint64_t> shape = {rows};
    shape.insert(shape.end(), spec.row_shape.begin(), spec.row_shape.end());
    plan.Add(spec.name, spec.dtype, std::move(shape), rows * layout.schema().row_bytes(t),
             [&layout, &batch, &extents, t](char* data) {
               JoinTensor(layout, t, extents, batch, data);
             });
  }
  for (size_t k = 0; k < l; ++k) AddDerived(layout, k, batch, plan);
  if (layout.derived().masks) {
    plan.AddMask(absl::StrCat(kGraphs, "/mask"), batch.rows[l], batch.real_rows[l]);
  }
  plan.Build(batch);
  return batch;
}

}  // namespace packhouse
