// Which partitions a source graph must have, in a file beside their folders: so that a partition
// whose folder was deleted is not taken for one that never was.
//
// It is one of checked_lines.h, `partition_list` in the graph's companion folder; each line is a
// name. It is there before the first partition. A partition is added once it is durable, before it
// is acknowledged, and taken out before it is deleted: what is listed must be there.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_LIST_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_LIST_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// All in the graph's companion folder.
inline constexpr char kPartitionListFile[] = "partition_list";
inline constexpr char kPartitionsFolder[] = "partitions";
// In the folder of each partition: what it is (partition_state.h).
inline constexpr char kPartitionStateFile[] = "state";

// Names of partitions.
using PartitionList = std::set<std::string>;

std::string EncodePartitionList(const PartitionList& list);
// DATA_LOSS unless EncodePartitionList() wrote the text.
absl::StatusOr<PartitionList> DecodePartitionList(absl::string_view text);

// Those whose folders are there, whether they are listed or not.
PartitionList PartitionsThere(const std::string& companion);

// Empty if no partition was ever asked for. DATA_LOSS, in words that follow the file's name, if it
// is damaged, or missing beside partitions or with the companion folder; errors of the disk.
absl::StatusOr<PartitionList> ReadPartitionList(const std::string& companion);
// The three outcomes of disk_file.h.
absl::Status WritePartitionList(const std::string& companion, const PartitionList& list);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_LIST_H_
