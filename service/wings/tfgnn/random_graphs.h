// Random graphs that obey a schema, for trying out a pipeline without data.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_RANDOM_GRAPHS_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_RANDOM_GRAPHS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/base/seeded_random.h"
#include "service/wings/tfgnn/graph_sets.h"
#include "service/wings/tfgnn/row_builder.h"

namespace packhouse::tfgnn {

struct RandomGraphOptions {
  // Rows of a set, and items of a row's ragged dimension; both ends are possible.
  uint32_t min_rows = 2;
  uint32_t max_rows = 7;
  // Integers come from the whole range of their type, not from [0, 100).
  bool whole_range = false;
};

// Appends one graph to `rows`, which has the sets' schema. Edges run between random nodes; a set
// that has none to run between has no edge. A read-out is one that FindReadout and ReadoutRows
// accept, a shadow set has as many rows as its edge set. Floats are in [0, 1) and survive a
// tf.Example as they are; strings are words. The same numbers give the same graph on every machine.
//
// INVALID_ARGUMENT if min_rows > max_rows, or as ExampleDecoder::Create.
absl::Status AppendRandomGraph(const GraphSets& sets, const RandomGraphOptions& options,
                               SeededRandom& random, RowBuilder& rows);

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_RANDOM_GRAPHS_H_
