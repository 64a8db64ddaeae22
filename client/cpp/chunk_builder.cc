#include "client/cpp/chunk_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/little_endian.h"

namespace packhouse::client {

absl::StatusOr<ChunkBuilder> ChunkBuilder::Create(const v1::GraphSchema& schema) {
  absl::StatusOr<SchemaLayout> layout = ResolveSchema(schema);
  if (!layout.ok()) return layout.status();
  return ChunkBuilder(*std::move(layout));
}

ChunkBuilder::ChunkBuilder(SchemaLayout schema) : schema_(std::move(schema)) { Begin(); }

void ChunkBuilder::Begin() {
  chunk_.Clear();
  num_graphs_ = 0;
  byte_size_ = 0;
  later_planes_.clear();
  for (const TensorLayout& tensor : schema_.tensors) {
    chunk_.add_tensors()->set_name(tensor.name);
    later_planes_.emplace_back(tensor.num_planes() - 1);
  }
}

absl::Status ChunkBuilder::Add(absl::Span<const uint32_t> sizes,
                               absl::Span<const absl::string_view> tensors,
                               std::optional<uint64_t> graph_id) {
  const auto fail = [this](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph ", num_graphs_, " of the chunk: ", what...));
  };
  if (sizes.size() != schema_.components.size()) {
    return fail(sizes.size(), " counts for ", schema_.components.size(), " components");
  }
  if (tensors.size() != schema_.tensors.size()) {
    return fail(tensors.size(), " tensors, the schema has ", schema_.tensors.size());
  }
  v1::SizeTable& table = *chunk_.mutable_sizes();
  if (num_graphs_ > 0 && graph_id.has_value() != table.has_graph_ids()) {
    return fail("either all graphs of a chunk have an id, or none has");
  }
  std::size_t graph_bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    graph_bytes += tensors[i].size();
    const TensorLayout& tensor = schema_.tensors[i];
    const uint64_t rows = tensor.component == sizes.size() ? 1 : sizes[tensor.component];
    // No overflow: at most 2^32 rows of 2^24 bytes.
    if (tensors[i].size() != rows * tensor.row_bytes) {
      return fail("tensor '", tensor.name, "' has ", tensors[i].size(), " bytes for ", rows,
                  " rows of ", tensor.row_bytes);
    }
  }

  if (graph_bytes > kMaxGraphBytes) {
    const std::string name = graph_id ? absl::StrCat("graph ", *graph_id, ": it has ") : "it has ";
    return fail(name, graph_bytes, " bytes, a message takes at most ", kMaxGraphBytes,
                ": cut it (docs/partitioning.md)");
  }

  AppendLittleEndian(sizes, *table.mutable_counts());
  byte_size_ += sizes.size() * sizeof(uint32_t);
  if (graph_id.has_value()) {
    AppendLittleEndian(absl::MakeConstSpan(&*graph_id, 1), *table.mutable_graph_ids());
    byte_size_ += sizeof(uint64_t);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t plane_bytes = tensors[i].size() / schema_.tensors[i].num_planes();
    chunk_.mutable_tensors(static_cast<int>(i))
        ->mutable_data()
        ->append(tensors[i].data(), plane_bytes);
    const char* next = tensors[i].data() + plane_bytes;
    for (std::string& plane : later_planes_[i]) {
      plane.append(next, plane_bytes);
      next += plane_bytes;
    }
    byte_size_ += tensors[i].size();
  }
  table.set_num_graphs(++num_graphs_);
  return absl::OkStatus();
}

v1::GraphChunk ChunkBuilder::Build() {
  chunk_.mutable_sizes();
  for (std::size_t i = 0; i < later_planes_.size(); ++i) {
    std::string& data = *chunk_.mutable_tensors(static_cast<int>(i))->mutable_data();
    for (const std::string& plane : later_planes_[i]) data.append(plane);
  }
  v1::GraphChunk chunk = std::move(chunk_);
  Begin();
  return chunk;
}

}  // namespace packhouse::client
