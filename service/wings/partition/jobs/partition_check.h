// Whether the partitions of a source graph are as they were written.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_CHECK_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "service/base/stored_damage.h"

namespace packhouse {

// Of a graph that no server has open. Reads everything; changes nothing. What is left of
// partitions that were being made or deleted is no damage. Nothing if the companion folder is
// missing.
void CheckPartitions(const std::string& graph, const std::string& companion, DamageVisitor found);

// Writes the list of partitions anew, of those that are there; calls `missing` for each that was in
// it and is not, or for the list itself if it is damaged. Does nothing if there is none. Errors of
// the disk.
absl::Status AcceptMissingPartitions(const std::string& graph, const std::string& companion,
                                     DamageVisitor missing);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_CHECK_H_
