#include "service/stores/datasets/quota_dataset_store.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/all_listed.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// About what it takes on the disk.
uint64_t BytesOfChunk(const GraphChunk& chunk) {
  return chunk.num_bytes() +
         chunk.num_graphs() *
             (sizeof(uint64_t) + chunk.sizes().num_components() * sizeof(uint32_t));
}

}  // namespace

QuotaDatasetStore::QuotaDatasetStore(DatasetStore* store, QuotasOf quotas_of, DiskQuota* disk)
    : ForwardingDatasetStore(store), quotas_of_(std::move(quotas_of)), disk_(disk) {
  disk_->Add([this](absl::string_view where) -> absl::StatusOr<uint64_t> {
    PH_ASSIGN_OR_RETURN(const Use use, Count(where));
    return use.bytes;
  });
}

absl::StatusOr<DatasetInfo> QuotaDatasetStore::Create(absl::string_view name,
                                                      const GraphSchema& schema,
                                                      const DatasetOptions& options) {
  const absl::string_view where = NamespaceOf(name);
  const Quotas quotas = quotas_of_(where);
  if (!quotas.datasets) return store()->Create(name, schema, options);
  absl::MutexLock lock(&creating_);
  PH_ASSIGN_OR_RETURN(const Use use, Count(where));
  if (use.datasets >= *quotas.datasets) {
    // Whoever creates it again, as a retry does, hears that it is there.
    const absl::StatusOr<DatasetInfo> there = store()->Get(name);
    if (there.ok()) return store()->Create(name, schema, options);
    return BeyondQuota(where, "datasets", use.datasets + 1, *quotas.datasets);
  }
  return store()->Create(name, schema, options);
}

absl::StatusOr<AppendResult> QuotaDatasetStore::AppendTo(
    const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  PH_ASSIGN_OR_RETURN(const DiskQuota::Hold hold,
                      disk_->Take(NamespaceOf(target.name), BytesOfChunk(chunk)));
  return store()->AppendTo(target, chunk, group_ids, producer);
}

absl::StatusOr<QuotaDatasetStore::Use> QuotaDatasetStore::Count(absl::string_view where) const {
  Use use;
  // Names are in ascending order. Those of "default" have no common beginning.
  const std::string prefix = where == kDefaultNamespace ? "" : absl::StrCat(where, "/");
  std::string after = prefix;
  do {
    PH_ASSIGN_OR_RETURN(const DatasetList list, store()->List(kMaxPageSize, after));
    after = list.next_page_token;
    for (const DatasetInfo& info : list.datasets) {
      if (!absl::StartsWith(info.name, prefix)) return use;
      if (NamespaceOf(info.name) != where) continue;
      ++use.datasets;
      use.bytes += info.num_bytes;
    }
  } while (!after.empty());
  return use;
}

absl::StatusOr<std::map<std::string, QuotaDatasetStore::Use>> QuotaDatasetStore::CountAll() const {
  std::map<std::string, Use> uses;
  PH_RETURN_IF_ERROR(
      ForAllListed(*store(), &DatasetList::datasets, [&uses](const DatasetInfo& info) {
        Use& use = uses[std::string(NamespaceOf(info.name))];
        ++use.datasets;
        use.bytes += info.num_bytes;
      }));
  return uses;
}

}  // namespace packhouse
