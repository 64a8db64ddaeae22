// A graph with everything that a batch needs of it in one run of bytes.
//
// In a chunk the rows of a graph lie in as many places as there are tensors, and its id and counts
// in two more. Each place costs the latency of memory when graphs are drawn at random. Here one
// graph's id, its counts and its rows follow each other.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_GATHERED_GRAPH_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_GATHERED_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse {

// A view of such bytes: the id, the counts, then the rows of each tensor, plane after plane. They
// begin at a multiple of 8.
class GatheredGraph {
 public:
  // `bytes` are as GatherGraph() wrote them.
  explicit GatheredGraph(absl::string_view bytes) : bytes_(bytes) {}

  // Bytes of a graph with these counts: a multiple of 8. O(tensors).
  static uint64_t BytesOf(const GraphSchema& schema, absl::Span<const uint32_t> counts);

  uint64_t id() const {
    uint64_t id;
    std::memcpy(&id, bytes_.data(), sizeof(id));
    return id;
  }
  // The l counts, at a multiple of 4.
  const char* counts() const { return bytes_.data() + sizeof(uint64_t); }
  const char* rows(size_t num_components) const {
    return counts() + num_components * sizeof(uint32_t);
  }
  // Fetches it into the second cache, or the beginning of a large one: the processor itself notices
  // that more follows.
  void Prefetch() const;

 private:
  absl::string_view bytes_;
};

// Writes graph i of a chunk to `out`, GatheredGraph::BytesOf() bytes. O(bytes).
void GatherGraph(const GraphChunk& chunk, size_t i, char* out);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_GATHERED_GRAPH_H_
