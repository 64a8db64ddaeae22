#include "service/datasets/lmdb_dataset_store.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "service/datasets/chunk_record.h"
#include "service/datasets/group_commit.h"
#include "service/datasets/lmdb_dataset_reader.h"
#include "service/datasets/lmdb_environment.h"
#include "service/datasets/stored_values.h"
#include "service/sizes/checked_arithmetic.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

using Kind = LmdbTransaction::Kind;

// The histogram's first run is written anew with all later ones in it when these have more sizes
// than it, or than this: a size is written a few times in all, and reading is O(d).
constexpr uint64_t kMinSizesToFold = 4096;
// What is erased of a deleted data set in one commit.
constexpr size_t kMaxErasedKeys = 1024;
constexpr uint64_t kMaxErasedBytes = uint64_t{256} << 20;
// About what a change writes besides records.
constexpr uint64_t kSmallChangeBytes = 4096;

// Room in the map for what is not counted as records.
uint64_t MapBytes(uint64_t max_bytes) {
  constexpr uint64_t kRoom = uint64_t{256} << 20;
  constexpr uint64_t kMost = uint64_t{1} << 46;  // Of 47 bits of address space.
  const uint64_t bytes = std::min(max_bytes, kMost / 2);
  return (bytes + bytes / 4 + kRoom) / kRoom * kRoom;
}

// For ids and versions: two of one would be taken for one another; 2^-64 is seldom enough.
uint64_t DrawUnique() {
  std::random_device device;
  uint64_t drawn = 0;
  while (drawn == 0) drawn = static_cast<uint64_t>(device()) << 32 | device();
  return drawn;
}

absl::Status NotFound(absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("data set: there is none named '",
                   absl::CHexEscape(name.substr(0, DatasetStore::kMaxNameLength)), "'"));
}

absl::Status Named(absl::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("data set '", name, "': ", status.message()));
}

absl::StatusOr<StoredDefinition> ReadDefinition(const LmdbTransaction& transaction,
                                                absl::string_view name) {
  // LMDB refuses a key that is too long, and no data set has such a name.
  if (!CheckDatasetName(name).ok()) return NotFound(name);
  const auto payload = transaction.Get(NameKey(name));
  if (!payload.ok()) return Named(name, payload.status());
  if (!*payload) return NotFound(name);
  auto definition = DecodeDefinition(**payload);
  if (!definition.ok()) return Named(name, definition.status());
  return definition;
}

absl::StatusOr<StoredState> ReadState(const LmdbTransaction& transaction, absl::string_view name,
                                      uint64_t dataset) {
  const auto payload = transaction.Get(StateKey(dataset));
  if (!payload.ok()) return Named(name, payload.status());
  if (!*payload) return Named(name, absl::DataLossError("its state is missing"));
  auto state = DecodeState(**payload);
  if (!state.ok()) return Named(name, state.status());
  return state;
}

absl::StatusOr<DatasetInfo> InfoOf(absl::string_view name, const StoredDefinition& definition,
                                   const StoredState& state) {
  auto schema = DecodeSchema(definition.schema);
  if (!schema.ok()) return Named(name, schema.status());
  DatasetInfo info;
  info.name = std::string(name);
  info.schema = std::make_shared<const GraphSchema>(*std::move(schema));
  info.options = definition.options;
  info.state = state.sealed ? DatasetState::kSealed : DatasetState::kOpen;
  info.num_graphs = state.num_graphs;
  info.num_records = state.num_records;
  info.num_bytes = state.num_bytes;
  info.version = state.version;
  info.id = definition.id;
  return info;
}

absl::StatusOr<DatasetInfo> ReadInfo(const LmdbTransaction& transaction, absl::string_view name) {
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
  PH_ASSIGN_OR_RETURN(const StoredState state, ReadState(transaction, name, definition.dataset));
  return InfoOf(name, definition, state);
}

