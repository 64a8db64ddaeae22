// What a server has of partitions: the jobs, and their service.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_PARTITION_SERVER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_PARTITION_SERVER_H_

#include "service/server/services/server_wing.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/jobs/partition_jobs.h"

namespace packhouse::rpc {

// For ServerOptions::wings. The pointees must outlive the server. `graphs` may be null, or servers
// may share their jobs and not what belongs to graphs: then there are no partitions, and all calls
// say so. `engine` calls METIS; null: it cannot be called. Of `options`, the quota is the server's.
MakeServerWing ServePartitions(SourceGraphStore* graphs, AssignmentEngine* engine,
                               PartitionJobs::Options options = {});

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_PARTITION_SERVER_H_
