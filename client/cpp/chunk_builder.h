// Builds the columnar message of many graphs, one graph at a time.
#ifndef PACKHOUSE_CLIENT_CPP_CHUNK_BUILDER_H_
#define PACKHOUSE_CLIENT_CPP_CHUNK_BUILDER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cpp/schema_layout.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

// Use: Create, then Add each graph, and Build whenever byte_size() or num_graphs() is enough for a
// message (64 KiB to 1 MiB is a good size, and thousands of graphs if they are small):
//
//   const int32_t edge_index[] = {0, 1, 1, 0};   // [2 edges, 2]
//   const float x[] = {0.5f, 1.5f};              // [2 nodes]
//   status = builder->Add({2, 2}, {RowsOf<float>(x), RowsOf<int32_t>(edge_index)});
//
// Not thread-safe.
class ChunkBuilder {
 public:
  // The most bytes of a graph's rows: a message of a server's has at most 64 MiB, and names and
  // numbers need a little of it.
  static constexpr std::size_t kMaxGraphBytes = (64 << 20) - (64 << 10);

  // Errors: INVALID_ARGUMENT as ResolveSchema.
  static absl::StatusOr<ChunkBuilder> Create(const v1::GraphSchema& schema);

  // Adds a graph. `sizes` has its counts, in schema order without `graphs`. `tensors[i]` has the
  // bytes of all its rows of the schema's tensor i: dense, little-endian, laid out as its spec says
  // (with LAYOUT_ROWS_LAST [row_shape..., rows]), index tensors local to the graph. Either all
  // graphs of a chunk have an id, or none has.
  //
  // The bytes are copied. With an error nothing is added. The server checks index values. Errors:
  // INVALID_ARGUMENT naming the tensor and both lengths if they disagree; or if an id is given to
  // some graphs of the chunk only; or if the graph is larger than kMaxGraphBytes. Cost: O(bytes),
  // amortised.
  absl::Status Add(absl::Span<const uint32_t> sizes, absl::Span<const absl::string_view> tensors,
                   std::optional<uint64_t> graph_id = std::nullopt);

  // Graphs added since the last Build, and the bytes of their rows, sizes and ids.
  std::size_t num_graphs() const { return num_graphs_; }
  std::size_t byte_size() const { return byte_size_; }

  // Hands over the chunk and begins a new, empty one.
  v1::GraphChunk Build();

 private:
  explicit ChunkBuilder(SchemaLayout schema);
  void Begin();

  SchemaLayout schema_;
  v1::GraphChunk chunk_;
  // For each tensor: its planes after the first. The first plane is already in the chunk.
  std::vector<std::vector<std::string>> later_planes_;
  std::size_t num_graphs_ = 0;
  std::size_t byte_size_ = 0;
};

// The elements' bytes for Add, without a copy. The host must be little-endian.
template <typename T>
absl::string_view RowsOf(absl::Span<const T> elements);

// Implementation details follow.

template <typename T>
absl::string_view RowsOf(absl::Span<const T> elements) {
  static_assert(std::endian::native == std::endian::little, "convert with AppendLittleEndian");
  return absl::string_view(reinterpret_cast<const char*>(elements.data()),
                           elements.size() * sizeof(T));
}

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_CHUNK_BUILDER_H_
