#include "service/datasets/quota_dataset_store.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status BeyondQuota(absl::string_view where, absl::string_view quota, uint64_t value,
                         uint64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat("namespace '", where, "': the quota '", quota,
                                                   "' is ", most, ", it would become ", value));
}

// About what it takes on the disk.
uint64_t BytesOfChunk(const GraphChunk& chunk) {
  return chunk.num_bytes() +
         chunk.num_graphs() *
             (sizeof(uint64_t) + chunk.sizes().num_components() * sizeof(uint32_t));
}

}  // namespace

absl::StatusOr<DatasetInfo> QuotaDatasetStore::Create(absl::string_view name,
                                                      const GraphSchema& schema,
                                                      const DatasetOptions& options) {
  const absl::string_view where = NamespaceOf(name);
  const Quotas quotas = quotas_of_(where);
  if (!quotas.datasets) return store_->Create(name, schema, options);
  absl::MutexLock lock(&creating_);
  PH_ASSIGN_OR_RETURN(const Use use, Count(where));
  if (use.datasets >= *quotas.datasets) {
    // Whoever creates it again, as a retry does, hears that it is there.
    const absl::StatusOr<DatasetInfo> there = store_->Get(name);
    if (there.ok()) return store_->Create(name, schema, options);
    return BeyondQuota(where, "datasets", use.datasets + 1, *quotas.datasets);
  }
  return store_->Create(name, schema, options);
}

absl::StatusOr<AppendResult> QuotaDatasetStore::AppendTo(
    const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  const absl::string_view where = NamespaceOf(target.name);
  if (const Quotas quotas = quotas_of_(where); quotas.disk_bytes) {
    PH_RETURN_IF_ERROR(TakeBytes(where, BytesOfChunk(chunk), *quotas.disk_bytes));
  }
  return store_->AppendTo(target, chunk, group_ids, producer);
}

absl::StatusOr<QuotaDatasetStore::Use> QuotaDatasetStore::Count(absl::string_view where) const {
  Use use;
  // Names are in ascending order. Those of "default" have no common beginning.
  const std::string prefix = where == kDefaultNamespace ? "" : absl::StrCat(where, "/");
  std::string after = prefix;
  do {
    PH_ASSIGN_OR_RETURN(const DatasetList list, store_->List(kMaxPageSize, after));
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

absl::Status QuotaDatasetStore::TakeBytes(absl::string_view where, uint64_t bytes, uint64_t most) {
  const auto take = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = bytes_.find(where);
    if (found == bytes_.end() || found->second > most || bytes > most - found->second) return false;
    found->second += bytes;
    return true;
  };
  {
    absl::MutexLock lock(&mutex_);
    if (take()) return absl::OkStatus();
  }
  PH_ASSIGN_OR_RETURN(const Use use, Count(where));
  absl::MutexLock lock(&mutex_);
  bytes_[std::string(where)] = use.bytes;
  if (take()) return absl::OkStatus();
  return BeyondQuota(where, "disk_bytes", use.bytes + bytes, most);
}

}  // namespace packhouse
