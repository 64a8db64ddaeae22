// Back from the new ids of a partition to the original graph: ids, and rows in its order.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ORIGINAL_ORDER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ORIGINAL_ORDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// Writes part<p>/orig_nids.dgl and part<p>/orig_eids.dgl into the folder of a partition, as
// PartitionPlan::original_ids has them written: the same bytes. They must not be there. `name` is
// that of the JSON file.
//
// Errors, naming the file: NOT_FOUND; INVALID_ARGUMENT or DATA_LOSS for what is no partition with
// orig_id; those of the disk.
absl::Status AddOriginalIds(const std::string& folder, const std::string& name);

struct RestoreRequest {
  // NAME.json of a partition as it was written here; its parts have orig_id.
  std::string json;
  // A node type, or an edge type source:relation:target. May be empty if there is one node type.
  std::string type;
  // .npy files with a row for each node or edge: one with all, in the order of new ids; or one a
  // part, in the order of parts; or with `part`, one with the rows of that part.
  std::vector<std::string> inputs;
  std::optional<uint64_t> part;
  std::string output;
};

// Writes `output`, a .npy file of the original order. With `part`, only the rows of that part are
// written; the file is made, with zeros elsewhere, if it is not there. Otherwise it must not be
// there, and appears when it is whole. Gives the number of rows.
//
// Errors: INVALID_ARGUMENT naming the file: not as many rows as nodes, other types or shapes, a
// type that the partition does not have; ALREADY_EXISTS for the output; DATA_LOSS for a part
// without orig_id, or whose ids are no permutation. Memory: a bit for each row; files are mapped.
absl::StatusOr<uint64_t> RestoreRows(const RestoreRequest& request);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ORIGINAL_ORDER_H_
