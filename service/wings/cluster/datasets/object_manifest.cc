#include "service/wings/cluster/datasets/object_manifest.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_read_ahead.h"

namespace packhouse {
namespace {

absl::Status OfDataset(absl::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("data set '", name, "': ", status.message()));
}

// Of a chunk's run: what must be read of its object.
uint64_t BytesToRead(const ObjectChunk& chunk) { return chunk.run.empty() ? chunk.run_bytes : 0; }

ObjectReadAhead::Part RunPart(const DatasetHead& head, const ObjectChunk& chunk) {
  return {ChunkObject(head.id(), chunk.object), chunk.run_offset};
}

// `read`: of the chunk's object.
absl::Status AddRunOf(const ObjectEngines& engines, const DatasetHead& head,
                      const ObjectChunk& chunk, absl::StatusOr<std::string> read,
                      SizeHistogram& histogram) {
  if (chunk.run.empty()) {
    read = CheckedPart(engines, ChunkObject(head.id(), chunk.object), chunk.run_offset,
                       chunk.run_bytes, chunk.run_crc, std::move(read));
  }
  if (!read.ok()) return read.status();
  const uint64_t before = histogram.num_graphs();
  PH_RETURN_IF_ERROR(AddRun(chunk.run.empty() ? *read : chunk.run, histogram));
  const uint64_t added = histogram.num_graphs() - before;
  if (added == chunk.num_graphs()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the histogram of the graphs from ", chunk.first_graph,
                                          " on counts ", added, ", there are ",
                                          chunk.num_graphs()));
}

// The chunks of all pages.
absl::StatusOr<std::vector<ObjectChunk>> ReadPages(const ObjectEngines& engines,
                                                   const DatasetHead& head,
                                                   const std::vector<ObjectPage>& pages) {
  std::vector<uint64_t> sizes;
  for (const ObjectPage& page : pages) sizes.push_back(page.manifest_bytes);
  const auto key_of = [&](size_t i) { return ManifestObject(head.id(), pages[i].object); };
  ObjectReadAhead ahead(engines, std::move(sizes), [&](size_t i) {
    return ObjectReadAhead::Part{key_of(i), 0};
  });
  std::vector<ObjectChunk> all;
  for (size_t i = 0; i < pages.size(); ++i) {
    PH_ASSIGN_OR_RETURN(const std::string bytes,
                        CheckedPart(engines, key_of(i), 0, pages[i].manifest_bytes,
                                    pages[i].manifest_crc, ahead.Next()));
    PH_ASSIGN_OR_RETURN(std::vector<ObjectChunk> chunks, DecodeManifestPage(bytes));
    for (ObjectChunk& chunk : chunks) all.push_back(std::move(chunk));
  }
  return all;
}

}  // namespace

absl::Status NoSuchObjectDataset(absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("data set: there is none named '",
                   absl::CHexEscape(name.substr(0, DatasetStore::kMaxNameLength)), "'"));
}

absl::StatusOr<DatasetHead> ReadHead(const ObjectEngines& engines, absl::string_view name) {
  if (!CheckDatasetName(name).ok()) return NoSuchObjectDataset(name);
  DatasetHead head;
  head.name = std::string(name);
  // The name's data set may be deleted, and another made, between the two reads.
  for (int attempt = 0; attempt < engines.max_attempts; ++attempt) {
    PH_ASSIGN_OR_RETURN(const auto named,
                        ReadRanges(engines, {KeyRange::Of(DatasetNameKey(name))}));
    if (named[0].values.empty()) return NoSuchObjectDataset(name);
    auto definition = DecodeDefinition(named[0].values[0].value);
    if (!definition.ok()) return OfDataset(name, definition.status());
    head.definition = *std::move(definition);
    head.name_revision = named[0].values[0].mod_revision;
    PH_ASSIGN_OR_RETURN(const auto stated,
                        ReadRanges(engines, {KeyRange::Of(DatasetStateKey(head.id()))}));
    if (stated[0].values.empty()) continue;
    auto state = DecodeObjectState(stated[0].values[0].value);
    if (!state.ok()) return OfDataset(name, state.status());
    head.state = *std::move(state);
    head.state_revision = stated[0].values[0].mod_revision;
    return head;
  }
  return OfDataset(name, absl::DataLossError("its state is missing"));
}

absl::StatusOr<DatasetInfo> InfoOfHead(const DatasetHead& head) {
  auto schema = DecodeSchema(head.definition.schema);
  if (!schema.ok()) return OfDataset(head.name, schema.status());
  DatasetInfo info;
  info.name = head.name;
  info.schema = std::make_shared<const GraphSchema>(*std::move(schema));
  info.options = head.definition.options;
  info.state = head.state.sealed ? DatasetState::kSealed : DatasetState::kOpen;
  info.num_graphs = head.state.num_graphs;
  info.num_records = head.state.num_records;
  info.num_bytes = head.state.num_bytes;
  info.version = head.state.version;
  info.id = head.id();
  return info;
}

