// The folder that a partition of a server has beside its source graph: what was asked for, what
// came of it, and its files.
//
// partitions/NAME in the graph's companion folder has request.json and owner from the beginning;
// files/ once the partition is whole; `end` if it was cancelled or has failed; `starts` while a
// process works at it.
#ifndef PACKHOUSE_SERVICE_PARTITION_JOBS_PARTITION_FOLDER_H_
#define PACKHOUSE_SERVICE_PARTITION_JOBS_PARTITION_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/admission/client_identity.h"
#include "service/partition_jobs/partition_plan.h"
#include "service/partition_jobs/partition_report.h"
#include "service/source_graphs/source_graph_store.h"

namespace packhouse {

struct PartitionJobFile {
  std::string path;  // Relative to the partition's folder.
  uint64_t num_bytes = 0;
};

struct PartitionBytes {
  std::string data;
  uint64_t num_bytes = 0;  // Of the whole file.
};

// Thread-compatible, as the disk is. Errors besides those named: UNAVAILABLE and RESOURCE_EXHAUSTED
// of the disk, DATA_LOSS naming a file that is damaged. What changes something durably has one of
// the three outcomes of disk_file.h.
class PartitionFolder {
 public:
  PartitionFolder(const StoredSourceGraph& graph, absl::string_view name);

  // The names of a graph's partitions, ascending.
  static std::vector<std::string> NamesOf(const StoredSourceGraph& graph);
  // Removes what was begun or deleted when an earlier process ended.
  static void RemoveRemains(const StoredSourceGraph& graph);

  const std::string& path() const { return path_; }
  // Where the files are, or will be.
  std::string files() const;
  bool exists() const;
  bool is_done() const;
  bool has_end() const;
  // Whether somebody has to work on it.
  bool is_unfinished() const { return exists() && !is_done() && !has_end(); }

  // What can be seen of it is durable: before anything goes on from a change whose outcome was
  // unknown, in this process or an earlier one.
  absl::Status Settle() const;

  // Durably: the folder, its request and its owner appear at once.
  absl::Status Create(const PartitionPlan& plan, const ClientId& owner) const;
  // NOT_FOUND.
  absl::StatusOr<PartitionPlan> Request() const;
  // Empty if it is not known.
  ClientId Owner() const;

  // To be called when work begins: how many times before it had begun, kept nothing that was new,
  // and ended with its process. Durable, so that what ends the process now is counted the next
  // time.
  absl::StatusOr<uint64_t> CountStart() const;
  // The work has kept something new: the counting begins anew.
  absl::Status RestartCount() const;
  // The work is over, and the process was not.
  absl::Status RemoveCount() const;

  // Why work ended, durably. RemoveEnd() lets it go on.
  absl::Status WriteEnd(const absl::Status& why) const;
  absl::StatusOr<absl::Status> End() const;
  absl::Status RemoveEnd() const;

  // Of a partition that is done. Files in ascending order of paths.
  absl::StatusOr<PartitionReport> Report() const;
  absl::StatusOr<std::vector<PartitionJobFile>> Files() const;
  // Bytes [offset, offset + max_bytes) of a file, as far as it has them. NOT_FOUND for a path that
  // is none of Files(); OUT_OF_RANGE if the offset is beyond the end.
  absl::StatusOr<PartitionBytes> Read(absl::string_view file, uint64_t offset,
                                      uint64_t max_bytes) const;

  // Of all that is there, also of work that is not done.
  uint64_t NumBytes() const;

  // Frees the name at once, durably, and gives the folder that is left to remove.
  absl::StatusOr<std::string> MoveAway() const;

 private:
  const std::string partitions_;
  const std::string graph_;
  const std::string name_;
  const std::string path_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PARTITION_JOBS_PARTITION_FOLDER_H_
