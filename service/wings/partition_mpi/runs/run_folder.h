// The folder of a partition that several ranks make, until it is whole.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_RUN_FOLDER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_RUN_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition/jobs/partition_report.h"
#include "service/wings/partition_mpi/shares/shared_ids.h"

namespace packhouse {

// Besides the parts it holds, until it is published: plan.json, what the work is; assigned.R.npy,
// the parts of rank R's nodes, and assigned.json, which is there once all of those are; partP.json
// for each part that is whole. Each function is for one rank; who calls it is said.
class RunFolder {
 public:
  explicit RunFolder(std::string output);

  const std::string& partial() const { return partial_; }

  // Rank 0. Makes the folder, or keeps what is there if it is of the same words and `keep`.
  // ALREADY_EXISTS if the output is there.
  absl::Status Begin(const std::string& words, bool keep) const;

  // Each rank: its share of the assignment, `count` numbers; nullopt if it is not there.
  std::optional<std::vector<uint32_t>> KeptShare(uint32_t rank, uint64_t count) const;
  absl::Status KeepShare(uint32_t rank, absl::Span<const uint32_t> finest) const;
  // Rank 0.
  absl::Status KeepDescription(const Assignment& description) const;
  // Any rank: that of all, once every share is there.
  absl::StatusOr<Assignment> KeptDescription() const;

  // Rank 0: the parts that are whole.
  absl::btree_map<uint32_t, ReportedPart> WholeParts(uint32_t num_parts) const;
  // The rank that has a part: before its files are written, and after.
  absl::Status BeginPart(uint32_t part) const;
  absl::Status EndPart(uint32_t part, const ReportedPart& report) const;

  // Rank 0, once: makes the folders of WriteMapping() and WriteAssignment().
  absl::Status MakeFolders(bool mapping, bool assignment) const;
  // One rank for each type, once all parts are whole: mapping/nodes/TYPE.npy, mapping/edges/...
  absl::Status WriteNodeMapping(const SharedIds& ids, size_t type) const;
  absl::Status WriteEdgeMapping(const SharedIds& ids, size_t type) const;
  // Rank 0: assignment/TYPE.txt, from the shares of all ranks.
  absl::Status WriteAssignment(const SharedIds& ids, uint32_t trainers_per_machine) const;

  // Rank 0, last: from here on the folder is whole.
  absl::Status Publish(const SharedIds& ids, const PartitionPlan& plan, const std::string& method,
                       const std::string& report, uint32_t num_ranks) const;

 private:
  std::string SharePath(uint32_t rank) const;
  std::string PartReportPath(uint32_t part) const;
  absl::Status WriteMapping(const SharedIds& ids, const std::vector<IdRange>& ranges, bool nodes,
                            const std::string& path) const;

  const std::string output_;
  const std::string partial_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_RUN_FOLDER_H_