absl::StatusOr<ObjectManifest> ReadManifest(const ObjectEngines& engines, DatasetHead& head,
                                            bool with_pages, bool with_producers) {
  // At the revision of this read: that of the last change may be compacted at any time.
  std::vector<KeyRange> ranges = {KeyRange::Of(DatasetStateKey(head.id())),
                                  KeyRange::Prefix(DatasetPageKeys(head.id())),
                                  KeyRange::Prefix(DatasetTailKeys(head.id()))};
  if (with_producers) ranges.push_back(KeyRange::Prefix(DatasetProducerKeys(head.id())));
  PH_ASSIGN_OR_RETURN(std::vector<RangeResult> read, ReadRanges(engines, ranges));
  const auto aborted = [&](absl::string_view what) {
    return absl::AbortedError(absl::StrCat("data set '", head.name, "': ", what));
  };
  if (read[0].values.empty()) return aborted("it was deleted meanwhile");
  auto state = DecodeObjectState(read[0].values[0].value);
  if (!state.ok()) return OfDataset(head.name, state.status());
  head.state = *std::move(state);
  head.state_revision = read[0].values[0].mod_revision;
  for (size_t i = 1; i < read.size(); ++i) {
    if (!read[i].has_more) continue;
    auto rest = ReadWholeRange(engines, {read[i].values.back().key + '\0', ranges[i].end},
                               read[i].revision);
    if (absl::IsOutOfRange(rest.status())) return aborted(rest.status().message());
    if (!rest.ok()) return OfDataset(head.name, rest.status());
    std::move(rest->begin(), rest->end(), std::back_inserter(read[i].values));
  }
  const std::vector<KeyValue>& pages = read[1].values;
  const std::vector<KeyValue>& tail = read[2].values;
  ObjectManifest manifest;
  if (with_producers) manifest.producers = std::move(read[3].values);
  uint64_t end = 0;
  for (const KeyValue& value : pages) {
    auto page = DecodeObjectPage(value.value);
    if (!page.ok()) return OfDataset(head.name, page.status());
    manifest.pages.push_back(*page);
    end = page->end_graph;
  }
  if (with_pages) {
    if (auto chunks = ReadPages(engines, head, manifest.pages); chunks.ok()) {
      manifest.chunks = *std::move(chunks);
    } else {
      return OfDataset(head.name, chunks.status());
    }
  }
  for (const KeyValue& value : tail) {
    auto chunk = DecodeObjectChunk(value.value);
    if (!chunk.ok()) return OfDataset(head.name, chunk.status());
    manifest.chunks.push_back(*std::move(chunk));
  }
  // Nothing between two chunks, nothing twice.
  if (with_pages) end = 0;
  for (const ObjectChunk& chunk : manifest.chunks) {
    if (chunk.first_graph != end) break;
    end += chunk.num_graphs();
  }
  if (end != head.state.num_graphs || manifest.pages.size() != head.state.num_pages ||
      tail.size() != head.state.num_tail) {
    return OfDataset(head.name, absl::DataLossError(absl::StrCat(
                                    "its chunks have the graphs to ", end, ", there are ",
                                    head.state.num_graphs, "; in ", manifest.pages.size(),
                                    " pages and ", tail.size(), " chunks more, there are ",
                                    head.state.num_pages, " and ", head.state.num_tail)));
  }
  return manifest;
}

absl::StatusOr<SizeHistogram> ReadRuns(const ObjectEngines& engines, const DatasetHead& head,
                                       const ObjectManifest& manifest,
                                       absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) {
  const size_t l = head.state.totals.size();
  SizeHistogram histogram(l);
  uint64_t reserved = 0;
  uint64_t ahead = 0;  // Of runs that come next.
  absl::Status refused;
  // A size may be in several runs, so it is asked for what the next run needs at most. A run exists
  // as it was read, parsed, and as lists of numbers.
  const auto reserve_for = [&](uint64_t run_bytes) -> absl::Status {
    const uint64_t rows = run_bytes / (l * sizeof(uint32_t) + sizeof(uint64_t));
    const uint64_t needed =
        SizeHistogram::BytesFor(histogram.num_distinct() + rows, l) + 3 * run_bytes + ahead;
    if (needed <= reserved) return absl::OkStatus();
    refused = reserve(needed - reserved);
    if (refused.ok()) reserved = needed;
    return refused;
  };
  const auto read = [&]() -> absl::Status {
    PH_RETURN_IF_ERROR(reserve_for(0));
    for (const ObjectPage& page : manifest.pages) {
      PH_RETURN_IF_ERROR(reserve_for(page.run_bytes));
      PH_ASSIGN_OR_RETURN(const std::string run,
                          ReadWholeObject(engines, RunObject(head.id(), page.object),
                                          page.run_bytes, page.run_crc));
      PH_RETURN_IF_ERROR(AddRun(run, histogram));
    }
    std::vector<uint64_t> sizes;
    for (const ObjectChunk& chunk : manifest.chunks) sizes.push_back(BytesToRead(chunk));
    ObjectReadAhead runs(engines, std::move(sizes),
                         [&](size_t i) { return RunPart(head, manifest.chunks[i]); });
    ahead = runs.bytes();
    for (const ObjectChunk& chunk : manifest.chunks) {
      PH_RETURN_IF_ERROR(reserve_for(std::max<uint64_t>(chunk.run_bytes, chunk.run.size())));
      PH_RETURN_IF_ERROR(AddRunOf(engines, head, chunk, runs.Next(), histogram));
    }
    return absl::OkStatus();
  };
  if (const absl::Status status = read(); !status.ok()) {
    return refused.ok() ? OfDataset(head.name, status) : refused;
  }
  if (histogram.num_graphs() != head.state.num_graphs) {
    return absl::DataLossError(absl::StrCat("data set '", head.name, "': its histogram counts ",
                                            histogram.num_graphs(), " graphs, there are ",
                                            head.state.num_graphs));
  }
  return histogram;
}

