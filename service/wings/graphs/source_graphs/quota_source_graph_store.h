// A store whose namespaces have quotas (access/policy.h).
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_QUOTA_SOURCE_GRAPH_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_QUOTA_SOURCE_GRAPH_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/policy.h"
#include "service/stores/limits/disk_quota.h"
#include "service/wings/graphs/source_graphs/source_graphs_over.h"

namespace packhouse {

// Refuses what would exceed a quota with RESOURCE_EXHAUSTED, naming the namespace, the quota, its
// bound and the value; everything else is the other store's. Sealing is not refused, though it
// takes more of the disk for a while. To count is O(source graphs). Thread-safe.
class QuotaSourceGraphStore final : public SourceGraphsOver {
 public:
  // The store and the disk's quota must outlive this; the quota counts this store's bytes too.
  QuotaSourceGraphStore(SourceGraphStore* store, QuotasOf quotas_of, DiskQuota* disk);

  absl::StatusOr<SourceGraphInfo> Create(absl::string_view name, const SourceGraphSchema& schema,
                                         const SourceGraphOptions& options) override;
  absl::StatusOr<SourceAppendResult> Append(
      const Target& target, const SourceGraphChunk& chunk,
      const std::optional<ProducerSequence>& producer) override;

  struct Use {
    uint64_t graphs = 0;
    uint64_t bytes = 0;
  };
  // Of all namespaces that have any. O(source graphs).
  absl::StatusOr<std::map<std::string, Use>> CountAll() const;

 private:
  absl::StatusOr<Use> Count(absl::string_view where) const;

  const QuotasOf quotas_of_;
  DiskQuota* const disk_;
  // One creation after another, so that two do not take the same last place.
  absl::Mutex creating_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_QUOTA_SOURCE_GRAPH_STORE_H_
