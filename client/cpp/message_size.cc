#include "client/cpp/message_size.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cpp/chunk_builder.h"
#include "client/cpp/schema_layout.h"

namespace packhouse::client {
namespace {

// A request has names and numbers beside the graphs.
constexpr std::size_t kMostBytes = ChunkBuilder::kMaxGraphBytes;

template <typename Ids>
std::string NameOf(const Ids& ids, std::size_t number) {
  if (ids.graph_ids().size() >= (number + 1) * sizeof(uint64_t)) {
    uint64_t id = 0;
    std::memcpy(&id, ids.graph_ids().data() + number * sizeof id, sizeof id);
    return absl::StrCat("graph ", id);
  }
  if (ids.has_first_id()) return absl::StrCat("graph ", ids.first_id() + number);
  return absl::StrCat("graph ", number, " of the message");
}

absl::Status TooLarge(absl::string_view graph, uint64_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat(graph, ": it has ", bytes,
                                                 " bytes, a message takes at most ", kMostBytes,
                                                 ": cut it (docs/partitioning.md)"));
}

absl::Status TooMany(std::size_t num_graphs, uint64_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat(num_graphs, " graphs together have ", bytes,
                                                 " bytes, a message takes at most ", kMostBytes,
                                                 ": send fewer at once"));
}

}  // namespace

absl::Status CheckMessageSize(const v1::GraphChunk& chunk, const v1::GraphSchema* schema) {
  const std::size_t bytes = chunk.ByteSizeLong();
  if (bytes <= kMostBytes) return absl::OkStatus();
  const v1::SizeTable& sizes = chunk.sizes();
  if (sizes.num_graphs() == 1) return TooLarge(NameOf(sizes, 0), bytes);
  if (schema != nullptr) {
    // A schema or a table that makes no sense is the server's to refuse.
    const absl::StatusOr<SchemaLayout> layout = ResolveSchema(*schema);
    const std::size_t width = layout.ok() ? layout->components.size() : 0;
    const bool has_counts =
        layout.ok() && sizes.counts().size() == sizes.num_graphs() * width * sizeof(uint32_t);
    std::vector<uint32_t> counts(width + 1, 1);
    for (std::size_t i = 0; has_counts && i < sizes.num_graphs(); ++i) {
      std::memcpy(counts.data(), sizes.counts().data() + i * width * sizeof(uint32_t),
                  width * sizeof(uint32_t));
      uint64_t graph_bytes = 0;
      for (const TensorLayout& tensor : layout->tensors) {
        graph_bytes += counts[tensor.component] * uint64_t{tensor.row_bytes};
      }
      if (graph_bytes > kMostBytes) return TooLarge(NameOf(sizes, i), graph_bytes);
    }
  }
  return TooMany(sizes.num_graphs(), bytes);
}

absl::Status CheckMessageSize(const v1::Examples& examples) {
  const std::size_t bytes = examples.ByteSizeLong();
  if (bytes <= kMostBytes) return absl::OkStatus();
  for (int i = 0; i < examples.examples_size(); ++i) {
    if (examples.examples(i).size() > kMostBytes) {
      return TooLarge(NameOf(examples, static_cast<std::size_t>(i)), examples.examples(i).size());
    }
  }
  return TooMany(static_cast<std::size_t>(examples.examples_size()), bytes);
}

absl::Status CheckMessageSize(const v1::SizeTable& sizes) {
  const std::size_t bytes = sizes.ByteSizeLong();
  return bytes <= kMostBytes ? absl::OkStatus() : TooMany(sizes.num_graphs(), bytes);
}

}  // namespace packhouse::client
