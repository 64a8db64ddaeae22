// The folder that a partition of a server has beside its source graph: what was asked for, what
// came of it, and its files.
//
// partitions/NAME in the graph's companion folder has `state` from the beginning: what was asked
// for, by whom, and how it ended; files/ once the partition is whole; `starts` while a process
// works at it. Beside the folders there is the list of their names (partition_list.h).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_FOLDER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/wings/graphs/source_graphs/shared_companions.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/partition/jobs/partition_contents.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition/jobs/partition_report.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "service/wings/partition/jobs/partition_state.h"

namespace packhouse {

struct PartitionBytes {
  std::string data;
  uint64_t num_bytes = 0;  // Of the whole file.
};

// How far work is.
struct PartitionProgress {
  RunPhase phase = RunPhase::kReading;
  double share_done = 0;
  std::optional<absl::Duration> rest;  // If nothing changes; empty if it is not known.
};

// What is known of work that goes on at another server.
struct PartitionWorkElsewhere {
  std::string server;
  bool lives = true;                          // Whether that server is there.
  std::optional<PartitionProgress> progress;  // Empty: it waits.
};

// Thread-compatible, as the disk is. Errors besides those named: UNAVAILABLE and RESOURCE_EXHAUSTED
// of the disk, DATA_LOSS naming a file that is damaged or missing. What changes something durably
// has one of the three outcomes of disk_file.h. Changes of the list come one after the other:
// Settle(), Create() and MoveAway() of all partitions of a graph.
class PartitionFolder {
 public:
  PartitionFolder(const StoredSourceGraph& graph, absl::string_view name)
      : PartitionFolder(graph.companion_folder(), graph.info().name, graph.version(), name) {}
  virtual ~PartitionFolder() = default;

  // Of all partitions of the graph: those that must be there and those that are.
  virtual absl::StatusOr<PartitionList> Names() const;
  // Removes what was begun or deleted when an earlier process ended.
  static void RemoveRemains(const std::string& companion);

  const std::string& graph() const { return graph_; }
  uint64_t graph_version() const { return graph_version_; }
  const std::string& path() const { return path_; }
  // Where the files are, or will be.
  std::string files() const;
  bool has_files() const;
  // Of what State() has found.
  virtual bool is_done() const { return has_files(); }
  // Whether anybody works at it, if it has not ended.
  virtual absl::Status CheckIsListed() const { return Names().status(); }
  // Of a partition that is not done and has not ended; unset: if anybody does, this process works
  // at it. Of what State() has found.
  virtual std::optional<PartitionWorkElsewhere> work_elsewhere() const { return std::nullopt; }

  // What can be seen of it is durable, and it is listed: before anything goes on from a change
  // whose outcome was unknown, in this process or an earlier one.
  virtual absl::Status Settle() const;

  // Durably: the folder with its plan and its owner appears at once; then it is listed. If that
  // fails the outcome is unknown.
  virtual absl::Status Create(const PartitionPlan& plan, const ClientId& owner) const;
  // NOT_FOUND; DATA_LOSS also if it was whole, and has no files.
  virtual absl::StatusOr<PartitionState> State() const;

  // To be called when work begins: how many times before it had begun, kept nothing that was new,
  // and ended with its process. Durable, so that what ends the process now is counted the next
  // time.
  absl::StatusOr<uint64_t> CountStart() const;
  // The work has kept something new: the counting begins anew.
  absl::Status RestartCount() const;
  // The work is over, and the process was not.
  absl::Status RemoveCount() const;

  // How work ended, durably: OK once the files are there. RemoveEnd() lets it go on.
  virtual absl::Status WriteEnd(const absl::Status& how) const;
  virtual absl::Status RemoveEnd() const;

  // To be called for work that is whole, before `folder` has its name: notes its files in it.
  // CANCELLED as ReadPartitionContents(). Reads all files.
  absl::Status NoteFiles(const std::string& folder, absl::FunctionRef<bool()> goes_on) const;

  // Whether the graph is that of the partition; another one may have its name.
  virtual bool IsOf(const StoredSourceGraph& /*graph*/) const { return true; }
  // Whether the work is still this process'. Called now and then, by the thread that works.
  virtual bool IsStillOurs(const PartitionProgress& /*progress*/) const { return true; }
  // To be called when all files are there: whoever asks finds them from then on. CANCELLED if
  // `goes_on` says no, or the work is not this process' any more.
  virtual absl::Status Publish(absl::FunctionRef<bool()> /*goes_on*/) const {
    return absl::OkStatus();
  }

  // Of a partition that is done. DATA_LOSS also if a file is missing, or has another length.
  virtual absl::StatusOr<PartitionReport> Report() const;
  // In ascending order of paths. O(files).
  virtual absl::StatusOr<std::vector<PartitionJobFile>> Files() const;
  // Bytes [offset, offset + max_bytes) of a file, as far as it has them. NOT_FOUND for a path that
  // is none of Files(); OUT_OF_RANGE if the offset is beyond the end. O(files).
  virtual absl::StatusOr<PartitionBytes> Read(absl::string_view file, uint64_t offset,
                                              uint64_t max_bytes) const;
  // All of a file of Files(), in memory.
  virtual absl::StatusOr<OwnedBytes> Map(absl::string_view file) const;

  // Of all that is there, also of work that is not done.
  uint64_t NumBytes() const;

  // Takes it off the list, frees the name at once, durably, and gives the folder that is left to
  // remove; "" if it was missing.
  virtual absl::StatusOr<std::string> MoveAway() const;

 protected:
  PartitionFolder(std::string companion, std::string graph, uint64_t graph_version,
                  absl::string_view name);

  const std::string& companion() const { return companion_; }
  const std::string& name() const { return name_; }
  bool exists() const;
  absl::StatusOr<PartitionContents> Contents() const;
  // DATA_LOSS for its file, named by its path below its folder. Shows no path of the server.
  absl::Status Damaged(absl::string_view file, absl::string_view what) const;
  static absl::Status BeyondEnd(absl::string_view file, uint64_t offset, uint64_t num_bytes);

 private:
  absl::StatusOr<PartitionList> List() const;
  absl::Status Enlist() const;
  absl::Status WriteState(const PartitionState& state, absl::string_view why) const;

  const std::string companion_;
  const std::string partitions_;
  const std::string graph_;
  const uint64_t graph_version_;
  const std::string name_;
  const std::string path_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_FOLDER_H_
