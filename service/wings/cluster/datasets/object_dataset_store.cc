#include "service/wings/cluster/datasets/object_dataset_store.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/stores/datasets/record_dataset_reader.h"
#include "service/stores/datasets/record_verification.h"
#include "service/stores/datasets/stored_values.h"
#include "service/wings/cluster/datasets/chunk_builder.h"
#include "service/wings/cluster/datasets/chunk_fetcher.h"
#include "service/wings/cluster/datasets/object_manifest.h"

namespace packhouse {
namespace {

// A chunk is an object.
class ObjectDatasetChunks final : public DatasetChunks {
 public:
  ObjectDatasetChunks(const ChunkFetcher* fetcher, DatasetHead head, ObjectManifest manifest,
                      DatasetInfo info)
      : fetcher_(fetcher),
        head_(std::move(head)),
        manifest_(std::move(manifest)),
        info_(std::move(info)) {
    for (const ObjectChunk& chunk : manifest_.chunks) {
      num_graphs_.push_back(static_cast<uint32_t>(chunk.num_graphs()));
    }
  }

  const DatasetInfo& info() const override { return info_; }
  absl::Span<const uint32_t> num_graphs() const override { return num_graphs_; }
  uint64_t bytes() const override {
    uint64_t bytes = sizeof(uint32_t) * num_graphs_.capacity() +
                     sizeof(ObjectChunk) * manifest_.chunks.capacity();
    for (const ObjectChunk& chunk : manifest_.chunks) {
      bytes += sizeof(ObjectChunk::Record) * chunk.records.capacity() + chunk.run.capacity();
    }
    return bytes;
  }
  // Of the chunk's run, so the object itself is not fetched.
  absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
    return Sizes(*this, {chunk}).AddNext(histogram);
  }
  std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> numbers) const override {
    return std::make_unique<Sizes>(*this, numbers);
  }
  absl::Status CheckFits(absl::Span<const uint32_t> numbers) const override {
    uint64_t bytes = 0;
    for (const uint32_t number : numbers) bytes += manifest_.chunks[number].num_bytes;
    if (bytes <= fetcher_->max_cache_bytes()) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(numbers.size(), " objects of data set '", head_.name, "' have ", bytes,
                     " bytes, more than the ", fetcher_->max_cache_bytes(),
                     " of this server's cache (--cache-bytes)"));
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> numbers) const override {
    PH_ASSIGN_OR_RETURN(FetchedChunks fetched,
                        fetcher_->FetchAll(head_, Find(numbers), /*is_part=*/true));
    return std::make_shared<const RecordDatasetReader>(
        std::move(fetched.dataset), SizeHistogram(info_.schema->num_components()),
        [] { return absl::OkStatus(); }, std::move(fetched.owner));
  }

 private:
  class Sizes final : public ChunkSizes {
   public:
    Sizes(const ObjectDatasetChunks& all, absl::Span<const uint32_t> numbers)
        : all_(all), runs_(all.fetcher_->engines(), all.head_, all.Find(numbers)) {}

    uint64_t bytes() const override { return runs_.bytes(); }
    absl::Status AddNext(SizeHistogram& histogram) override {
      const absl::Status status = runs_.AddNext(histogram);
      return status.ok() ? status : all_.fetcher_->Explained(all_.head_, status);
    }

   private:
    const ObjectDatasetChunks& all_;
    ChunkRuns runs_;
  };

  std::vector<const ObjectChunk*> Find(absl::Span<const uint32_t> numbers) const {
    std::vector<const ObjectChunk*> chunks;
    chunks.reserve(numbers.size());
    for (const uint32_t number : numbers) chunks.push_back(&manifest_.chunks[number]);
    return chunks;
  }

  const ChunkFetcher* const fetcher_;
  const DatasetHead head_;
  const ObjectManifest manifest_;
  const DatasetInfo info_;
  std::vector<uint32_t> num_graphs_;
};

// Reads of one transaction, with room for its own keys.
constexpr size_t kReadsAtOnce = 100;

// For errors.
std::string Named(absl::string_view name) { return absl::StrCat("data set '", name, "'"); }

}  // namespace

struct ObjectDatasetStore::Opened {
  DatasetHead head;
  ObjectManifest manifest;
};