// Adds up the runs; their keys, if asked for, are those that are there.
absl::StatusOr<SizeHistogram> ReadHistogram(const LmdbTransaction& transaction,
                                            absl::string_view name, uint64_t dataset,
                                            const StoredState& state,
                                            std::vector<std::string>* keys) {
  SizeHistogram histogram(state.totals.size());
  const std::string prefix = HistogramPrefix(dataset);
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
  while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
    const auto payload = CheckedPayload(cursor.key(), cursor.raw_value());
    if (!payload.ok()) return Named(name, payload.status());
    PH_RETURN_IF_ERROR(Named(name, AddRun(*payload, histogram)));
    if (keys != nullptr) keys->emplace_back(cursor.key());
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  if (histogram.num_graphs() != state.num_graphs) {
    return absl::DataLossError(absl::StrCat("data set '", name, "': its histogram counts ",
                                            histogram.num_graphs(), " graphs, there are ",
                                            state.num_graphs));
  }
  return histogram;
}

// Every value about a producer is sound, and there are as many as the state says.
absl::Status CheckProducers(const LmdbTransaction& transaction, absl::string_view name,
                            uint64_t dataset, const StoredState& state) {
  const std::string prefix = ProducerPrefix(dataset);
  uint64_t found = 0;
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
  while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
    PH_RETURN_IF_ERROR(Named(name, CheckedPayload(cursor.key(), cursor.raw_value()).status()));
    ++found;
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  if (found == state.num_producers) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data set '", name, "': there are ", found,
                                          " producers, should be ", state.num_producers));
}

// All that an append needs, made by the thread that asks for it, outside of the commit.
struct PreparedAppend {
  absl::string_view name;
  uint64_t id;  // 0: whichever has the name.
  const GraphChunk* chunk;
  absl::Span<const uint64_t> group_ids;
  const std::optional<ProducerSequence>& producer;
  EncodedChunk record;
  SizeHistogram sizes;
  std::string schema;
};

absl::Status CheckMaxCounts(const PreparedAppend& append, const std::vector<uint32_t>& max_counts) {
  for (size_t k = 0; k < max_counts.size(); ++k) {
    if (max_counts[k] == 0 || append.sizes.maximum(k) <= max_counts[k]) continue;
    size_t i = 0;
    while (append.chunk->count(i, k) <= max_counts[k]) ++i;
    return absl::OutOfRangeError(
        absl::StrCat("data set '", append.name, "': graph ", append.chunk->sizes().graph_id(i),
                     " has ", append.chunk->count(i, k), " ",
                     append.chunk->schema().sizes().name(k), ", at most ", max_counts[k]));
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const PreparedAppend& append, bool grouped) {
  if (append.chunk->num_graphs() == 0 || append.group_ids.empty() != grouped) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data set '", append.name, "' was created ", grouped ? "with" : "without",
                   " group ids, the chunk has ", grouped ? "none" : "them"));
}

// Writes the chunk's sizes as a run, or folds all runs with it into one.
absl::Status WriteHistogram(LmdbTransaction& transaction, const PreparedAppend& append,
                            uint64_t dataset, StoredState& state) {
  const uint64_t first_graph = state.num_graphs;
  const uint64_t added = append.sizes.num_distinct();
  if (first_graph == 0) {
    state.base_run_sizes = added;
  } else if (state.later_run_sizes + added <= std::max(state.base_run_sizes, kMinSizesToFold)) {
    state.later_run_sizes += added;
  } else {
    std::vector<std::string> keys;
    PH_ASSIGN_OR_RETURN(SizeHistogram histogram,
                        ReadHistogram(transaction, append.name, dataset, state, &keys));
    PH_RETURN_IF_ERROR(histogram.Merge(append.sizes));
    for (const std::string& key : keys) PH_RETURN_IF_ERROR(transaction.Erase(key));
    state.base_run_sizes = histogram.num_distinct();
    state.later_run_sizes = 0;
    return transaction.Put(HistogramKeyOf(dataset, 0), EncodeRun(histogram));
  }
  return transaction.Put(HistogramKeyOf(dataset, first_graph), EncodeRun(append.sizes));
}

