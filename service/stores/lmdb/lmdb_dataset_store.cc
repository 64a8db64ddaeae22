#include "service/stores/lmdb/lmdb_dataset_store.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/chunk_record.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/stores/datasets/record_dataset_reader.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/group_commit.h"
#include "service/stores/lmdb/lmdb_dataset_values.h"
#include "service/stores/lmdb/lmdb_dataset_verify.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_shared_store.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {
namespace {

// The histogram's first run is written anew, with all later runs in it, when these have more sizes
// than the first run and than this. So each size is written only a few times, and reading is O(d).
constexpr uint64_t kMinSizesToFold = 4096;

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

// The least number of made-up producers at which those whose time is over are looked for. Half of
// those that are left, or more, come before the next time, so each is looked at a few times.
constexpr uint64_t kMinMadeUpToSweep = 1024;

// The keys of made-up producers whose time is over.
absl::StatusOr<std::vector<std::string>> OverProducers(const LmdbTransaction& transaction,
                                                       absl::string_view name, uint64_t dataset,
                                                       absl::Time now) {
  std::vector<std::string> keys;
  absl::Status status;
  PH_RETURN_IF_ERROR(ForEachKey(
      transaction, ProducerPrefix(dataset), [&](absl::string_view key, absl::string_view value) {
        const auto payload = CheckedPayload(key, value);
        const auto history = payload.ok() ? DecodeProducer(*payload)
                                          : absl::StatusOr<ProducerHistory>(payload.status());
        if (!history.ok()) {
          status = WithDatasetName(name, history.status());
        } else if (history->IsOver(now)) {
          keys.emplace_back(key);
        }
        return status.ok();
      }));
  PH_RETURN_IF_ERROR(status);
  return keys;
}

// A producer's append, as it will be in the store.
struct ProducerChange {
  std::string key;
  ProducerHistory history;
  // Of others, whose time is over.
  std::vector<std::string> over;
};

// Nothing is written. `is_repetition` true: nothing is to be.
absl::StatusOr<ProducerChange> ChangeProducer(const LmdbTransaction& transaction,
                                              const PreparedAppend& append, uint64_t dataset,
                                              StoredState& state, bool& is_repetition) {
  const absl::string_view name = append.name;
  const ProducerSequence& producer = *append.producer;
  ProducerChange change;
  change.key = ProducerKey(dataset, producer.producer);
  const auto stored = transaction.Get(change.key);
  if (!stored.ok()) return WithDatasetName(name, stored.status());
  if (*stored) {
    auto history = DecodeProducer(**stored);
    if (!history.ok()) return WrongValue(transaction, name, history.status());
    change.history = *std::move(history);
    PH_ASSIGN_OR_RETURN(is_repetition, append.Repeats(change.history));
    if (is_repetition) return change;
    state.num_made_up -= change.history.is_named() ? 0 : 1;
  } else {
    ++state.num_producers;
  }
  const uint64_t num_named = state.num_producers - state.num_made_up;
  if (producer.is_named()) {
    if (num_named > DatasetStore::kMaxProducers) {
      return TooManyProducers(name, num_named - 1, /*are_made_up=*/false);
    }
  } else {
    ++state.num_made_up;
    // At the bound it is always worth a look.
    const uint64_t sweep_at = std::clamp<uint64_t>(state.sweep_made_up_at, kMinMadeUpToSweep,
                                                   DatasetStore::kMaxMadeUpProducers);
    if (!*stored && state.num_made_up > sweep_at) {
      PH_ASSIGN_OR_RETURN(change.over, OverProducers(transaction, name, dataset, producer.now));
      state.num_made_up -= change.over.size();
      state.num_producers -= change.over.size();
      state.sweep_made_up_at = 2 * state.num_made_up;
    }
    if (state.num_made_up > DatasetStore::kMaxMadeUpProducers) {
      return TooManyProducers(name, state.num_made_up - 1, /*are_made_up=*/true);
    }
  }
  change.history.Add(producer, append.digest, DatasetStore::kRememberedSequences);
  return change;
}

// The whole append. Errors as DatasetStore::Append(). `max_bytes` bounds all data sets together;
// `may_need_room` becomes true if an error might not happen in a store with more room.
absl::StatusOr<AppendResult> AppendIn(LmdbTransaction& transaction, StoreTotals& totals,
                                      const LmdbEnvironment& environment, uint64_t max_bytes,
                                      const PreparedAppend& append, bool& may_need_room) {
  may_need_room = false;
  const absl::string_view name = append.name;
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
  const uint64_t dataset = definition.dataset;
  PH_RETURN_IF_ERROR(CheckDatasetId(name, definition.id, append.id));
  PH_ASSIGN_OR_RETURN(StoredState state, ReadState(transaction, name, dataset));
  AppendResult result;
  result.num_graphs = state.num_graphs;

  ProducerChange producer;
  if (append.producer) {
    const uint64_t num_before = state.num_producers;
    const StoredState before = state;
    PH_ASSIGN_OR_RETURN(producer,
                        ChangeProducer(transaction, append, dataset, state, result.is_repetition));
    if (result.is_repetition) return result;
    // A producer with a damaged name would look new, and its retry would be stored twice.
    if (append.producer->is_named() && state.num_producers > num_before) {
      PH_RETURN_IF_ERROR(CheckProducers(transaction, name, dataset, before));
    }
  }
  if (state.sealed) return IsSealed(name);
  PH_RETURN_IF_ERROR(CheckFitsDefinition(append, definition));

  const size_t n = append.chunk->num_graphs();
  if (n != 0) {
    const size_t value_bytes =
        std::max<size_t>(append.record.num_bytes(), environment.MinBytesOfOwnPages());
    const uint64_t disk_bytes = environment.BytesOnDisk(value_bytes);
    PH_RETURN_IF_ERROR(
        CheckDatasetQuota(name, state.num_bytes, disk_bytes, definition.options.max_bytes));
    PH_RETURN_IF_ERROR(AddToTotals(append, state.totals));
    // Errors from here on mean that the store or the disk has no room.
    may_need_room = true;
    if (totals.num_bytes > max_bytes || disk_bytes > max_bytes - totals.num_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("store '", environment.folder(), "': ", totals.num_bytes, " + ", disk_bytes,
                       " bytes of all data sets, at most ", max_bytes));
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
    for (const std::string& key : producer.over) PH_RETURN_IF_ERROR(transaction.Erase(key));
    PH_RETURN_IF_ERROR(transaction.Put(producer.key, EncodeProducer(producer.history)));
  }
  PH_RETURN_IF_ERROR(transaction.Put(StateKey(dataset), EncodeState(state)));
  return result;
}

// For ids and versions, which must differ: a collision has a probability of 2^-64.
uint64_t DrawUnique() {
  std::random_device device;
  uint64_t drawn = 0;
  while (drawn == 0) drawn = static_cast<uint64_t>(device()) << 32 | device();
  return drawn;
}

}  // namespace

