// What the files of OGB's downloads do not say themselves, by the names of the data sets.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_OGB_FACTS_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_OGB_FACTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {

struct OgbFacts {
  // As OGB calls it, `ogbn-proteins`.
  std::string name;
  // The files have each edge once, and OGB's loader adds the same edge the other way.
  bool has_inverse_edges = false;
  // Files beside features and labels that OGB's loader reads: `node_year`, `edge_weight`. Where
  // there is one kind of nodes the folder must have them; of several, not all kinds do.
  std::vector<std::string> needed_files;
};

// In place of the name of a data set: what is in the files is all that there is.
inline constexpr char kOgbAsIs[] = "as-is";

// `name`: of a data set, or kOgbAsIs; if it is empty, the last part of `folder` names the data set,
// with `-` or `_`, as OGB's loader calls the folders that it makes (`ogbn_proteins`).
//
// INVALID_ARGUMENT naming the folder, the names that are known, and the option that says it.
absl::StatusOr<OgbFacts> OgbFactsOf(const std::string& folder, absl::string_view name);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_OGB_FACTS_H_
