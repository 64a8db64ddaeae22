// Which graphs a folder of source graphs must have, in a file of its own: so that a graph whose
// folder was deleted is not taken for one that never was.
//
// It is one of checked_lines.h; each line is a folder and the graph's name. A graph is added once
// it is durable, before it is acknowledged, and taken out before it is deleted: what is listed must
// be there.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_LIST_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_LIST_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

inline constexpr char kGraphListFile[] = "graphs";

// Names of graphs by their folders.
using GraphList = std::map<std::string, std::string>;

std::string EncodeGraphList(const GraphList& list);
// DATA_LOSS unless EncodeGraphList() wrote the text.
absl::StatusOr<GraphList> DecodeGraphList(absl::string_view text);

// That of a folder of graphs; empty if it has none. DATA_LOSS naming the file if it is damaged;
// errors of the disk.
absl::StatusOr<GraphList> ReadGraphList(const std::string& folder);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_LIST_H_