// The whole append, in a transaction.
absl::StatusOr<AppendResult> AppendIn(LmdbTransaction& transaction, StoreTotals& totals,
                                      const LmdbEnvironment& environment, uint64_t max_bytes,
                                      const PreparedAppend& append) {
  const absl::string_view name = append.name;
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
  const uint64_t dataset = definition.dataset;
  PH_RETURN_IF_ERROR(CheckDatasetId(name, definition.id, append.id));
  PH_ASSIGN_OR_RETURN(StoredState state, ReadState(transaction, name, dataset));
  AppendResult result;
  result.num_graphs = state.num_graphs;

  std::string producer_key;
  if (append.producer) {
    producer_key = ProducerKey(dataset, append.producer->producer);
    const auto last = transaction.Get(producer_key);
    if (!last.ok()) return Named(name, last.status());
    if (*last) {
      PH_ASSIGN_OR_RETURN(const uint64_t sequence, DecodeNumber(**last));
      if (append.producer->sequence <= sequence) {
        result.is_repetition = true;
        return result;
      }
    } else if (state.num_producers >= DatasetStore::kMaxProducers) {
      return absl::ResourceExhaustedError(absl::StrCat("data set '", name, "': there are ",
                                                       state.num_producers, " producers, at most ",
                                                       DatasetStore::kMaxProducers));
    } else {
      // A producer whose name was damaged would look new, and its retry be counted twice.
      PH_RETURN_IF_ERROR(CheckProducers(transaction, name, dataset, state));
      ++state.num_producers;
    }
  }
  if (state.sealed) {
    return absl::FailedPreconditionError(absl::StrCat("data set '", name, "' is sealed"));
  }
  if (append.schema != definition.schema) {
    PH_ASSIGN_OR_RETURN(const GraphSchema stored, DecodeSchema(definition.schema));
    PH_RETURN_IF_ERROR(CheckSameSchema(name, stored, append.chunk->schema()));
  }
  PH_RETURN_IF_ERROR(CheckGroups(append, definition.options.grouped));
  PH_RETURN_IF_ERROR(CheckMaxCounts(append, definition.options.max_counts));

  const size_t n = append.chunk->num_graphs();
  if (n != 0) {
    const size_t value_bytes =
        std::max<size_t>(append.record.num_bytes(), environment.MinBytesOfOwnPages());
    const uint64_t disk_bytes = environment.BytesOnDisk(value_bytes);
    const uint64_t quota = definition.options.max_bytes;
    if (quota != 0 && (state.num_bytes > quota || disk_bytes > quota - state.num_bytes)) {
      return absl::ResourceExhaustedError(absl::StrCat("data set '", name, "': ", state.num_bytes,
                                                       " + ", disk_bytes, " bytes, its quota is ",
                                                       quota));
    }
    if (totals.num_bytes > max_bytes || disk_bytes > max_bytes - totals.num_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("store '", environment.folder(), "': ", totals.num_bytes, " + ", disk_bytes,
                       " bytes of all data sets, at most ", max_bytes));
    }
    for (size_t k = 0; k < state.totals.size(); ++k) {
      const auto total = CheckedAdd(state.totals[k], append.sizes.total(k));
      if (!total) {
        return absl::ResourceExhaustedError(
            absl::StrCat("data set '", name, "': total of component ", k, " ", state.totals[k],
                         " + ", append.sizes.total(k), " exceeds 2^64 - 1"));
      }
      state.totals[k] = *total;
    }
    PH_ASSIGN_OR_RETURN(char* const out,
                        transaction.PutRaw(RecordKey(dataset, state.num_graphs), value_bytes));
    append.record.WriteTo(out, {dataset, state.num_graphs});
    std::fill(out + append.record.num_bytes(), out + value_bytes, '\0');
    PH_RETURN_IF_ERROR(WriteHistogram(transaction, append, dataset, state));
    result.num_appended = n;
    result.first_graph = state.num_graphs;
    state.num_graphs += n;
    state.num_records += 1;
    state.num_bytes += disk_bytes;
    totals.num_bytes += disk_bytes;
    result.num_graphs = state.num_graphs;
  }
  if (append.producer) {
    PH_RETURN_IF_ERROR(transaction.Put(producer_key, EncodeNumber(append.producer->sequence)));
  }
  PH_RETURN_IF_ERROR(transaction.Put(StateKey(dataset), EncodeState(state)));
  return result;
}

