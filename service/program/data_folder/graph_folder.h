// The source graphs of a data folder, for snapshots, checks and repairs: what is done to their
// files is the wing's that keeps them.
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_GRAPH_FOLDER_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_GRAPH_FOLDER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/stored_damage.h"

namespace packhouse {

// Those of a folder that is open. Without the wing that keeps them, the functions are null.
struct OpenedGraphs {
  // `path` in their folder; the first bytes of the file `link` are its content.
  using CopyFile = absl::FunctionRef<absl::Status(const std::string& path, const std::string& link,
                                                  uint64_t num_bytes)>;
  // Calls it for every file of one moment. The links are there as long as this.
  using CopyFiles = std::function<absl::Status(CopyFile copy)>;

  // On the disk now.
  std::function<uint64_t()> num_bytes = nullptr;
  // All files as they are now. UNAVAILABLE if the file system has no hard links. O(files).
  std::function<absl::StatusOr<CopyFiles>()> link_all = nullptr;
  // Why they are null.
  std::string why_not = "";
};

// What is done to the folder of source graphs, SourceGraphsFolder(), while no server has it open.
// Without the wing that keeps them, all functions are null.
struct GraphFolder {
  std::function<absl::StatusOr<OpenedGraphs>(const std::string& folder)> open = nullptr;
  // Reads everything, and what wings keep beside the graphs. The number of graphs. Changes nothing.
  std::function<absl::StatusOr<uint64_t>(const std::string& folder, DamageVisitor found)> check =
      nullptr;
  // Goes on without what is missing, and calls `missing` for it.
  std::function<absl::Status(const std::string& folder, DamageVisitor missing)> accept_missing =
      nullptr;
  // Removes a graph that is damaged, with what is kept beside it.
  std::function<absl::Status(const std::string& folder, absl::string_view name)> drop = nullptr;
  // Why they are null: "this packhoused was built without the wing NAME".
  std::string why_not = "";
};

// What is done about what a wing keeps beside source graphs, in the companion folder of each. A
// function that is null does nothing.
struct CompanionChecks {
  // Reads everything. Changes nothing.
  std::function<void(const std::string& graph, const std::string& companion, DamageVisitor found)>
      check = nullptr;
  // Goes on without what is missing, and calls `missing` for it. Errors of the disk.
  std::function<absl::Status(const std::string& graph, const std::string& companion,
                             DamageVisitor missing)>
      accept_missing = nullptr;
};

// FAILED_PRECONDITION naming the folder and why if a data folder has source graphs; for where there
// is nothing that reads them.
absl::Status CheckHasNoGraphs(const std::string& data_dir, absl::string_view why_not);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_GRAPH_FOLDER_H_
