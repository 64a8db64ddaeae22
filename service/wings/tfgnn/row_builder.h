// Rows of graphs that are being made, to become a GraphChunk.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_ROW_BUILDER_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_ROW_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse::tfgnn {

// Bytes that grow at the end and may be cut off there. Unlike std::string it leaves new bytes
// unwritten, for a caller that writes them anyway.
class GrowingBytes {
 public:
  GrowingBytes() = default;
  GrowingBytes(GrowingBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  GrowingBytes& operator=(GrowingBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  GrowingBytes(const GrowingBytes&) = delete;
  GrowingBytes& operator=(const GrowingBytes&) = delete;
  ~GrowingBytes() { std::free(data_); }

  // `bytes` new bytes at the end, unwritten. Amortised O(1) beside writing them.
  char* Grow(size_t bytes) {
    if (bytes > capacity_ - size_) Reserve(size_ + bytes);
    char* const begin = data_ + size_;
    size_ += bytes;
    return begin;
  }
  void Append(absl::string_view bytes) {
    if (!bytes.empty()) std::memcpy(Grow(bytes.size()), bytes.data(), bytes.size());
  }
  // Cuts off what comes after `size` bytes.
  void Truncate(size_t size) { size_ = size; }

  size_t size() const { return size_; }
  char* data() { return data_; }
  absl::string_view view() const { return absl::string_view(data_, size_); }

 private:
  void Reserve(size_t needed) {
    const size_t capacity = needed > 2 * capacity_ ? needed : 2 * capacity_;
    char* const data = static_cast<char*>(std::realloc(data_, capacity));
    if (data == nullptr) throw std::bad_alloc();
    data_ = data;
    capacity_ = capacity;
  }

  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// Who writes rows keeps columns and counts in step, then ends each graph with EndGraph() or takes
// back what it wrote with DropGraph(). Not thread-safe.
class RowBuilder {
 public:
  // Every tensor of the schema has Layout::kRowsFirst, or is without rows in every graph.
  explicit RowBuilder(std::shared_ptr<const GraphSchema> schema);

  const GraphSchema& schema() const { return *schema_; }
  size_t num_graphs() const { return num_graphs_; }
  // Of all columns and sizes, without the graph that is being written.
  size_t num_bytes() const { return num_bytes_; }

  // The rows of tensor t of all graphs, little-endian.
  GrowingBytes& column(size_t t) { return columns_[t]; }
  absl::string_view column(size_t t) const { return columns_[t].view(); }
  // The l counts of the graph that is being written, 0 at first.
  absl::Span<uint32_t> counts() { return absl::MakeSpan(counts_).last(num_components_); }
  // n * l, row-major, of all graphs that have ended.
  absl::Span<const uint32_t> all_counts() const {
    return absl::MakeConstSpan(counts_).first(num_graphs_ * num_components_);
  }

  // The graph that was written is whole: columns have the lengths that its counts say, and indices
  // are in their ranges.
  void EndGraph();
  // Takes back what was written since the last EndGraph().
  void DropGraph();

  // Hands over the graphs, with ids from `first_id` on, and begins anew with the same schema. The
  // chunk owns its rows and its schema. Index tensors for which `EndGraph` vouches are not checked
  // again. INVALID_ARGUMENT if the columns' lengths disagree with the counts (a defect of who wrote
  // them), or if an id would exceed 2^64 - 1.
  absl::StatusOr<GraphChunk> Build(uint64_t first_id);

 private:
  void Begin();

  std::shared_ptr<const GraphSchema> schema_;
  size_t num_components_;
  size_t num_graphs_ = 0;
  size_t num_bytes_ = 0;
  std::vector<uint32_t> counts_;
  std::vector<GrowingBytes> columns_;
  // Sizes of the columns at the last EndGraph().
  std::vector<size_t> ends_;
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_ROW_BUILDER_H_
