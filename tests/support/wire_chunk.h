// Chunks as clients send and receive them.
#ifndef PACKHOUSE_TESTS_SUPPORT_WIRE_CHUNK_H_
#define PACKHOUSE_TESTS_SUPPORT_WIRE_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "packhouse/v1/graphs.pb.h"
#include "service/algorithms/graphs/graph_chunk.h"

namespace packhouse {

// With the ids of its graphs; a copy.
inline v1::GraphChunk ChunkToWire(const GraphChunk& chunk) {
  const auto put = [](auto number, std::string& bytes) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  v1::GraphChunk wire;
  const SizeTable& sizes = chunk.sizes();
  wire.mutable_sizes()->set_num_graphs(sizes.num_graphs());
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    put(uint64_t{sizes.graph_id(i)}, *wire.mutable_sizes()->mutable_graph_ids());
    for (const uint32_t count : sizes.tuple(i)) put(count, *wire.mutable_sizes()->mutable_counts());
  }
  for (size_t t = 0; t < chunk.num_columns(); ++t) {
    v1::TensorData& tensor = *wire.add_tensors();
    tensor.set_name(chunk.schema().tensors()[t].name);
    for (size_t plane = 0; plane < chunk.schema().num_planes(t); ++plane) {
      for (size_t i = 0; i < sizes.num_graphs(); ++i) {
        const absl::string_view rows = chunk.rows(i, t, plane);
        tensor.mutable_data()->append(rows.data(), rows.size());
      }
    }
  }
  return wire;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_WIRE_CHUNK_H_
