// Original ids of a partition that was made without them.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ORIGINAL_IDS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ORIGINAL_IDS_H_

#include <string>

#include "absl/status/status.h"

namespace packhouse {

// Writes part<p>/orig_nids.dgl and part<p>/orig_eids.dgl into the folder of a partition, as
// PartitionPlan::original_ids has them written: the same bytes. They must not be there. `name` is
// that of the JSON file.
//
// Errors, naming the file: NOT_FOUND; INVALID_ARGUMENT or DATA_LOSS for what is no partition with
// orig_id; those of the disk.
absl::Status AddOriginalIds(const std::string& folder, const std::string& name);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_ORIGINAL_IDS_H_
