#include "service/wings/graphs/source_graphs/quota_source_graph_store.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/base/all_listed.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

uint64_t BytesOfIds(const SourceIdRows& ids) { return ids.data.size() + ids.lengths.size(); }

uint64_t BytesOfColumns(const std::vector<SourceColumnRows>& columns) {
  uint64_t bytes = 0;
  for (const SourceColumnRows& column : columns)
    bytes += column.data.size() + column.lengths.size();
  return bytes;
}

// About what it takes on the disk.
uint64_t BytesOfRows(const SourceGraphChunk& chunk) {
  uint64_t bytes = 0;
  for (const SourceNodeRows& rows : chunk.nodes) {
    bytes += BytesOfIds(rows.ids) + BytesOfColumns(rows.columns);
  }
  for (const SourceEdgeRows& rows : chunk.edges) {
    bytes += BytesOfIds(rows.sources) + BytesOfIds(rows.targets) + BytesOfColumns(rows.columns);
  }
  return bytes;
}

}  // namespace

QuotaSourceGraphStore::QuotaSourceGraphStore(SourceGraphStore* store, QuotasOf quotas_of,
                                             DiskQuota* disk)
    : SourceGraphsOver(store), quotas_of_(std::move(quotas_of)), disk_(disk) {
  disk_->Add([this](absl::string_view where) -> absl::StatusOr<uint64_t> {
    PH_ASSIGN_OR_RETURN(const Use use, Count(where));
    return use.bytes;
  });
}

absl::StatusOr<SourceGraphInfo> QuotaSourceGraphStore::Create(absl::string_view name,
                                                              const SourceGraphSchema& schema,
                                                              const SourceGraphOptions& options) {
  const absl::string_view where = NamespaceOf(name);
  const std::optional<uint64_t> most = quotas_of_(where).source_graphs;
  if (!most) return store_->Create(name, schema, options);
  absl::MutexLock lock(&creating_);
  PH_ASSIGN_OR_RETURN(const Use use, Count(where));
  // Whoever creates it again, as a retry does, hears that it is there.
  if (use.graphs >= *most && !store_->Get(name).ok()) {
    return BeyondQuota(where, "source_graphs", use.graphs + 1, *most);
  }
  return store_->Create(name, schema, options);
}

absl::StatusOr<SourceAppendResult> QuotaSourceGraphStore::Append(
    const Target& target, const SourceGraphChunk& chunk,
    const std::optional<ProducerSequence>& producer) {
  PH_ASSIGN_OR_RETURN(const DiskQuota::Hold hold,
                      disk_->Take(NamespaceOf(target.name), BytesOfRows(chunk)));
  return store_->Append(target, chunk, producer);
}

absl::StatusOr<std::map<std::string, QuotaSourceGraphStore::Use>> QuotaSourceGraphStore::CountAll()
    const {
  std::map<std::string, Use> uses;
  PH_RETURN_IF_ERROR(
      ForAllListed(*store_, &SourceGraphList::graphs, [&uses](const SourceGraphInfo& info) {
        Use& use = uses[std::string(NamespaceOf(info.name))];
        ++use.graphs;
        use.bytes += info.num_bytes;
      }));
  return uses;
}

absl::StatusOr<QuotaSourceGraphStore::Use> QuotaSourceGraphStore::Count(
    absl::string_view where) const {
  PH_ASSIGN_OR_RETURN(const auto uses, CountAll());
  const auto found = uses.find(std::string(where));
  return found == uses.end() ? Use() : found->second;
}

}  // namespace packhouse