// Erases some of what a deleted data set left. Returns whether that was all.
absl::StatusOr<bool> EraseSome(LmdbTransaction& transaction, StoreTotals& totals,
                               const LmdbEnvironment& environment, uint64_t dataset) {
  std::vector<std::string> keys;
  uint64_t bytes = 0;
  for (const std::string& prefix :
       {RecordPrefix(dataset), HistogramPrefix(dataset), ProducerPrefix(dataset)}) {
    const bool is_record = prefix == RecordPrefix(dataset);
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
    while (cursor.valid() && absl::StartsWith(cursor.key(), prefix) &&
           keys.size() < kMaxErasedKeys && bytes < kMaxErasedBytes) {
      keys.emplace_back(cursor.key());
      if (is_record) bytes += environment.BytesOnDisk(cursor.raw_value().size());
      PH_RETURN_IF_ERROR(cursor.Next());
    }
  }
  const bool is_all = keys.size() < kMaxErasedKeys && bytes < kMaxErasedBytes;
  for (const std::string& key : keys) PH_RETURN_IF_ERROR(transaction.Erase(key));
  totals.num_bytes -= std::min(totals.num_bytes, bytes);
  if (is_all) {
    PH_RETURN_IF_ERROR(transaction.Erase(StateKey(dataset)));
    PH_RETURN_IF_ERROR(transaction.Erase(TombstoneKey(dataset)));
  }
  return is_all;
}

// What OpenReader() and Verify() start from.
struct OpenedDataset {
  StoredDataset dataset;
  StoredState state;
  absl::StatusOr<SizeHistogram> histogram;
  absl::Status producers;
  std::shared_ptr<const void> owner;
};

// Everything about one record; its sizes are added to `recount`.
absl::Status VerifyRecord(const StoredDataset& dataset, const StoredRecord& record,
                          SizeHistogram& recount) {
  PH_ASSIGN_OR_RETURN(const ChunkRecordView view, dataset.View(record));
  const auto check = [&]() -> absl::Status {
    const GraphSchema& schema = *dataset.info.schema;
    PH_RETURN_IF_ERROR(view.CheckColumns());
    PH_ASSIGN_OR_RETURN(const GraphChunk chunk, view.ToChunk(&schema, nullptr));
    std::vector<absl::string_view> columns;
    for (size_t t = 0; t < chunk.num_columns(); ++t) columns.push_back(chunk.column(t));
    const auto checked = GraphChunk::Create(&schema, chunk.sizes(), std::move(columns), nullptr);
    if (!checked.ok()) return absl::DataLossError(checked.status().message());
    return recount.AddTable(chunk.sizes());
  };
  const absl::Status status = check();
  return status.ok() ? status : dataset.Named(record, status);
}

}  // namespace

// Knows which data sets are being read, so that what is deleted meanwhile is erased afterwards.
class LmdbDatasetStore::Shared {
 public:
  Shared(std::unique_ptr<LmdbEnvironment> environment, CommitObserver* observer)
      : environment_(std::move(environment)), commits_(environment_.get(), observer) {}

