// The graphs of `packhouse-bench`, and limits for batches of a given size.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_GRAPHS_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bench/graph_source.h"
#include "grpcpp/support/byte_buffer.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/sizes.pb.h"

namespace packhouse::client {

// Opens `path` (npz_layout.h), or makes graphs if it is empty: always the same 41,127 graphs, with
// the schema of ogbg-molhiv and similar sizes (25 nodes and 55 edges in the mean, a thin tail up to
// some 200).
//
// Errors: as NpzGraphs::Open; INVALID_ARGUMENT if there are no graphs, or none has a tensor.
absl::StatusOr<std::unique_ptr<GraphSource>> OpenBenchGraphs(const std::string& path);

// The end of a chunk that begins with graph `begin`: as many graphs as fit into `chunk_bytes`, at
// least one.
uint64_t EndOfChunk(const GraphSource& source, uint64_t begin, uint64_t chunk_bytes);

// The properties of a set of graphs.
struct BenchGraphs {
  v1::GraphSchema schema;
  uint64_t num_graphs = 0;
  uint64_t num_bytes = 0;
  // Per component, without `graphs`.
  std::vector<uint64_t> totals;
  std::vector<uint32_t> maxima;
  // As SizeTable.counts, of all graphs.
  std::string sizes;
  v1::Histogram histogram;
  // PackRequests of whole graphs without ids, for each of kChunkBytes.
  std::vector<std::vector<grpc::ByteBuffer>> requests;
  // Mean bytes of a graph in these requests.
  double request_bytes_per_graph = 0;
};

// Sizes of chunks to send: small ones for small batches, so that a stream does not stutter.
inline constexpr uint64_t kChunkBytes[] = {uint64_t{64} << 10, uint64_t{256} << 10,
                                           uint64_t{1} << 20};
// The index of the one that suits batches of this many bytes.
std::size_t ChunkSizeFor(uint64_t payload_bytes);

absl::StatusOr<BenchGraphs> ReadBenchGraphs(const std::string& path);

// Tensors that the benchmark asks for besides the schema's.
inline constexpr v1::DerivedTensor kBenchDerived[] = {v1::DERIVED_TENSOR_GRAPH_INDEX,
                                                      v1::DERIVED_TENSOR_MASKS};

// Limits under which a padded batch with kBenchDerived has about `payload_bytes`, with ids and
// sizes: room for as many mean graphs as needed, and at least for the largest graph.
v1::Limits LimitsForPayload(const BenchGraphs& graphs, uint64_t payload_bytes);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_GRAPHS_H_