absl::StatusOr<DatasetInfo> ObjectDatasetStore::Create(absl::string_view name,
                                                       const GraphSchema& schema,
                                                       const DatasetOptions& options) {
  PH_RETURN_IF_ERROR(CheckDatasetName(name));
  PH_RETURN_IF_ERROR(CheckDatasetOptions(name, schema, options));
  DatasetHead head;
  head.name = std::string(name);
  head.definition.options = options;
  head.definition.schema = EncodeSchema(schema);
  head.definition.id = engines_.draw();
  head.definition.dataset = head.definition.id;
  head.state.version = engines_.draw();
  head.state.totals.resize(schema.num_components());
  const auto next = [&](bool /*may_be_done*/) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(const auto existing,
                        ReadRanges(engines_, {KeyRange::Of(DatasetNameKey(name))}));
    if (!existing[0].values.empty()) {
      const auto definition = DecodeDefinition(existing[0].values[0].value);
      // It is this call's own, whose answer was lost.
      if (definition.ok() && definition->id == head.id()) return std::nullopt;
      return absl::AlreadyExistsError(absl::StrCat("data set '", name, "' exists already"));
    }
    Transaction transaction;
    transaction.compares.push_back(Compare::Absent(DatasetNameKey(name)));
    transaction.then.push_back(
        Operation::Put(DatasetNameKey(name), EncodeDefinition(head.definition)));
    transaction.then.push_back(
        Operation::Put(DatasetStateKey(head.id()), EncodeObjectState(head.state)));
    if (options_.max_bytes != 0) {
      PH_RETURN_IF_ERROR(
          ChangeTotals(engines_, transaction, [&](ObjectStoreTotals& totals) -> absl::Status {
            if (totals.num_datasets >= options_.max_datasets) {
              return absl::ResourceExhaustedError(
                  absl::StrCat("store: there are ", totals.num_datasets, " data sets, at most ",
                               options_.max_datasets));
            }
            ++totals.num_datasets;
            return absl::OkStatus();
          }));
    }
    return transaction;
  };
  PH_RETURN_IF_ERROR(engines_.Change(Named(name), next));
  return InfoOfHead(head);
}

absl::StatusOr<AppendResult> ObjectDatasetStore::AppendTo(
    const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  PH_ASSIGN_OR_RETURN(const PreparedAppend append,
                      PrepareAppend(target, chunk, group_ids, producer));
  if (!CheckDatasetName(target.name).ok()) return NoSuchObjectDataset(target.name);
  return appender_.Append(append);
}

absl::StatusOr<ProducerHistory> ObjectDatasetStore::GetProducer(const Target& target,
                                                                absl::string_view producer) const {
  PH_ASSIGN_OR_RETURN(const DatasetHead head, ReadHead(engines_, target.name));
  PH_RETURN_IF_ERROR(CheckDatasetId(target.name, head.id(), target.id));
  PH_ASSIGN_OR_RETURN(
      const auto read,
      ReadRanges(engines_, {KeyRange::Of(DatasetProducerKey(head.id(), producer)),
                            KeyRange::Of(DatasetMadeUpProducerKey(head.id(), producer))}));
  for (const RangeResult& found : read) {
    if (!found.values.empty()) return DecodeProducer(found.values[0].value);
  }
  return ProducerHistory();
}

absl::StatusOr<DatasetInfo> ObjectDatasetStore::Seal(const Target& target) {
  const absl::string_view name = target.name;
  // The one that had the name when this began: not one that has taken it since.
  uint64_t id = target.id;
  DatasetHead head;
  const auto next = [&](bool /*may_be_done*/) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(head, ReadHead(engines_, name));
    PH_RETURN_IF_ERROR(CheckDatasetId(name, head.id(), id));
    id = head.id();
    if (head.state.sealed) return std::nullopt;
    head.state.sealed = true;
    head.state.version = engines_.draw();
    Transaction transaction;
    transaction.compares.push_back(
        Compare::ModRevision(DatasetStateKey(head.id()), head.state_revision));
    transaction.then.push_back(
        Operation::Put(DatasetStateKey(head.id()), EncodeObjectState(head.state)));
    return transaction;
  };
  PH_RETURN_IF_ERROR(engines_.Change(Named(name), next));
  return InfoOfHead(head);
}

absl::StatusOr<DatasetInfo> ObjectDatasetStore::Get(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const DatasetHead head, ReadHead(engines_, name));
  return InfoOfHead(head);
}