// Adds room in the map for everything that does not count as records.
uint64_t LmdbDatasetStore::MapBytes(uint64_t max_bytes) {
  constexpr uint64_t kRoom = uint64_t{256} << 20;
  constexpr uint64_t kMost = uint64_t{1} << 46;  // Of 47 bits of address space.
  const uint64_t bytes = std::min(max_bytes, kMost / 2);
  return (bytes + bytes / 4 + kRoom) / kRoom * kRoom;
}

absl::StatusOr<std::unique_ptr<LmdbDatasetStore>> LmdbDatasetStore::Open(const Options& options) {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<LmdbEnvironment> environment,
                      LmdbEnvironment::Open(options.folder, MapBytes(options.max_bytes)));
  auto shared = std::make_shared<LmdbSharedStore>(std::move(environment), options.observer);
  PH_RETURN_IF_ERROR(shared->Load());
  if (options.observer != nullptr) {
    options.observer->OnStoreBytes(shared->commits().totals().num_bytes);
  }
  if (!shared->environment().is_read_only()) shared->eraser().Start();
  return std::unique_ptr<LmdbDatasetStore>(new LmdbDatasetStore(std::move(shared), options));
}

LmdbDatasetStore::~LmdbDatasetStore() { shared_->eraser().Stop(); }

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
  bool may_need_room = false;
  const auto create = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    may_need_room = false;
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
    may_need_room = true;
    ++totals.num_entries;
    definition.dataset = totals.next_number++;
    PH_RETURN_IF_ERROR(transaction.Put(key, EncodeDefinition(definition)));
    return transaction.Put(StateKey(definition.dataset), EncodeState(state));
  };
  PH_RETURN_IF_ERROR(
      shared_->CommitWithRoom(create, kSmallChangeBytes + definition.schema.size(), may_need_room));
  return InfoOf(name, definition, state);
}