  const LmdbEnvironment& environment() const { return *environment_; }
  GroupCommit& commits() { return commits_; }

  absl::StatusOr<LmdbTransaction> Read() const {
    return LmdbTransaction::Begin(*environment_, Kind::kRead);
  }

  // Until the returned owner goes, nothing of the data set is erased.
  static std::shared_ptr<const void> Pin(const std::shared_ptr<Shared>& shared, uint64_t dataset) {
    {
      absl::MutexLock lock(&shared->mutex_);
      ++shared->num_pins_[dataset];
    }
    return std::shared_ptr<const void>(shared.get(),
                                       [shared, dataset](const void*) { shared->Unpin(dataset); });
  }

  // What is stored of a data set, which stays until the owner goes.
  static absl::StatusOr<OpenedDataset> OpenDataset(const std::shared_ptr<Shared>& shared,
                                                   absl::string_view name) {
    OpenedDataset opened;
    // A pin helps only if the data set is still there once it is in place: a deletion that came
    // first may already be erasing.
    PH_ASSIGN_OR_RETURN(const StoredDefinition pinned, shared->Definition(name));
    const uint64_t dataset = pinned.dataset;
    opened.dataset.id = dataset;
    opened.owner = Pin(shared, dataset);
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared->Read());
    PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
    if (definition.dataset != dataset) return NotFound(name);  // Deleted and made again just now.
    PH_ASSIGN_OR_RETURN(opened.state, ReadState(transaction, name, dataset));
    PH_ASSIGN_OR_RETURN(opened.dataset.info, InfoOf(name, definition, opened.state));
    opened.histogram = ReadHistogram(transaction, name, dataset, opened.state, nullptr);
    opened.producers = CheckProducers(transaction, name, dataset, opened.state);
    const std::string prefix = RecordPrefix(dataset);
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
    while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
      const auto first_graph = NumberAtEnd(cursor.key());
      opened.dataset.Add(first_graph.value_or(UINT64_MAX), cursor.raw_value());
      PH_RETURN_IF_ERROR(cursor.Next());
    }
    opened.dataset.End();
    return opened;
  }

  // A deleted data set: it is erased by EraseDeleted() once nobody reads it.
  void AddDeleted(uint64_t dataset) {
    absl::MutexLock lock(&mutex_);
    deleted_.insert(dataset);
  }

  // Where the disk refuses, the next call goes on, or the next Open().
  absl::Status EraseDeleted() {
    std::vector<uint64_t> erasable;
    {
      absl::MutexLock lock(&mutex_);
      for (const uint64_t dataset : deleted_) {
        if (!num_pins_.contains(dataset)) erasable.push_back(dataset);
      }
      // No one else erases them meanwhile, and no one can open them any more.
      for (const uint64_t dataset : erasable) deleted_.erase(dataset);
    }
    absl::Status status;
    for (const uint64_t dataset : erasable) {
      bool is_all = false;
      while (status.ok() && !is_all) {
        status = commits_.Run(
            [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
              PH_ASSIGN_OR_RETURN(is_all, EraseSome(transaction, totals, *environment_, dataset));
              return absl::OkStatus();
            },
            kSmallChangeBytes);
      }
      if (!status.ok()) AddDeleted(dataset);
    }
    return status;
  }

  // Reads what the store is made of.
  absl::Status Load() {
    PH_ASSIGN_OR_RETURN(const bool has_format,
                        CheckFormat(*environment_, FormatKey(), kStoreFormatVersion));
    {
      PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, Read());
      PH_RETURN_IF_ERROR(
          ForEachKey(transaction, kTombstonePrefix, [&](absl::string_view key, absl::string_view) {
            if (const auto dataset = NumberAtEnd(key)) AddDeleted(*dataset);
          }));
    }
    if (!environment_->is_read_only()) {
      if (!has_format) {
        PH_RETURN_IF_ERROR(commits_.Run(
            [](LmdbTransaction& transaction, StoreTotals&) {
              return transaction.Put(FormatKey(), EncodeNumber(kStoreFormatVersion));
            },
            kSmallChangeBytes));
      }
      // What cannot be erased now stays counted and can be read no more: nothing is lost by going
      // on.
      EraseDeleted().IgnoreError();
    }
    StoreTotals totals;
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, Read());
    PH_RETURN_IF_ERROR(
        ForEachKey(transaction, kNamePrefix,
                   [&](absl::string_view, absl::string_view) { ++totals.num_entries; }));
    PH_RETURN_IF_ERROR(
        ForEachKey(transaction, kStatePrefix, [&](absl::string_view key, absl::string_view value) {
          const auto dataset = NumberAtEnd(key);
          if (dataset) totals.next_number = std::max(totals.next_number, *dataset + 1);
          const auto payload = CheckedPayload(key, value);
          if (!payload.ok()) return;
          const auto state = DecodeState(*payload);
          if (state.ok()) totals.num_bytes += state->num_bytes;
        }));
    commits_.SetTotals(totals);
    return absl::OkStatus();
  }

 private:
  static absl::Status ForEachKey(
      const LmdbTransaction& transaction, absl::string_view prefix,
      absl::FunctionRef<void(absl::string_view key, absl::string_view raw_value)> visit) {
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
    while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
      visit(cursor.key(), cursor.raw_value());
      PH_RETURN_IF_ERROR(cursor.Next());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StoredDefinition> Definition(absl::string_view name) const {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, Read());
    return ReadDefinition(transaction, name);
  }

  void Unpin(uint64_t dataset) {
    bool may_erase = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = num_pins_.find(dataset);
      if (--found->second == 0) {
        num_pins_.erase(found);
        may_erase = deleted_.contains(dataset);
      }
    }
    if (may_erase) EraseDeleted().IgnoreError();
  }

  const std::unique_ptr<LmdbEnvironment> environment_;
  GroupCommit commits_;

  absl::Mutex mutex_;
  absl::btree_map<uint64_t, uint64_t> num_pins_ ABSL_GUARDED_BY(mutex_);
  // Deleted, but not erased.
  absl::btree_set<uint64_t> deleted_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<LmdbDatasetStore>> LmdbDatasetStore::Open(const Options& options) {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<LmdbEnvironment> environment,
                      LmdbEnvironment::Open(options.folder, MapBytes(options.max_bytes)));
  auto shared = std::make_shared<Shared>(std::move(environment), options.observer);
  PH_RETURN_IF_ERROR(shared->Load());
  if (options.observer != nullptr) {
    options.observer->OnStoreBytes(shared->commits().totals().num_bytes);
  }
  return std::unique_ptr<LmdbDatasetStore>(new LmdbDatasetStore(std::move(shared), options));
}

