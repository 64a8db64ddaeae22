// PartitioningService (proto/packhouse/v1/partitioning.proto).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_PARTITIONING_SERVICE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_PARTITIONING_SERVICE_H_

#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/partition/jobs/partition_jobs.h"

namespace packhouse::rpc {

// All calls are on the append pool, since they wait for the disk, or for what servers share.
// Thread-safe.
class PartitioningService final : public EarlyService {
 public:
  // The pointees must outlive the service. Without partitions or data sets every call that needs
  // them is FAILED_PRECONDITION.
  PartitioningService(const CallContext& context, PartitionJobs* partitions,
                      DatasetStore* datasets);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_PARTITIONING_SERVICE_H_
