// What the namespaces of a policy use of their quotas.
#ifndef PACKHOUSE_SERVICE_RPC_QUOTA_USE_H_
#define PACKHOUSE_SERVICE_RPC_QUOTA_USE_H_

#include <cstddef>
#include <vector>

#include "service/admission/authorizer.h"
#include "service/admission/planning_pool.h"
#include "service/admission/policy.h"
#include "service/datasets/quota_dataset_store.h"
#include "service/histograms/histogram_store.h"
#include "service/partition_jobs/partition_jobs.h"
#include "service/rpc/served_jobs.h"
#include "service/source_graphs/quota_source_graph_store.h"
#include "service/streams/namespace_bytes.h"

namespace packhouse::rpc {

// Null without an authorizer.
QuotasOf QuotasOfPolicy(const Authorizer* authorizer);

// Who counts what.
struct QuotaSources {
  const Authorizer* authorizer = nullptr;                // Null: there is no policy.
  const QuotaDatasetStore* datasets = nullptr;           // May be null.
  const QuotaSourceGraphStore* source_graphs = nullptr;  // May be null.
  const PartitionJobs* partitions = nullptr;             // May be null.
  const HistogramStore* histograms = nullptr;
  const ServedJobs* jobs = nullptr;
  const NamespaceBytes* pending = nullptr;
  const PlanningPool* planning = nullptr;
};

// By namespace, at most kMostQuotaReadings. May wait for the disk.
inline constexpr size_t kMostQuotaReadings = 1000;
std::vector<QuotaReading> ReadQuotas(const QuotaSources& sources);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_QUOTA_USE_H_