absl::StatusOr<AppendResult> LmdbDatasetStore::AppendTo(
    const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  PH_ASSIGN_OR_RETURN(const PreparedAppend append,
                      PrepareAppend(target, chunk, group_ids, producer));
  AppendResult result;
  bool may_need_room = false;
  const auto append_in = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_ASSIGN_OR_RETURN(result, AppendIn(transaction, totals, shared_->environment(),
                                         options_.max_bytes, append, may_need_room));
    return absl::OkStatus();
  };
  PH_RETURN_IF_ERROR(shared_->CommitWithRoom(
      append_in, kSmallChangeBytes + append.record.num_bytes(), may_need_room));
  return result;
}

absl::StatusOr<ProducerHistory> LmdbDatasetStore::GetProducer(const Target& target,
                                                              absl::string_view producer) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, target.name));
  PH_RETURN_IF_ERROR(CheckDatasetId(target.name, definition.id, target.id));
  const auto stored = transaction.Get(ProducerKey(definition.dataset, producer));
  if (!stored.ok()) return WithDatasetName(target.name, stored.status());
  if (!*stored) return ProducerHistory();
  auto history = DecodeProducer(**stored);
  if (!history.ok()) return WrongValue(transaction, target.name, history.status());
  return history;
}

absl::StatusOr<DatasetInfo> LmdbDatasetStore::Seal(const Target& target) {
  const absl::string_view name = target.name;
  const uint64_t version = DrawUnique();
  StoredDefinition definition;
  StoredState state;
  const auto seal = [&](LmdbTransaction& transaction, StoreTotals&) -> absl::Status {
    PH_ASSIGN_OR_RETURN(definition, ReadDefinition(transaction, name));
    PH_RETURN_IF_ERROR(CheckDatasetId(name, definition.id, target.id));
    PH_ASSIGN_OR_RETURN(state, ReadState(transaction, name, definition.dataset));
    if (state.sealed) return absl::OkStatus();
    state.sealed = true;
    state.version = version;
    return transaction.Put(StateKey(definition.dataset), EncodeState(state));
  };
  PH_RETURN_IF_ERROR(shared_->CommitWithRoom(seal, kSmallChangeBytes, true));
  return InfoOf(name, definition, state);
}

absl::StatusOr<DatasetInfo> LmdbDatasetStore::Get(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  return shared_->IfIntact(ReadInfo(transaction, name));
}

absl::StatusOr<SizeHistogram> LmdbDatasetStore::GetHistogram(absl::string_view name) const {
  return GetReservedHistogram(name, [](uint64_t /*bytes*/) { return absl::OkStatus(); });
}

