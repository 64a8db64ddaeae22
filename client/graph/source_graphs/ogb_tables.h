// A data set of one graph as OGB's downloads have it, folder `raw/`: for the prediction of nodes or
// of links.
//
// One kind of nodes: `edge.csv.gz` (source, target a line), `num-node-list.csv.gz`,
// `num-edge-list.csv.gz`, and if there `node-feat.csv.gz`, `node-label.csv.gz`, `edge-feat.csv.gz`,
// and any `node_NAME.csv.gz` and `edge_NAME.csv.gz`. Sets are called `nodes` and `edges`.
//
// Several kinds: `num-node-dict.csv.gz` (a line of names, a line of counts),
// `triplet-type-list.csv.gz` (source,relation,target a line),
// `relations/SOURCE___RELATION___TARGET/{edge,num-edge-list}.csv.gz`,
// `relations/.../{edge-feat,edge_NAME}.csv.gz`, `node-feat/SET/{node-feat,node_NAME}.csv.gz`,
// `node-label/SET/node-label.csv.gz`.
//
// Columns are called `feat`, `labels`, and NAME (`year`, `species`, `reltype`), as TF-GNN's
// converter calls them, and have the shape [numbers of a line]. As OGB's loader has them, they are
// int64 where all are whole numbers, and otherwise float32; an empty field is NaN. Of the data sets
// whose files have each edge once (ogb_facts.h) the same edge the other way follows each edge, with
// the same columns. Split files, `split/NAME/[SET/]{train,valid,test}.csv.gz`, are read by
// ReadOgbSplits.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_OGB_TABLES_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_OGB_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

// `folder`: the one that has `raw/`. `name`: as OgbFactsOf takes it. NOT_FOUND naming a file;
// INVALID_ARGUMENT naming file, line, field and value, or the folder whose name is not known;
// UNIMPLEMENTED saying what to do with a folder of arrays (data.npz) or of many graphs.
absl::StatusOr<SourceTables> OpenOgbTables(const std::string& folder, const std::string& name = "");

// The nodes of one part of a split.
struct OgbSplit {
  // `train`, `valid` or `test`.
  std::string part;
  std::string node_set;
  std::vector<int64_t> nodes;
};

struct OgbSplits {
  // Of the first split by name; empty if there is none.
  std::vector<OgbSplit> parts;
  // Of each other split, and each file of the first one that is not read: its path, and why.
  std::vector<std::string> notes;
};

// Errors as OpenOgbTables.
absl::StatusOr<OgbSplits> ReadOgbSplits(const std::string& folder);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_OGB_TABLES_H_