LmdbDatasetStore::~LmdbDatasetStore() = default;

absl::StatusOr<DatasetInfo> LmdbDatasetStore::Create(absl::string_view name,
                                                     const GraphSchema& schema,
                                                     const DatasetOptions& options) {
  PH_RETURN_IF_ERROR(CheckDatasetName(name));
  PH_RETURN_IF_ERROR(CheckDatasetOptions(name, schema, options));
  StoredDefinition definition;
  definition.options = options;
  definition.schema = EncodeSchema(schema);
  StoredState state;
  definition.id = DrawUnique();
  state.version = DrawUnique();
  state.totals.resize(schema.num_components());
  const auto create = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    const std::string key = NameKey(name);
    PH_ASSIGN_OR_RETURN(const auto existing, transaction.GetRaw(key));
    if (existing) {
      return absl::AlreadyExistsError(absl::StrCat("data set '", name, "' exists already"));
    }
    if (totals.num_entries >= options_.max_datasets) {
      return absl::ResourceExhaustedError(
          absl::StrCat("store '", shared_->environment().folder(), "': there are ",
                       totals.num_entries, " data sets, at most ", options_.max_datasets));
    }
    ++totals.num_entries;
    definition.dataset = totals.next_number++;
    PH_RETURN_IF_ERROR(transaction.Put(key, EncodeDefinition(definition)));
    return transaction.Put(StateKey(definition.dataset), EncodeState(state));
  };
  PH_RETURN_IF_ERROR(shared_->commits().Run(create, kSmallChangeBytes + definition.schema.size()));
  return InfoOf(name, definition, state);
}

