// Whether everything in a folder of source graphs is as it was written.
#ifndef PACKHOUSE_SERVICE_SOURCE_GRAPHS_STORED_SOURCE_GRAPH_CHECK_H_
#define PACKHOUSE_SERVICE_SOURCE_GRAPHS_STORED_SOURCE_GRAPH_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/stored_damage.h"

namespace packhouse {

// Reads everything, as SourceGraphStore::Verify() does of each graph. Changes nothing: what is left
// of graphs that were being created or deleted stays, and is no damage; a graph that is listed and
// missing is. `companion` is called with
// each graph's name and companion folder, which may be missing. The result is the number of graphs;
// 0 for a folder that is missing.
//
// FAILED_PRECONDITION if the folder is open, naming the process, or another release wrote a graph.
absl::StatusOr<uint64_t> CheckSourceGraphFolders(
    const std::string& folder, DamageVisitor found,
    absl::FunctionRef<void(const std::string& graph, const std::string& companion)> companion);

// Writes the list of graphs anew, of those that are there; calls `missing` with why, in words, for
// each that was in it and is not, or for the list itself if it is damaged. Does nothing if there is
// neither. Errors: as CheckSourceGraphFolders(), and those of the disk.
absl::Status AcceptMissingSourceGraphs(const std::string& folder, DamageVisitor missing);

// Removes a damaged graph, and its companions, from a folder that no store has open. `name` is the
// graph's, or that of its folder if nobody can read what it is called.
//
// NOT_FOUND; FAILED_PRECONDITION if nothing of it is damaged, or the folder is open, or another
// release wrote the graph; errors of the disk.
absl::Status DropDamagedSourceGraph(const std::string& folder, absl::string_view name);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SOURCE_GRAPHS_STORED_SOURCE_GRAPH_CHECK_H_
