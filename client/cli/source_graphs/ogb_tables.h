// A data set for node property prediction as OGB's downloads have it, folder `raw/`.
//
// One kind of nodes: `edge.csv.gz` (source, target a line), `num-node-list.csv.gz`,
// `num-edge-list.csv.gz`, and if there `node-feat.csv.gz`, `node-label.csv.gz`, `node_year.csv.gz`,
// `edge-feat.csv.gz`. Sets are called `nodes` and `edges`.
//
// Several kinds: `num-node-dict.csv.gz` (a line of names, a line of counts),
// `triplet-type-list.csv.gz` (source,relation,target a line),
// `relations/SOURCE___RELATION___TARGET/{edge,num-edge-list}.csv.gz`,
// `node-feat/SET/{node-feat,node_year}.csv.gz`, `node-label/SET/node-label.csv.gz`.
//
// Features are called `feat` (float32), `labels` (int64; float32 where one is no whole number), and
// `year` (int64), as TF-GNN's converter calls them; labels and years have the shape [1], or [n]. An
// empty label is NaN. Split files, `split/NAME/[SET/]{train,valid,test}.csv.gz`, are read by
// ReadOgbSplits.
#ifndef PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_OGB_TABLES_H_
#define PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_OGB_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/source_graphs/source_tables.h"

namespace packhouse::client {

// `folder`: the one that has `raw/`. NOT_FOUND naming a file; INVALID_ARGUMENT naming file, line,
// field and value.
absl::StatusOr<SourceTables> OpenOgbTables(const std::string& folder);

// The nodes of one part of a split.
struct OgbSplit {
  // `train`, `valid` or `test`.
  std::string part;
  std::string node_set;
  std::vector<int64_t> nodes;
};

// Of the first split by name; empty if there is none. Errors as OpenOgbTables.
absl::StatusOr<std::vector<OgbSplit>> ReadOgbSplits(const std::string& folder);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_OGB_TABLES_H_