absl::StatusOr<AppendResult> LmdbDatasetStore::AppendTo(
    const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  const absl::string_view name = target.name;
  PH_RETURN_IF_ERROR(CheckChunk(name, chunk, group_ids));
  if (producer) PH_RETURN_IF_ERROR(CheckProducer(*producer));
  PH_ASSIGN_OR_RETURN(EncodedChunk record, EncodedChunk::Create(&chunk, group_ids));
  SizeHistogram sizes(chunk.schema().num_components());
  PH_RETURN_IF_ERROR(sizes.AddTable(chunk.sizes()));
  const PreparedAppend append = {
      name,     target.id,         &chunk,           group_ids,
      producer, std::move(record), std::move(sizes), EncodeSchema(chunk.schema())};
  AppendResult result;
  const auto append_in = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_ASSIGN_OR_RETURN(
        result, AppendIn(transaction, totals, shared_->environment(), options_.max_bytes, append));
    return absl::OkStatus();
  };
  PH_RETURN_IF_ERROR(
      shared_->commits().Run(append_in, kSmallChangeBytes + append.record.num_bytes()));
  return result;
}

absl::StatusOr<DatasetInfo> LmdbDatasetStore::Seal(absl::string_view name) {
  const uint64_t version = DrawUnique();
  StoredDefinition definition;
  StoredState state;
  const auto seal = [&](LmdbTransaction& transaction, StoreTotals&) -> absl::Status {
    PH_ASSIGN_OR_RETURN(definition, ReadDefinition(transaction, name));
    PH_ASSIGN_OR_RETURN(state, ReadState(transaction, name, definition.dataset));
    if (state.sealed) return absl::OkStatus();
    state.sealed = true;
    state.version = version;
    return transaction.Put(StateKey(definition.dataset), EncodeState(state));
  };
  PH_RETURN_IF_ERROR(shared_->commits().Run(seal, kSmallChangeBytes));
  return InfoOf(name, definition, state);
}

absl::StatusOr<DatasetInfo> LmdbDatasetStore::Get(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  return ReadInfo(transaction, name);
}

absl::StatusOr<SizeHistogram> LmdbDatasetStore::GetHistogram(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
  PH_ASSIGN_OR_RETURN(const StoredState state, ReadState(transaction, name, definition.dataset));
  return ReadHistogram(transaction, name, definition.dataset, state, nullptr);
}

absl::StatusOr<DatasetList> LmdbDatasetStore::List(size_t page_size,
                                                   absl::string_view page_token) const {
  if (!page_token.empty() && !CheckDatasetName(page_token).ok()) {
    return absl::InvalidArgumentError("data sets: a page token that no page gave");
  }
  const size_t bound = page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, NameKey(page_token)));
  DatasetList list;
  for (; cursor.valid() && absl::StartsWith(cursor.key(), kNamePrefix);) {
    const absl::string_view name = cursor.key().substr(kNamePrefix.size());
    if (name != page_token) {
      if (list.datasets.size() == bound) {
        list.next_page_token = list.datasets.back().name;
        break;
      }
      auto info = ReadInfo(transaction, name);
      if (info.ok()) {
        list.datasets.push_back(*std::move(info));
      } else {
        DatasetInfo& damaged = list.datasets.emplace_back();
        damaged.name = std::string(name);
        damaged.state = DatasetState::kDamaged;
      }
    }
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  return list;
}

