// A graph drawn in the shape of OGBN-MAG: papers that cite papers, authors who write them, the
// authors' institutions, and the papers' fields of study.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_MAG_TABLES_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_MAG_TABLES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

struct MagOptions {
  // Of all counts; 1 is OGBN-MAG: 736,389 papers, 1,134,649 authors, 8,740 institutions, 59,965
  // fields; 5,416,271 citations, 7,145,660 of authorship, 1,043,998 affiliations, 7,505,078 topics.
  // Every count is at least 1.
  double scale = 1;
  uint64_t seed = 0;
};

// Sets are called `paper`, `author`, `institution`, `field_of_study`; `cites`, `writes`,
// `affiliated_with`, `has_topic`; and `written`, the reverse of `writes`. Papers have `feat` (128
// floats), `labels` [1] (one of 349) and `year` [1] (to 2017 about 85 % of them, 2018 about 9 %,
// 2019 the rest). Ids are numbers from 0. Degrees are heavy-tailed: node r of n, in an order that
// is drawn, has about r^(-1/2) as many edges as the first, or r^(-2/3) for fields. Features,
// citations, authors and topics tell of the label, so that there is something to learn.
//
// The same options give the same graph on every machine and in every release; a row is a function
// of the options and its number. INVALID_ARGUMENT for a scale that is not above 0 and at most 100.
absl::StatusOr<SourceTables> OpenMagTables(const MagOptions& options);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_MAG_TABLES_H_
