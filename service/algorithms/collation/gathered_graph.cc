#include "service/algorithms/collation/gathered_graph.h"

#include <algorithm>

namespace packhouse {
namespace {

constexpr uint64_t kGraphAlignment = 8;
constexpr size_t kLineBytes = 64;
constexpr size_t kMostPrefetched = 4096;

}  // namespace

uint64_t GatheredGraph::BytesOf(const GraphSchema& schema, absl::Span<const uint32_t> counts) {
  uint64_t bytes = sizeof(uint64_t) + counts.size() * sizeof(uint32_t);
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    const size_t k = schema.tensors()[t].component;
    bytes += (k == counts.size() ? 1 : counts[k]) * schema.row_bytes(t);
  }
  return (bytes + kGraphAlignment - 1) / kGraphAlignment * kGraphAlignment;
}

void GatheredGraph::Prefetch() const {
  const size_t bytes = std::min(bytes_.size(), kMostPrefetched);
  for (size_t at = 0; at < bytes; at += kLineBytes) {
    __builtin_prefetch(bytes_.data() + at, 0, 1);
  }
}

void GatherGraph(const GraphChunk& chunk, size_t i, char* out) {
  const uint64_t id = chunk.sizes().graph_id(i);
  std::memcpy(out, &id, sizeof(id));
  out += sizeof(id);
  const absl::Span<const uint32_t> counts = chunk.sizes().tuple(i);
  if (!counts.empty()) std::memcpy(out, counts.data(), counts.size() * sizeof(uint32_t));
  out += counts.size() * sizeof(uint32_t);
  for (size_t t = 0; t < chunk.num_columns(); ++t) {
    for (size_t plane = 0; plane < chunk.schema().num_planes(t); ++plane) {
      const absl::string_view rows = chunk.rows(i, t, plane);
      if (!rows.empty()) std::memcpy(out, rows.data(), rows.size());
      out += rows.size();
    }
  }
}

}  // namespace packhouse