absl::StatusOr<SizeHistogram> LmdbDatasetStore::GetReservedHistogram(
    absl::string_view name, absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
  PH_ASSIGN_OR_RETURN(const StoredState state, ReadState(transaction, name, definition.dataset));
  // A size may be in several runs.
  PH_RETURN_IF_ERROR(reserve(
      SizeHistogram::BytesFor(state.base_run_sizes + state.later_run_sizes, state.totals.size())));
  return shared_->IfIntact(ReadHistogram(transaction, name, definition.dataset, state, nullptr));
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
      } else if (!absl::IsDataLoss(info.status()) && !absl::IsNotFound(info.status())) {
        return info.status();  // Not found: what no call would take for a name.
      } else {
        DatasetInfo& damaged = list.datasets.emplace_back();
        damaged.name = std::string(name);
        damaged.state = DatasetState::kDamaged;
      }
    }
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  if (list.next_page_token.empty()) {
    // A name whose key was hit before it: it does not vanish without a word.
    PH_RETURN_IF_ERROR(ForEachStrayKey(transaction, [&](absl::string_view key) {
      DatasetInfo& damaged = list.datasets.emplace_back();
      damaged.name = std::string(key);
      damaged.state = DatasetState::kDamaged;
    }));
  }
  PH_RETURN_IF_ERROR(shared_->environment().CheckFiles());
  return list;
}

absl::Status LmdbDatasetStore::Delete(const Target& target) {
  const absl::string_view name = target.name;
  uint64_t dataset = 0;
  const auto erase = [&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
    PH_RETURN_IF_ERROR(CheckDatasetId(name, definition.id, target.id));
    dataset = definition.dataset;
    --totals.num_entries;
    PH_RETURN_IF_ERROR(transaction.Put(TombstoneKey(dataset), EncodeTombstone(name)));
    return transaction.Erase(NameKey(name));
  };
  PH_RETURN_IF_ERROR(shared_->CommitWithRoom(erase, kSmallChangeBytes, true));
  shared_->eraser().Add(dataset);
  return absl::OkStatus();
}

absl::StatusOr<VerifyReport> LmdbDatasetStore::Verify(
    absl::string_view name, absl::FunctionRef<bool(const VerifyProgress&)> progress) const {
  PH_ASSIGN_OR_RETURN(const OpenedDataset opened, LmdbSharedStore::OpenDataset(shared_, name));
  return VerifyDataset(opened, shared_->environment(), progress);
}

absl::StatusOr<std::shared_ptr<const DatasetReader>> LmdbDatasetStore::OpenReader(
    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(OpenedDataset opened, LmdbSharedStore::OpenDataset(shared_, name));
  std::optional<SizeHistogram> histogram;
  if (opened.histogram.ok()) histogram = *std::move(opened.histogram);
  auto reader = std::make_shared<const RecordDatasetReader>(
      std::move(opened.dataset), std::move(histogram),
      [environment = &shared_->environment()] { return environment->CheckFiles(); },
      std::move(opened.owner));
  PH_RETURN_IF_ERROR(reader->CheckIntact());
  return reader;
}

absl::StatusOr<std::shared_ptr<const DatasetChunks>> LmdbDatasetStore::OpenChunks(
    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(OpenedDataset opened, LmdbSharedStore::OpenDataset(shared_, name));
  PH_RETURN_IF_ERROR(CheckSealed(opened.dataset.info));
  return std::make_shared<const RecordDatasetChunks>(
      std::move(opened.dataset),
      [environment = &shared_->environment()] { return environment->CheckFiles(); },
      std::move(opened.owner));
}

absl::StatusOr<std::unique_ptr<DatasetsCut>> LmdbDatasetStore::TakeCut(
    StoredValueVisitor visit) const {
  return DatasetsCut::Take(shared_, visit);
}

absl::Status LmdbDatasetStore::WaitUntilErased() const {
  return shared_->eraser().WaitUntilErased();
}

absl::Status LmdbDatasetStore::health() const { return shared_->environment().CheckFiles(); }

uint64_t LmdbDatasetStore::num_bytes() const { return shared_->commits().totals().num_bytes; }

absl::Status LmdbDatasetStore::TryCommit(uint64_t bytes) {
  PH_RETURN_IF_ERROR(shared_->environment().CheckRoom(bytes));
  return shared_->commits().Run(
      [](LmdbTransaction& transaction, StoreTotals&) {
        return TouchFormat(transaction, FormatKey(), kStoreFormatVersion);
      },
      kSmallChangeBytes);
}

uint64_t LmdbDatasetStore::identity() const { return shared_->identity(); }

bool LmdbDatasetStore::is_read_only() const { return shared_->environment().is_read_only(); }

}  // namespace packhouse
