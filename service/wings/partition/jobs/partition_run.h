// Makes a partition: from a source graph to a folder of files that is whole.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_RUN_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition/jobs/partition_report.h"

namespace packhouse {

enum class RunPhase { kReading, kAssigning, kRefining, kNumbering, kWriting };

// Each may be empty. Called often, from the thread that works.
struct RunWatch {
  std::function<bool()> cancelled;
  // `share` of all work that is done, in [0, 1]; it never falls.
  std::function<void(RunPhase phase, double share)> progress;
  // Told when something is on the disk that need not be done again: the assignment, a part.
  std::function<void()> kept;
  // Asked between parts, once this call has written one. If it is true, the work ends with ABORTED;
  // the next call goes on from there.
  std::function<bool()> gives_way;
  // May be empty, too. Told the bytes that the partition has on the disk so far: after each part,
  // and after each file of the assignment and the mapping. An error ends the work.
  std::function<absl::Status(uint64_t num_bytes)> wrote;
  // May be empty, too. Called once all files are in `folder`, before it has its name. A file that
  // it writes there durably, but for its name, is one of the partition. An error ends the work.
  std::function<absl::Status(const std::string& folder)> whole;
};

// Parts that came from elsewhere: one a homogeneous node.
struct GivenParts {
  std::vector<uint32_t> part;
  std::string reason;
};

// Of a folder without files of parts: the part of each homogeneous node, uint32.
inline constexpr char kPartsOfNodesFile[] = "/parts.npy";

// Where the work lies until it is whole: `folder` + ".partial".
std::string PartialFolder(const std::string& folder);

// Writes NAME.json, report.json and the parts. The folder appears at once when everything is on the
// disk; until then there is PartialFolder(folder), which nobody takes for a partition. If that
// is there from the same graph and plan, the work goes on from its assignment and the parts that
// are whole; from another one, it is removed first.
//
// The same graph, plan and engine give the same bytes, whether or not the work was interrupted.
// Nothing but files is kept: after an error, and after a crash at any time, call it again.
//
// Errors: ALREADY_EXISTS if the folder is there; INVALID_ARGUMENT as CheckPartitionPlan and
// CheckPartitionOptions; NOT_FOUND naming a set or column; CANCELLED and ABORTED by `watch`; those
// of AssignParts and of the disk. Memory: as AssignParts, then 8 bytes for each node and 8 for each
// edge type that ends at it, and twice the arrays of one part.
absl::StatusOr<PartitionReport> RunPartition(const SourceGraph& graph, const PartitionPlan& plan,
                                             const std::string& folder, AssignmentEngine* engine,
                                             const RunWatch& watch,
                                             const std::optional<GivenParts>& given = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_RUN_H_
