// Partitions: wire to domain and back. Errors as in wire_sizes.h, unless said otherwise.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_WIRE_PARTITIONS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_WIRE_PARTITIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "packhouse/v1/partitioning.pb.h"
#include "service/wings/partition/jobs/partition_jobs.h"

namespace packhouse {

// With defaults filled in. What depends on the graph is checked by PartitionJobs.
absl::StatusOr<PartitionPlan> PartitionPlanFromWire(const v1::PartitionRequest& wire);

void PartitionJobToWire(const PartitionJobInfo& info, v1::PartitionJob& wire);

// The bytes that one response may have: what is asked for, at most 4 MiB, and no more than
// messages of `max_response_bytes` can take.
uint64_t PartitionFileBytes(uint64_t asked_for, uint64_t max_response_bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_WIRE_PARTITIONS_H_
