// METIS's text files: graphs, and the parts of their vertices.
//
// A graph file: lines that begin with % are comments. The head is `n m [fmt [ncon]]` with m
// undirected edges; fmt has three digits (leading zeros may be left out): vertex sizes, vertex
// weights, edge weights. Then a line a vertex: [size] [ncon weights] and its neighbours, counted
// from 1, each with its weight if edges have any. An isolated vertex has an empty line. A file of
// parts has one part a line.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_METIS_GRAPH_FILE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_METIS_GRAPH_FILE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/partition/files/byte_sink.h"
#include "service/wings/partition/files/text_rows.h"

namespace packhouse {

struct MetisGraph {
  static constexpr uint64_t kMaxVertices = (uint64_t{1} << 32) - 2;
  static constexpr uint64_t kMaxConstraints = 1024;

  // Both directions of each edge; vertices are counted from 0.
  std::vector<uint64_t> offsets = {0};
  std::vector<uint32_t> neighbours;
  std::vector<uint64_t> edge_weights;    // One an entry, at least 1; empty: all are 1.
  uint64_t num_constraints = 0;          // 0: vertices have no weights.
  std::vector<uint64_t> vertex_weights;  // num_constraints a vertex, vertex after vertex.
  std::vector<uint64_t> vertex_sizes;    // One a vertex; empty: all are 1.

  uint64_t num_vertices() const { return offsets.size() - 1; }

  friend bool operator==(const MetisGraph&, const MetisGraph&) = default;
};

// INVALID_ARGUMENT naming the vertex (from 1, as in the file) of a self loop, an edge that is there
// twice, or one that its other end does not have, or has with another weight. METIS itself checks
// none of this. O(entries) time beside sorting each row, 12 bytes an entry.
absl::Status CheckMetisGraph(const MetisGraph& graph);

// Takes any text. INVALID_ARGUMENT naming the line: a head that cannot be, numbers out of range,
// lines too many or missing, a count of edges other than the head's; and for what CheckMetisGraph
// refuses. Memory: that of the result and of the check, never more than a small multiple of `text`.
absl::StatusOr<MetisGraph> ReadMetisGraph(absl::string_view text);

// What the head of a file says.
struct MetisGraphHead {
  uint64_t num_vertices = 0;
  uint64_t num_edges = 0;  // Undirected.
  bool has_sizes = false;
  uint64_t num_constraints = 0;
  bool has_edge_weights = false;
};

// Writes a graph file vertex by vertex. Not thread-safe.
class MetisGraphWriter {
 public:
  // `sink` must outlive it.
  MetisGraphWriter(const MetisGraphHead& head, ByteSink& sink);

  // The next vertex. `edge_weights` has one for each neighbour, or is empty if the head says so, as
  // `weights` has num_constraints. `size` is used if the head says that there are sizes.
  // FAILED_PRECONDITION if the numbers of values are not those; errors of the sink.
  absl::Status Vertex(absl::Span<const uint32_t> neighbours,
                      absl::Span<const uint64_t> edge_weights = {},
                      absl::Span<const uint64_t> weights = {}, uint64_t size = 1);
  // FAILED_PRECONDITION if there were not as many vertices and edges as the head says.
  absl::Status Finish();

 private:
  const MetisGraphHead head_;
  TextWriter text_;
  uint64_t vertices_ = 0;
  uint64_t entries_ = 0;
};

// The same for a whole graph. The same graph gives the same bytes.
absl::Status WriteMetisGraph(const MetisGraph& graph, ByteSink& sink);

// A part for each vertex. INVALID_ARGUMENT naming the line of what is no number below `num_parts`,
// or if there are not `num_vertices` lines.
absl::StatusOr<std::vector<uint32_t>> ReadPartLines(absl::string_view text, uint64_t num_vertices,
                                                    uint32_t num_parts);
absl::Status WritePartLines(absl::Span<const uint32_t> parts, ByteSink& sink);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_METIS_GRAPH_FILE_H_