absl::StatusOr<ObjectDatasetStore::Opened> ObjectDatasetStore::Open(absl::string_view name,
                                                                    bool with_pages,
                                                                    bool with_producers) const {
  absl::Status status;
  for (int failures = 0; failures <= engines_.max_attempts; ++failures) {
    if (failures != 0) engines_.BackOff(failures - 1);
    Opened opened;
    PH_ASSIGN_OR_RETURN(opened.head, ReadHead(engines_, name));
    auto manifest = ReadManifest(engines_, opened.head, with_pages, with_producers);
    if (manifest.ok()) {
      opened.manifest = *std::move(manifest);
      return opened;
    }
    status = fetcher_.Explained(opened.head, manifest.status());
    if (!absl::IsAborted(status)) return status;
  }
  return absl::UnavailableError(status.message());
}

absl::StatusOr<SizeHistogram> ObjectDatasetStore::GetHistogram(absl::string_view name) const {
  return GetReservedHistogram(name, [](uint64_t /*bytes*/) { return absl::OkStatus(); });
}

absl::StatusOr<SizeHistogram> ObjectDatasetStore::GetReservedHistogram(
    absl::string_view name, absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const {
  PH_ASSIGN_OR_RETURN(const Opened opened, Open(name, /*with_pages=*/false));
  auto histogram = ReadRuns(engines_, opened.head, opened.manifest, reserve);
  if (!histogram.ok()) return fetcher_.Explained(opened.head, histogram.status());
  return histogram;
}

absl::StatusOr<DatasetList> ObjectDatasetStore::List(size_t page_size,
                                                     absl::string_view page_token) const {
  if (!page_token.empty() && !CheckDatasetName(page_token).ok()) {
    return absl::InvalidArgumentError("data sets: a page token that no page gave");
  }
  const size_t bound = page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
  DatasetList list;
  KeyRange rest = KeyRange::Prefix(kDatasetNames);
  if (!page_token.empty()) rest.begin = DatasetNameKey(page_token) + '\0';
  // A data set that goes between the two reads is left out, and others take its place.
  while (true) {
    PH_ASSIGN_OR_RETURN(const auto named, ReadRanges(engines_, {rest}));
    const std::vector<KeyValue>& names = named[0].values;
    for (size_t begin = 0; begin < names.size(); begin += kReadsAtOnce) {
      const size_t end = std::min(names.size(), begin + kReadsAtOnce);
      std::vector<KeyRange> states;
      std::vector<absl::StatusOr<StoredDefinition>> definitions;
      for (size_t i = begin; i < end; ++i) {
        definitions.push_back(DecodeDefinition(names[i].value));
        const uint64_t id = definitions.back().ok() ? definitions.back()->id : 0;
        states.push_back(KeyRange::Of(DatasetStateKey(id)));
      }
      PH_ASSIGN_OR_RETURN(const auto read, ReadRanges(engines_, states));
      for (size_t i = begin; i < end; ++i) {
        const auto& definition = definitions[i - begin];
        const auto& values = read[i - begin].values;
        if (definition.ok() && values.empty()) continue;
        if (list.datasets.size() == bound) {
          list.next_page_token = list.datasets.back().name;
          return list;
        }
        DatasetInfo& info = list.datasets.emplace_back();
        info.name = names[i].key.substr(kDatasetNames.size());
        info.state = DatasetState::kDamaged;
        if (!definition.ok()) continue;
        const auto state = DecodeObjectState(values[0].value);
        if (!state.ok()) continue;
        const auto whole = InfoOfHead({info.name, *definition, 0, *state, 0});
        if (whole.ok()) info = *whole;
      }
    }
    if (!named[0].has_more) return list;
    rest.begin = names.back().key + '\0';
  }
}

absl::Status ObjectDatasetStore::DeleteIf(const Target& target, StillUnused unused) {
  const absl::string_view name = target.name;
  // As Seal().
  uint64_t id = target.id;
  const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    const auto head = ReadHead(engines_, name);
    if (may_be_done && (absl::IsNotFound(head.status()) || (head.ok() && head->id() != id))) {
      return std::nullopt;
    }
    PH_RETURN_IF_ERROR(head.status());
    PH_RETURN_IF_ERROR(CheckDatasetId(name, head->id(), id));
    id = head->id();
    Transaction transaction;
    PH_ASSIGN_OR_RETURN(transaction.compares, unused());
    transaction.compares.push_back(Compare::ModRevision(DatasetNameKey(name), head->name_revision));
    transaction.then.push_back(Operation::Delete(KeyRange::Of(DatasetNameKey(name))));
    transaction.then.push_back(Operation::Delete(KeyRange::Prefix(DatasetKeys(head->id()))));
    transaction.then.push_back(Operation::Put(GoneDatasetKey(head->id()), name));
    if (options_.max_bytes != 0) {
      transaction.compares.push_back(
          Compare::ModRevision(DatasetStateKey(head->id()), head->state_revision));
      PH_RETURN_IF_ERROR(ChangeTotals(engines_, transaction, [&](ObjectStoreTotals& totals) {
        totals.num_datasets -= std::min<uint64_t>(1, totals.num_datasets);
        totals.num_bytes -= std::min(head->state.num_bytes, totals.num_bytes);
        return absl::OkStatus();
      }));
    }
    return transaction;
  };
  return engines_.Change(Named(name), next);
}

