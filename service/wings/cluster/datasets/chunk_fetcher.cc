#include "service/wings/cluster/datasets/chunk_fetcher.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/caller.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_values.h"
#include "service/wings/cluster/datasets/helping_threads.h"

namespace packhouse {

absl::StatusOr<std::shared_ptr<const MappedObject>> FetchObject(const ObjectEngines& engines,
                                                                ChunkCache& cache,
                                                                absl::string_view key,
                                                                const ChunkCache::Object& object,
                                                                bool cached) {
  const auto fetch = [&](ObjectSink sink) {
    return engines.objects->Get(key, {0, object.num_bytes}, sink, engines.Deadline());
  };
  for (int transfers = 1;; ++transfers) {
    auto map = cached ? cache.Pin(object, fetch) : cache.FetchUncached(object, fetch);
    if (map.ok()) return map;
    // Other bytes than were written: on the way, or in the store for good.
    if (!absl::IsDataLoss(map.status()) || transfers >= engines.max_transfers) {
      return AsUnavailable(map.status());
    }
    PH_RETURN_IF_ERROR(BeginWait());
    engines.BackOff(transfers - 1);
  }
}

absl::Status ChunkFetcher::Explained(const DatasetHead& head, const absl::Status& status) const {
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  const auto now = ReadHead(engines_, head.name);
  // Not known as long as nobody can say whether the data set is there.
  if (!now.ok() && !absl::IsNotFound(now.status())) return now.status();
  if (!now.ok() || now->id() != head.id()) return NoSuchObjectDataset(head.name);
  return absl::DataLossError(status.message());
}

absl::StatusOr<std::shared_ptr<const MappedObject>> ChunkFetcher::Fetch(const DatasetHead& head,
                                                                        const ObjectChunk& chunk,
                                                                        bool cached) const {
  const ChunkCache::Object object = {absl::StrCat(absl::Hex(head.id(), absl::kZeroPad16), "-",
                                                  absl::Hex(chunk.object, absl::kZeroPad16)),
                                     chunk.num_bytes, chunk.crc};
  return FetchObject(engines_, *cache_, ChunkObject(head.id(), chunk.object), object, cached);
}

absl::StatusOr<FetchedChunks> ChunkFetcher::FetchAll(const DatasetHead& head,
                                                     absl::Span<const ObjectChunk* const> chunks,
                                                     bool is_part) const {
  FetchedChunks fetched;
  StoredDataset& dataset = fetched.dataset;
  dataset.id = head.id();
  PH_ASSIGN_OR_RETURN(dataset.info, InfoOfHead(head));
  using Maps = std::vector<absl::StatusOr<std::shared_ptr<const MappedObject>>>;
  auto maps = std::make_shared<Maps>(chunks.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> has_failed = false;
  const auto work = [&] {
    for (size_t i = next++; i < chunks.size() && !has_failed; i = next++) {
      auto& map = (*maps)[i];
      if (!RunWithinMemory([&] { map = Fetch(head, *chunks[i], /*cached=*/true); })) {
        map = OutOfMemory();
      }
      const absl::Status& status = map.status();
      if (!status.ok() && !absl::IsNotFound(status) && !absl::IsDataLoss(status)) {
        has_failed = true;
      }
    }
  };
  WorkTogether(std::min(at_once_, chunks.size()), work);
  // What was not fetched because another fetch failed is UNKNOWN, the value of an empty StatusOr.
  const auto is_lost = [](const absl::Status& status) {
    return absl::IsNotFound(status) || absl::IsDataLoss(status);
  };
  for (size_t i = 0; has_failed && i < chunks.size(); ++i) {
    const absl::Status& status = (*maps)[i].status();
    if (status.ok() || is_lost(status) || absl::IsUnknown(status)) continue;
    return absl::Status(status.code(),
                        absl::StrCat("data set '", head.name, "': ", status.message()));
  }
  for (size_t i = 0; i < chunks.size(); ++i) {
    const absl::Status& status = (*maps)[i].status();
    if (!status.ok()) {
      // Lost, unless the data set was deleted.
      const absl::Status why = Explained(head, status);
      if (!absl::IsDataLoss(why)) return why;
    }
    uint64_t first_of_all = chunks[i]->first_graph;
    for (const ObjectChunk::Record& record : chunks[i]->records) {
      const absl::string_view bytes =
          status.ok() ? (*(*maps)[i])->bytes().substr(record.offset, record.num_bytes) : "";
      const uint64_t first = dataset.records.empty() ? 0 : dataset.records.back().end_graph;
      dataset.AddExact(first + record.num_graphs, chunks[i]->TagOf(record), bytes);
      if (is_part) dataset.records.back().first_of_all = first_of_all;
      first_of_all += record.num_graphs;
    }
  }
  if (is_part) {
    dataset.info.num_graphs = dataset.records.empty() ? 0 : dataset.records.back().end_graph;
    dataset.info.num_records = dataset.records.size();
  }
  fetched.owner = std::move(maps);
  return fetched;
}

}  // namespace packhouse
