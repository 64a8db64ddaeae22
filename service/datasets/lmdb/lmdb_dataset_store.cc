#include "service/datasets/lmdb/lmdb_dataset_store.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/datasets/chunk_record.h"
#include "service/datasets/lmdb/group_commit.h"
#include "service/datasets/lmdb/lmdb_dataset_append.h"
#include "service/datasets/lmdb/lmdb_dataset_eraser.h"
#include "service/datasets/lmdb/lmdb_dataset_reader.h"
#include "service/datasets/lmdb/lmdb_dataset_values.h"
#include "service/datasets/lmdb/lmdb_environment.h"
#include "service/datasets/lmdb/stored_values.h"

namespace packhouse {
namespace {

using Kind = LmdbTransaction::Kind;

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

// What outlives the store as long as somebody reads from it.
class LmdbDatasetStore::Shared {
 public:
  Shared(std::unique_ptr<LmdbEnvironment> environment, CommitObserver* observer)
      : environment_(std::move(environment)),
        commits_(environment_.get(), observer),
        eraser_(environment_.get(), &commits_) {}

  const LmdbEnvironment& environment() const { return *environment_; }
  GroupCommit& commits() { return commits_; }
  LmdbDatasetEraser& eraser() { return eraser_; }

  // What was read is worth something only if the store's file was there throughout.
  template <typename T>
  absl::StatusOr<T> IfIntact(absl::StatusOr<T> read) const {
    PH_RETURN_IF_ERROR(environment_->CheckFiles());
    return read;
  }

  absl::StatusOr<LmdbTransaction> Read() const {
    return LmdbTransaction::Begin(*environment_, Kind::kRead);
  }

  // Makes a change durable. Where there is no room for it, and it says that this is what it needs,
  // waits for what was deleted before and can be erased.
  absl::Status CommitWithRoom(GroupCommit::Change change, uint64_t num_bytes,
                              const bool& may_need_room) {
    while (true) {
      const uint64_t num_steps = eraser_.num_steps();
      absl::Status status = commits_.Run(change, num_bytes);
      if (!absl::IsResourceExhausted(status) || !may_need_room || !eraser_.WaitForStep(num_steps)) {
        return status;
      }
    }
  }

  // Until the returned owner goes, nothing of the data set is erased.
  static std::shared_ptr<const void> Pin(const std::shared_ptr<Shared>& shared, uint64_t dataset) {
    shared->eraser_.Pin(dataset);
    return std::shared_ptr<const void>(
        shared.get(), [shared, dataset](const void*) { shared->eraser_.Unpin(dataset); });
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
    // Deleted and made again just now.
    if (definition.dataset != dataset) return NoSuchDataset(name);
    PH_ASSIGN_OR_RETURN(opened.state, ReadState(transaction, name, dataset));
    PH_ASSIGN_OR_RETURN(opened.dataset.info, InfoOf(name, definition, opened.state));
    opened.histogram = ReadHistogram(transaction, name, dataset, opened.state, nullptr);
    opened.producers = CheckProducers(transaction, name, dataset, opened.state);
    PH_RETURN_IF_ERROR(ForEachKey(
        transaction, RecordPrefix(dataset), [&](absl::string_view key, absl::string_view value) {
          opened.dataset.Add(NumberAtEnd(key).value_or(UINT64_MAX), value);
          return true;
        }));
    opened.dataset.End();
    PH_RETURN_IF_ERROR(shared->environment_->CheckFiles());
    return opened;
  }

  // Reads what the store is made of, and what was deleted before.
  absl::Status Load() {
    PH_ASSIGN_OR_RETURN(const bool has_format,
                        CheckFormat(*environment_, FormatKey(), kStoreFormatVersion));
    if (!environment_->is_read_only() && !has_format) {
      PH_RETURN_IF_ERROR(commits_.Run(
          [](LmdbTransaction& transaction, StoreTotals&) {
            return transaction.Put(FormatKey(), EncodeNumber(kStoreFormatVersion));
          },
          kSmallChangeBytes));
    }
    StoreTotals totals;
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, Read());
    PH_RETURN_IF_ERROR(
        ForEachKey(transaction, kNamePrefix, [&](absl::string_view, absl::string_view) {
          ++totals.num_entries;
          return true;
        }));
    PH_RETURN_IF_ERROR(
        ForEachKey(transaction, kStatePrefix, [&](absl::string_view key, absl::string_view value) {
          const auto dataset = NumberAtEnd(key);
          if (dataset) totals.next_number = std::max(totals.next_number, *dataset + 1);
          const auto payload = CheckedPayload(key, value);
          if (!payload.ok()) return true;
          const auto state = DecodeState(*payload);
          if (state.ok()) totals.num_bytes += state->num_bytes;
          return true;
        }));
    PH_RETURN_IF_ERROR(ForEachKey(
        transaction, kTombstonePrefix, [&](absl::string_view key, absl::string_view value) {
          const auto dataset = NumberAtEnd(key);
          // A damaged one might be of a data set that is there.
          if (dataset && CheckedPayload(key, value).ok()) {
            totals.next_number = std::max(totals.next_number, *dataset + 1);
            eraser_.Add(*dataset);
          }
          return true;
        }));
    commits_.SetTotals(totals);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<StoredDefinition> Definition(absl::string_view name) const {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, Read());
    return ReadDefinition(transaction, name);
  }

  const std::unique_ptr<LmdbEnvironment> environment_;
  GroupCommit commits_;
  LmdbDatasetEraser eraser_;
};

absl::StatusOr<std::unique_ptr<LmdbDatasetStore>> LmdbDatasetStore::Open(const Options& options) {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<LmdbEnvironment> environment,
                      LmdbEnvironment::Open(options.folder, MapBytes(options.max_bytes)));
  auto shared = std::make_shared<Shared>(std::move(environment), options.observer);
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
  PH_RETURN_IF_ERROR(shared_->CommitWithRoom(seal, kSmallChangeBytes, true));
  return InfoOf(name, definition, state);
}

absl::StatusOr<DatasetInfo> LmdbDatasetStore::Get(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  return shared_->IfIntact(ReadInfo(transaction, name));
}

absl::StatusOr<SizeHistogram> LmdbDatasetStore::GetHistogram(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
  PH_ASSIGN_OR_RETURN(const StoredState state, ReadState(transaction, name, definition.dataset));
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
      } else {
        DatasetInfo& damaged = list.datasets.emplace_back();
        damaged.name = std::string(name);
        damaged.state = DatasetState::kDamaged;
      }
    }
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  PH_RETURN_IF_ERROR(shared_->environment().CheckFiles());
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
  PH_RETURN_IF_ERROR(shared_->CommitWithRoom(erase, kSmallChangeBytes, true));
  shared_->eraser().Add(dataset);
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

  if (absl::Status lost = shared_->environment().CheckFiles(); !lost.ok()) {
    report.disagreements.push_back(std::move(lost));
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
  auto reader =
      std::make_shared<const LmdbDatasetReader>(std::move(opened.dataset), std::move(histogram),
                                                &shared_->environment(), std::move(opened.owner));
  PH_RETURN_IF_ERROR(reader->CheckIntact());
  return reader;
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
        return transaction.Put(FormatKey(), EncodeNumber(kStoreFormatVersion));
      },
      kSmallChangeBytes);
}

bool LmdbDatasetStore::is_read_only() const { return shared_->environment().is_read_only(); }

}  // namespace packhouse