absl::StatusOr<std::shared_ptr<const DatasetReader>> ObjectDatasetStore::OpenReader(
    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const Opened opened, Open(name, /*with_pages=*/true));
  std::vector<const ObjectChunk*> chunks;
  for (const ObjectChunk& chunk : opened.manifest.chunks) chunks.push_back(&chunk);
  PH_ASSIGN_OR_RETURN(FetchedChunks fetched,
                      fetcher_.FetchAll(opened.head, chunks, /*is_part=*/false));
  // A reader makes do with the sizes themselves.
  return std::make_shared<const RecordDatasetReader>(
      std::move(fetched.dataset), std::nullopt, [] { return absl::OkStatus(); },
      std::move(fetched.owner));
}

absl::StatusOr<std::shared_ptr<const DatasetChunks>> ObjectDatasetStore::OpenChunks(
    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(Opened opened, Open(name, /*with_pages=*/true));
  PH_ASSIGN_OR_RETURN(DatasetInfo info, InfoOfHead(opened.head));
  PH_RETURN_IF_ERROR(CheckSealed(info));
  return std::make_shared<const ObjectDatasetChunks>(&fetcher_, std::move(opened.head),
                                                     std::move(opened.manifest), std::move(info));
}

absl::StatusOr<VerifyReport> ObjectDatasetStore::Verify(
    absl::string_view name, absl::FunctionRef<bool(const VerifyProgress&)> progress) const {
  PH_ASSIGN_OR_RETURN(const Opened opened,
                      Open(name, /*with_pages=*/true, /*with_producers=*/true));
  const DatasetHead& head = opened.head;
  StoredDataset dataset;
  dataset.id = head.id();
  PH_ASSIGN_OR_RETURN(dataset.info, InfoOfHead(head));
  uint64_t num_records = 0;
  for (const ObjectChunk& chunk : opened.manifest.chunks) num_records += chunk.records.size();
  RecordVerification verification(&dataset, num_records, progress);
  for (const ObjectChunk& chunk : opened.manifest.chunks) {
    const auto map = fetcher_.Fetch(head, chunk, /*cached=*/false);
    if (!map.ok()) {
      const absl::Status why = fetcher_.Explained(head, map.status());
      if (!absl::IsDataLoss(why)) return why;
      verification.Disagree(why);
    }
    for (const ObjectChunk::Record& record : chunk.records) {
      const absl::string_view bytes =
          map.ok() ? (*map)->bytes().substr(record.offset, record.num_bytes) : "";
      const uint64_t first = dataset.records.empty() ? 0 : dataset.records.back().end_graph;
      dataset.AddExact(first + record.num_graphs, chunk.TagOf(record), bytes);
      PH_RETURN_IF_ERROR(
          verification.Check(dataset.records.back(), BytesInObject(record.num_bytes)));
      dataset.records.back().bytes = {};  // The map goes with its chunk.
    }
  }
  for (const KeyValue& value : opened.manifest.producers) {
    verification.Disagree(DecodeProducer(value.value).status());
  }
  if (opened.manifest.producers.size() != head.state.num_producers) {
    verification.Disagree(absl::DataLossError(
        absl::StrCat("data set '", name, "': there are ", opened.manifest.producers.size(),
                     " producers, should be ", head.state.num_producers)));
  }
  ObjectManifest runs = {opened.manifest.pages, {}, {}};
  for (const ObjectChunk& chunk : opened.manifest.chunks) {
    const bool is_in_page = !runs.pages.empty() && chunk.first_graph < runs.pages.back().end_graph;
    if (!is_in_page) runs.chunks.push_back(chunk);
  }
  auto histogram = ReadRuns(engines_, head, runs);
  if (!histogram.ok()) {
    histogram = fetcher_.Explained(head, histogram.status());
    if (!absl::IsDataLoss(histogram.status())) return histogram.status();
  }
  return verification.Finish(histogram, head.state.totals);
}

}  // namespace packhouse
