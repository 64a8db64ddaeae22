// Reads features out of graphs at the rows that predictions are made from, and gives graphs a
// read-out that have none.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_READOUT_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_READOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/wings/tfgnn/graph_sets.h"
#include "service/wings/tfgnn/readout_structure.h"

namespace packhouse::tfgnn {

// The names of the sets, for FindReadout.
SetNames NamesOf(const GraphSets& sets);

// From which row one prediction is made.
struct ReadoutRow {
  // Position among the key's sources.
  size_t source = 0;
  // In the source set of the graph.
  uint64_t row = 0;

  friend bool operator==(const ReadoutRow&, const ReadoutRow&) = default;
};

// Element p of the result is where prediction p of graph i is made from.
//
// `structure` is FindReadout's for these sets, and `key` the position of one of its keys.
// INVALID_ARGUMENT naming the graph, the edge set, the position and the value: within an edge set
// the targets do not rise strictly, or they are not each of 0 to n - 1 once in all of the key's
// edge sets; a shadow node set has another size than its edge set. O(edges of the key).
absl::StatusOr<std::vector<ReadoutRow>> ReadoutRows(const GraphSets& sets,
                                                    const ReadoutStructure& structure, size_t key,
                                                    const GraphChunk& chunk, size_t i);

// What `feature` has at the rows of ReadoutRows, one row a prediction.
struct ReadoutValues {
  DType dtype = DType::kFloat32;
  std::vector<uint32_t> row_shape;
  // [predictions, row_shape...], little-endian.
  std::string rows;
};

// NOT_FOUND for a key, or a source set without the feature; INVALID_ARGUMENT for a ragged feature
// or one of strings, or if the key's source sets have it in different types or shapes; errors of
// FindReadout and ReadoutRows.
absl::StatusOr<ReadoutValues> StructuredReadout(const GraphSets& sets, const GraphChunk& chunk,
                                                size_t i, absl::string_view key,
                                                absl::string_view feature,
                                                absl::string_view readout_set = kReadout);

// For graphs whose seed is by convention the first node of `node_set`, as TF-GNN's sampler writes
// them: they get the node set `_readout` with one row, and the edge set `_readout/KEY` with an edge
// from the first node to it.
class FirstNodeReadout {
 public:
  // NOT_FOUND for the node set; ALREADY_EXISTS if there is a read-out; INVALID_ARGUMENT for a key
  // that is not of [A-Za-z0-9_]+, and as GraphSets::FromTfgnn.
  static absl::StatusOr<FirstNodeReadout> Create(const GraphSets& sets, absl::string_view key,
                                                 absl::string_view node_set);

  // With the read-out.
  const GraphSets& sets() const { return sets_; }

  // The graphs of a chunk of the sets without the read-out, with it. Rows are views of `chunk`'s,
  // which the result keeps. INVALID_ARGUMENT naming a graph without a node in the node set.
  absl::StatusOr<GraphChunk> Add(GraphChunk chunk) const;

 private:
  explicit FirstNodeReadout(GraphSets sets) : sets_(std::move(sets)) {}

  GraphSets sets_;
  // Component of the node set, without the read-out.
  size_t seeds_ = 0;
  // For each component with the read-out, which it was; nullopt for the two new ones.
  std::vector<std::optional<size_t>> components_;
  // The same for tensors.
  std::vector<std::optional<size_t>> tensors_;
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_READOUT_H_
