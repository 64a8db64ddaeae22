// Rows in the order of new ids, back in the order of the original graph.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_RESTORE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_RESTORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

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

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_RESTORE_H_
