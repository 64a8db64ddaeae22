// What append_until_killed appends: the process that is killed and the test that looks afterwards
// both know it.
#ifndef PACKHOUSE_TESTS_DATASETS_LMDB_KILLED_APPENDS_H_
#define PACKHOUSE_TESTS_DATASETS_LMDB_KILLED_APPENDS_H_

#include <cstdint>

#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "tests/support/random_graphs.h"

namespace packhouse {

inline constexpr uint64_t kKilledProducers = 3;

inline GraphSchema KilledAppendSchema() {
  return GraphSchema::Create(
             SizeSchema::NodesAndEdges(),
             {{"x", DType::kInt16, {}, 0, {}, {}}, {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
      .value();
}

// From a handful of graphs to a record of many pages. The ids tell whose a graph is.
inline GraphChunk KilledAppend(const GraphSchema& schema, uint64_t producer, uint64_t sequence) {
  Random random(producer << 32 | sequence);
  const size_t num_graphs = random.Below(4) == 0 ? 800 : random.Between(1, 20);
  return RandomChunk(random, &schema, num_graphs, 9, producer << 48 | sequence << 16);
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DATASETS_LMDB_KILLED_APPENDS_H_