absl::Status LmdbDatasetStore::Delete(absl::string_view name) {
  uint64_t dataset = 0;
  const auto erase = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
    dataset = definition.dataset;
    --totals.num_entries;
    PH_RETURN_IF_ERROR(transaction.Put(TombstoneKey(dataset), std::string(name)));
    return transaction.Erase(NameKey(name));
  };
  PH_RETURN_IF_ERROR(shared_->commits().Run(erase, kSmallChangeBytes));
  shared_->AddDeleted(dataset);
  // The data set is gone, whatever becomes of its space.
  shared_->EraseDeleted().IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<VerifyReport> LmdbDatasetStore::Verify(
    absl::string_view name, absl::FunctionRef<bool(const VerifyProgress&)> progress) const {
  PH_ASSIGN_OR_RETURN(const OpenedDataset opened, Shared::OpenDataset(shared_, name));
  const StoredDataset& dataset = opened.dataset;
  const DatasetInfo& info = dataset.info;
  SizeHistogram recount(info.schema->num_components());
  VerifyReport report;
  VerifyProgress done;
  done.num_records_total = dataset.records.size();
  done.num_bytes_total = info.num_bytes;
  for (const StoredRecord& record : dataset.records) {
    absl::Status status = VerifyRecord(dataset, record, recount);
    ++report.num_records;
    report.num_graphs += record.end_graph - record.first_graph;
    report.num_bytes += shared_->environment().BytesOnDisk(record.bytes.size());
    if (!status.ok()) {
      ++report.num_damaged;
      if (report.damaged.size() < VerifyReport::kMaxListed) {
        report.damaged.push_back({record.number, record.first_graph,
                                  record.end_graph - record.first_graph, std::move(status)});
      }
    }
    done.num_records = report.num_records;
    done.num_bytes = report.num_bytes;
    if (!progress(done)) {
      return absl::CancelledError(absl::StrCat("data set '", name, "': given up after ",
                                               done.num_records, " of ", done.num_records_total,
                                               " records"));
    }
  }

  const auto disagree = [&](absl::string_view what, uint64_t found, uint64_t expected) {
    if (found == expected) return;
    report.disagreements.push_back(absl::DataLossError(absl::StrCat(
        "data set '", name, "': there are ", found, " ", what, ", should be ", expected)));
  };
  disagree("records", report.num_records, info.num_records);
  disagree("records that belong nowhere", dataset.num_stray_records, 0);
  disagree("bytes of records", report.num_bytes, info.num_bytes);
  if (!opened.producers.ok()) report.disagreements.push_back(opened.producers);
  if (!opened.histogram.ok()) {
    report.disagreements.push_back(opened.histogram.status());
  } else if (report.num_damaged == 0 && !(recount == *opened.histogram)) {
    report.disagreements.push_back(absl::DataLossError(
        absl::StrCat("data set '", name, "': its histogram is not that of its records")));
  }
  for (size_t k = 0; report.num_damaged == 0 && k < opened.state.totals.size(); ++k) {
    disagree(info.schema->sizes().name(k), recount.total(k), opened.state.totals[k]);
  }
  return report;
}

absl::StatusOr<std::shared_ptr<const DatasetReader>> LmdbDatasetStore::OpenReader(
    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(OpenedDataset opened, Shared::OpenDataset(shared_, name));
  std::optional<SizeHistogram> histogram;
  if (opened.histogram.ok()) histogram = *std::move(opened.histogram);
  return std::make_shared<const LmdbDatasetReader>(std::move(opened.dataset), std::move(histogram),
                                                   std::move(opened.owner));
}

uint64_t LmdbDatasetStore::num_bytes() const { return shared_->commits().totals().num_bytes; }

bool LmdbDatasetStore::is_read_only() const { return shared_->environment().is_read_only(); }

}  // namespace packhouse
