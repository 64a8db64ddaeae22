// Structured read-out: which rows of a graph's sets the predictions are made from.
//
// The node set `_readout` (or `_readout:TAG`) has one row a prediction; labels are its features. An
// edge set `_readout/KEY` or `_readout/KEY/SUFFIX` says by its edges from which row of its source
// set prediction number `target` is made. A source `_shadow/E` is a node set that stands for the
// edge set E, whose rows are meant.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_READOUT_STRUCTURE_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_READOUT_STRUCTURE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::tfgnn {

inline constexpr absl::string_view kReadout = "_readout";

// The sets of a schema, without their features.
struct SetNames {
  struct EdgeSet {
    std::string name;
    std::string source;
    std::string target;
  };
  std::vector<std::string> node_sets;
  std::vector<EdgeSet> edge_sets;
};

// One edge set of a key, by positions in SetNames.
struct ReadoutSource {
  // Whose edges end at the predictions.
  size_t edge_set = 0;
  // Where the rows are that are read: an edge set if the source is a shadow, else a node set.
  bool is_edge_set = false;
  size_t rows_of = 0;

  friend bool operator==(const ReadoutSource&, const ReadoutSource&) = default;
};

struct ReadoutStructure {
  // Position of the read-out's node set.
  size_t node_set = 0;
  // In the order of keys; each with its sources in the order of the edge sets.
  std::vector<std::pair<std::string, std::vector<ReadoutSource>>> keys;
};

// `_readout`, or `_readout:` and a tag of [A-Za-z0-9_]+.
bool IsReadoutSet(absl::string_view node_set);

// INVALID_ARGUMENT naming the set: `readout_set` is not there or has another name than
// IsReadoutSet() wants; no edge set reads into it; an edge set whose name begins with it and is
// malformed, or that has another target; two of one key from one source set; a shadow of an edge
// set that is not there. O(sets).
absl::StatusOr<ReadoutStructure> FindReadout(const SetNames& sets,
                                             absl::string_view readout_set = kReadout);

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_READOUT_STRUCTURE_H_
