// Names in a folder of source graphs, and its lock.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_NAMES_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/disk_file.h"

namespace packhouse {

// What has such an ending is removed when the store is opened.
inline constexpr char kDeletedFolder[] = ".deleted";
inline constexpr char kUnfinishedFolder[] = ".new";
inline constexpr char kUnfinishedFile[] = ".unfinished";

// The folder of a graph: its id.
std::string SourceGraphFolderName(uint64_t id);
bool IsSourceGraphFolderName(absl::string_view name);

// The folder is locked until the file is closed. FAILED_PRECONDITION if it is open already, naming
// the process.
absl::StatusOr<DiskFile> LockSourceGraphs(const std::string& folder);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_NAMES_H_
