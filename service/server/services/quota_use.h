// What the namespaces of a policy use of their quotas.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_QUOTA_USE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_QUOTA_USE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "service/access/authorizer.h"
#include "service/access/planning_pool.h"
#include "service/access/policy.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/namespace_bytes.h"
#include "service/server/services/served_jobs.h"
#include "service/server/services/server_wing.h"
#include "service/stores/datasets/quota_dataset_store.h"

namespace packhouse::rpc {

// Null without an authorizer.
QuotasOf QuotasOfPolicy(const Authorizer* authorizer);

// Who counts what.
struct QuotaSources {
  const Authorizer* authorizer = nullptr;       // Null: there is no policy.
  const QuotaDatasetStore* datasets = nullptr;  // May be null.
  const std::vector<std::unique_ptr<ServerWing>>* wings = nullptr;
  const HistogramStore* histograms = nullptr;
  const ServedJobs* jobs = nullptr;
  const NamespaceBytes* pending = nullptr;
  const PlanningPool* planning = nullptr;
};

// By namespace, at most kMostQuotaReadings. May wait for the disk.
inline constexpr size_t kMostQuotaReadings = 1000;
std::vector<QuotaReading> ReadQuotas(const QuotaSources& sources);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_QUOTA_USE_H_