absl::StatusOr<SizeHistogram> ReadRuns(const ObjectEngines& engines, const DatasetHead& head,
                                       const ObjectManifest& manifest) {
  return ReadRuns(engines, head, manifest, [](uint64_t /*bytes*/) { return absl::OkStatus(); });
}

ChunkRuns::ChunkRuns(const ObjectEngines& engines, const DatasetHead& head,
                     std::vector<const ObjectChunk*> chunks)
    : engines_(engines),
      head_(head),
      chunks_(std::move(chunks)),
      ahead_(
          engines,
          [this] {
            std::vector<uint64_t> sizes;
            sizes.reserve(chunks_.size());
            for (const ObjectChunk* const chunk : chunks_) sizes.push_back(BytesToRead(*chunk));
            return sizes;
          }(),
          [this](size_t i) { return RunPart(head_, *chunks_[i]); }) {
  uint64_t largest = 0;
  for (const ObjectChunk* const chunk : chunks_) {
    largest = std::max<uint64_t>({largest, chunk->run_bytes, chunk->run.size()});
  }
  // As it was read, parsed, and as lists of numbers.
  bytes_ = ahead_.bytes() + 3 * largest + sizeof(const ObjectChunk*) * chunks_.capacity();
}

absl::Status ChunkRuns::AddNext(SizeHistogram& histogram) {
  return OfDataset(head_.name,
                   AddRunOf(engines_, head_, *chunks_[next_++], ahead_.Next(), histogram));
}

absl::StatusOr<ObjectStoreTotals> TotalsIn(const RangeResult& read) {
  if (read.values.empty()) return ObjectStoreTotals();
  return DecodeObjectTotals(read.values[0].value);
}

absl::Status ChangeTotals(const ObjectEngines& engines, Transaction& transaction,
                          absl::FunctionRef<absl::Status(ObjectStoreTotals& totals)> change) {
  PH_ASSIGN_OR_RETURN(const auto read, ReadRanges(engines, {KeyRange::Of(kStoreTotalsKey)}));
  PH_ASSIGN_OR_RETURN(ObjectStoreTotals totals, TotalsIn(read[0]));
  PH_RETURN_IF_ERROR(change(totals));
  const Revision revision = read[0].values.empty() ? 0 : read[0].values[0].mod_revision;
  transaction.compares.push_back(Compare::ModRevision(kStoreTotalsKey, revision));
  transaction.then.push_back(Operation::Put(kStoreTotalsKey, EncodeObjectTotals(totals)));
  return absl::OkStatus();
}

absl::StatusOr<bool> HasChunk(const ObjectEngines& engines, const DatasetHead& head,
                              uint64_t first_graph, uint64_t object) {
  PH_ASSIGN_OR_RETURN(const auto found,
                      ReadRanges(engines, {KeyRange::Of(DatasetTailKey(head.id(), first_graph))}));
  if (!found[0].values.empty()) {
    PH_ASSIGN_OR_RETURN(const ObjectChunk chunk, DecodeObjectChunk(found[0].values[0].value));
    return chunk.object == object;
  }
  // Nothing begins there yet, or it is in a page by now.
  PH_ASSIGN_OR_RETURN(const auto pages,
                      ReadWholeRange(engines, KeyRange::Prefix(DatasetPageKeys(head.id())), 0));
  for (const KeyValue& value : pages) {
    PH_ASSIGN_OR_RETURN(const ObjectPage page, DecodeObjectPage(value.value));
    if (first_graph < page.first_graph || first_graph >= page.end_graph) continue;
    PH_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadWholeObject(engines, ManifestObject(head.id(), page.object),
                                        page.manifest_bytes, page.manifest_crc));
    PH_ASSIGN_OR_RETURN(const auto chunks, DecodeManifestPage(bytes));
    for (const ObjectChunk& chunk : chunks) {
      if (chunk.first_graph == first_graph) return chunk.object == object;
    }
  }
  return false;
}

}  // namespace packhouse
