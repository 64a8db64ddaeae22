// Whether everything in a folder of source graphs is as it was written.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_CHECK_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/stored_damage.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// Tells what SourceGraphStore::Verify() has found of a graph that is kept in `place`, which
// messages may begin with; `cost` in words.
void TellDamage(const std::string& place, const std::string& cost,
                const SourceGraphVerifyReport& report, DamageVisitor found);

// Reads everything, as SourceGraphStore::Verify() does of each graph. Changes nothing: what is left
// of graphs that were being created or deleted stays, and is no damage; a graph that is listed and
// missing is, and the companion folder of a sealed one. `companion` is called with each graph's
// name and companion folder, which may be missing. The result is the number of graphs; 0 for a
// folder that is missing.
//
// FAILED_PRECONDITION if the folder is open, naming the process, or another release wrote a graph.
absl::StatusOr<uint64_t> CheckSourceGraphFolders(
    const std::string& folder, DamageVisitor found,
    absl::FunctionRef<void(const std::string& graph, const std::string& companion)> companion);

// Writes the list of graphs anew, of those that are there, and makes companion folders that sealed
// graphs do not have; calls `missing` for each that was in it and is not, for the list itself if it
// is damaged, and for such a folder. Does nothing if there is none. `companion` is called as above.
// Errors: as CheckSourceGraphFolders(), those of the disk and of `companion`.
absl::Status AcceptMissingSourceGraphs(
    const std::string& folder, DamageVisitor missing,
    absl::FunctionRef<absl::Status(const std::string& graph, const std::string& companion)>
        companion);

// Removes a damaged graph, and its companions, from a folder that no store has open. `name` is the
// graph's, or that of its folder if nobody can read what it is called.
//
// NOT_FOUND; FAILED_PRECONDITION if nothing of it is damaged, or the folder is open, or another
// release wrote the graph; errors of the disk.
absl::Status DropDamagedSourceGraph(const std::string& folder, absl::string_view name);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_CHECK_H_
