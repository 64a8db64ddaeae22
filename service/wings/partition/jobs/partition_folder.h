// The folder that a partition of a server has beside its source graph: what was asked for, what
// came of it, and its files.
//
// partitions/NAME in the graph's companion folder has `state` from the beginning: what was asked
// for, by whom, and how it ended; files/ once the partition is whole; `starts` while a process
// works at it. Beside the folders there is the list of their names (partition_list.h).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_FOLDER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/client_identity.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/partition/jobs/partition_contents.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition/jobs/partition_report.h"
#include "service/wings/partition/jobs/partition_state.h"

namespace packhouse {

struct PartitionBytes {
  std::string data;
  uint64_t num_bytes = 0;  // Of the whole file.
};

// Thread-compatible, as the disk is. Errors besides those named: UNAVAILABLE and RESOURCE_EXHAUSTED
// of the disk, DATA_LOSS naming a file that is damaged or missing. What changes something durably
// has one of the three outcomes of disk_file.h. Changes of the list come one after the other:
// Settle(), Create() and MoveAway() of all partitions of a graph.
class PartitionFolder {
 public:
  PartitionFolder(const StoredSourceGraph& graph, absl::string_view name);

  // Those that must be there and those that are, ascending.
  static absl::StatusOr<PartitionList> NamesOf(const StoredSourceGraph& graph);
  // Removes what was begun or deleted when an earlier process ended.
  static void RemoveRemains(const StoredSourceGraph& graph);

  const std::string& path() const { return path_; }
  // Where the files are, or will be.
  std::string files() const;
  bool is_done() const;

  // What can be seen of it is durable, and it is listed: before anything goes on from a change
  // whose outcome was unknown, in this process or an earlier one.
  absl::Status Settle() const;

  // Durably: the folder with its plan and its owner appears at once; then it is listed. If that
  // fails the outcome is unknown.
  absl::Status Create(const PartitionPlan& plan, const ClientId& owner) const;
  // NOT_FOUND; DATA_LOSS also if it was whole, and has no files.
  absl::StatusOr<PartitionState> State() const;

  // To be called when work begins: how many times before it had begun, kept nothing that was new,
  // and ended with its process. Durable, so that what ends the process now is counted the next
  // time.
  absl::StatusOr<uint64_t> CountStart() const;
  // The work has kept something new: the counting begins anew.
  absl::Status RestartCount() const;
  // The work is over, and the process was not.
  absl::Status RemoveCount() const;

  // How work ended, durably: OK once the files are there. RemoveEnd() lets it go on.
  absl::Status WriteEnd(const absl::Status& how) const;
  absl::Status RemoveEnd() const;

  // To be called for work that is whole, before `folder` has its name: notes its files in it.
  // CANCELLED as ReadPartitionContents(). Reads all files.
  absl::Status NoteFiles(const std::string& folder, absl::FunctionRef<bool()> goes_on) const;

  // Of a partition that is done. DATA_LOSS also if a file is missing, or has another length.
  absl::StatusOr<PartitionReport> Report() const;
  // In ascending order of paths. O(files).
  absl::StatusOr<std::vector<PartitionJobFile>> Files() const;
  // Bytes [offset, offset + max_bytes) of a file, as far as it has them. NOT_FOUND for a path that
  // is none of Files(); OUT_OF_RANGE if the offset is beyond the end. O(files).
  absl::StatusOr<PartitionBytes> Read(absl::string_view file, uint64_t offset,
                                      uint64_t max_bytes) const;

  // Of all that is there, also of work that is not done.
  uint64_t NumBytes() const;

  // Takes it off the list, frees the name at once, durably, and gives the folder that is left to
  // remove; "" if it was missing.
  absl::StatusOr<std::string> MoveAway() const;

 private:
  bool exists() const;
  absl::StatusOr<PartitionList> List() const;
  absl::Status Enlist() const;
  absl::Status WriteState(const PartitionState& state, absl::string_view why) const;
  absl::StatusOr<PartitionContents> Contents() const;
  // DATA_LOSS for its file, named by its path below its folder. Shows no path of the server.
  absl::Status Damaged(absl::string_view file, absl::string_view what) const;

  const std::string companion_;
  const std::string partitions_;
  const std::string graph_;
  const std::string name_;
  const std::string path_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_FOLDER_H_
