#include "service/server/services/quota_use.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace packhouse::rpc {
namespace {

// `used` for the namespaces of the policy that have such a quota.
template <typename Used>
void AddQuota(const std::string& where, absl::string_view quota, const auto& limit, Used used,
              std::vector<QuotaReading>& readings) {
  if (!limit) return;
  readings.push_back(
      {where, std::string(quota), static_cast<double>(used()), static_cast<double>(*limit)});
}

template <typename Uses>
auto UseIn(const Uses& uses, const std::string& where) -> typename Uses::mapped_type {
  const auto found = uses.find(where);
  return found == uses.end() ? typename Uses::mapped_type() : found->second;
}

}  // namespace

QuotasOf QuotasOfPolicy(const Authorizer* authorizer) {
  if (authorizer == nullptr) return nullptr;
  return [authorizer](absl::string_view where) { return authorizer->policy()->QuotasOf(where); };
}

std::vector<QuotaReading> ReadQuotas(const QuotaSources& sources) {
  if (sources.authorizer == nullptr) return {};
  const std::shared_ptr<const Policy> policy = sources.authorizer->policy();
  // A store that cannot be read has other alarms; here it counts for nothing.
  std::map<std::string, QuotaDatasetStore::Use> datasets;
  if (sources.datasets != nullptr) datasets = sources.datasets->CountAll().value_or(datasets);
  const std::map<std::string, uint64_t> histograms = sources.histograms->CountByNamespace();
  const std::map<std::string, uint64_t> epochs = sources.jobs->EpochsByNamespace();
  const std::map<std::string, Quotas> by_name(policy->quotas().begin(), policy->quotas().end());
  std::map<std::string, ServerWing::Use> of_wings;
  for (const auto& [where, quotas] : by_name) of_wings.try_emplace(where);
  for (const auto& wing : *sources.wings) wing->CountUses(of_wings);
  std::vector<QuotaReading> readings;
  for (const auto& [where, quotas] : by_name) {
    const auto& name = where;
    AddQuota(
        name, "disk_bytes", quotas.disk_bytes,
        [&] { return UseIn(datasets, name).bytes + UseIn(of_wings, name).disk_bytes; }, readings);
    AddQuota(
        name, "datasets", quotas.datasets, [&] { return UseIn(datasets, name).datasets; },
        readings);
    AddQuota(
        name, "source_graphs", quotas.source_graphs,
        [&] { return UseIn(of_wings, name).source_graphs; }, readings);
    AddQuota(
        name, "histograms", quotas.histograms, [&] { return UseIn(histograms, name); }, readings);
    AddQuota(
        name, "epochs", quotas.epochs, [&] { return UseIn(epochs, name); }, readings);
    AddQuota(
        name, "streams", quotas.streams, [&] { return sources.authorizer->StreamsIn(name); },
        readings);
    AddQuota(
        name, "pending_bytes", quotas.pending_bytes, [&] { return sources.pending->HeldIn(name); },
        readings);
    AddQuota(
        name, "planning", quotas.planning, [&] { return sources.planning->ShareOf(name); },
        readings);
    if (readings.size() >= kMostQuotaReadings) break;
  }
  readings.resize(std::min(readings.size(), kMostQuotaReadings));
  return readings;
}

}  // namespace packhouse::rpc
