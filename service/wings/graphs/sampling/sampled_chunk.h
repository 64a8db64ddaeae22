// Sub-graphs with their features, as a chunk of graphs.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_CHUNK_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/wings/graphs/sampling/sampled_graph.h"
#include "service/wings/graphs/sampling/sampled_schema.h"

namespace packhouse {

struct TensorSource;

// Sub-graphs one after another, in columns. Thread-compatible.
class SampledChunk {
 public:
  // `schema` and the graph that it was made for must outlive this and what Finish() gives.
  explicit SampledChunk(const SampledSchema* schema);

  // Makes room for so many rows of each component, all graphs together: then no column moves while
  // it grows.
  void Reserve(absl::Span<const uint64_t> counts);

  // Copies the sub-graph's rows. O(bytes). INVALID_ARGUMENT if `readout` does not have the plan's
  // columns and the sub-graph's number of rows, or if a draw without edge numbers is to give
  // columns of edges; OUT_OF_RANGE as SampledSchema::Sizes; DATA_LOSS naming the graph if a row is
  // damaged. On an error nothing is appended.
  absl::Status Append(const SampledGraph& sampled, ReadoutRows readout = {});

  size_t num_graphs() const { return num_graphs_; }
  // Of all tensors.
  uint64_t num_bytes() const { return num_bytes_; }

  // The graphs, with ids from first_id on; this is then empty. The chunk owns its rows.
  absl::StatusOr<GraphChunk> Finish(uint64_t first_id);

 private:
  // Bytes that are written once: what it makes room for is not initialised.
  class Column {
   public:
    // Room for `bytes` more, which then count as there.
    char* Extend(uint64_t bytes);
    void Reserve(uint64_t bytes);
    absl::string_view view() const { return {bytes_.get(), size_}; }

   private:
    std::unique_ptr<char[]> bytes_;
    uint64_t size_ = 0;
    uint64_t capacity_ = 0;
  };

  static void Write(const SampledGraph& sampled, const TensorSource& source, uint64_t bytes,
                    char* to);

  const SampledSchema* schema_;
  size_t num_graphs_ = 0;
  uint64_t num_bytes_ = 0;
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> tuple_;
  std::shared_ptr<std::vector<Column>> columns_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_CHUNK_H_
