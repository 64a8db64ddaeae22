#include "service/stores/lmdb/lmdb_dataset_values.h"

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {
absl::Status WithDatasetName(absl::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("data set '", name, "': ", status.message()));
}

absl::Status WrongValue(const LmdbTransaction& transaction, absl::string_view name,
                        const absl::Status& status) {
  PH_RETURN_IF_ERROR(transaction.failure());
  return WithDatasetName(name, status);
}

absl::Status NoSuchDataset(absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("data set: there is none named '",
                   absl::CHexEscape(name.substr(0, DatasetStore::kMaxNameLength)), "'"));
}

absl::StatusOr<StoredDefinition> ReadDefinition(const LmdbTransaction& transaction,
                                                absl::string_view name) {
  // Checked first, since LMDB refuses a key that is too long.
  if (!CheckDatasetName(name).ok()) return NoSuchDataset(name);
  const auto payload = transaction.Get(NameKey(name));
  if (!payload.ok()) return WithDatasetName(name, payload.status());
  if (!*payload) return NoSuchDataset(name);
  auto definition = DecodeDefinition(**payload);
  if (!definition.ok()) return WrongValue(transaction, name, definition.status());
  return definition;
}

absl::StatusOr<StoredState> ReadState(const LmdbTransaction& transaction, absl::string_view name,
                                      uint64_t dataset) {
  const auto payload = transaction.Get(StateKey(dataset));
  if (!payload.ok()) return WithDatasetName(name, payload.status());
  if (!*payload) return WithDatasetName(name, absl::DataLossError("its state is missing"));
  auto state = DecodeState(**payload);
  if (!state.ok()) return WrongValue(transaction, name, state.status());
  return state;
}

absl::StatusOr<DatasetInfo> InfoOf(absl::string_view name, const StoredDefinition& definition,
                                   const StoredState& state) {
  auto schema = DecodeSchema(definition.schema);
  if (!schema.ok()) return WithDatasetName(name, schema.status());
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

absl::StatusOr<SizeHistogram> ReadHistogram(const LmdbTransaction& transaction,
                                            absl::string_view name, uint64_t dataset,
                                            const StoredState& state,
                                            std::vector<std::string>* keys) {
  SizeHistogram histogram(state.totals.size());
  const std::string prefix = HistogramPrefix(dataset);
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
  while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
    const auto payload = CheckedPayload(cursor.key(), cursor.raw_value());
    if (!payload.ok()) return WrongValue(transaction, name, payload.status());
    if (const absl::Status added = AddRun(*payload, histogram); !added.ok()) {
      return WrongValue(transaction, name, added);
    }
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

absl::Status CheckProducers(const LmdbTransaction& transaction, absl::string_view name,
                            uint64_t dataset, const StoredState& state) {
  const std::string prefix = ProducerPrefix(dataset);
  uint64_t found = 0;
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
  while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
    PH_RETURN_IF_ERROR(
        WithDatasetName(name, CheckedPayload(cursor.key(), cursor.raw_value()).status()));
    ++found;
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  if (found == state.num_producers) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data set '", name, "': there are ", found,
                                          " producers, should be ", state.num_producers));
}

absl::Status ForEachKey(
    const LmdbTransaction& transaction, absl::string_view prefix,
    absl::FunctionRef<bool(absl::string_view key, absl::string_view raw_value)> visit) {
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
  while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
    if (!visit(cursor.key(), cursor.raw_value())) return absl::OkStatus();
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  return absl::OkStatus();
}

absl::Status ForEachStrayKey(const LmdbTransaction& transaction,
                             absl::FunctionRef<void(absl::string_view key)> visit) {
  const std::string format = FormatKey();
  for (std::string from(1, '\0');;) {
    PH_ASSIGN_OR_RETURN(const LmdbCursor cursor, LmdbCursor::At(transaction, from));
    if (!cursor.valid()) return absl::OkStatus();
    const absl::string_view key = cursor.key();
    bool is_known = key == format;
    for (const absl::string_view prefix : {kNamePrefix, kStatePrefix, kRecordPrefix,
                                           kHistogramPrefix, kProducerPrefix, kTombstonePrefix}) {
      is_known |= absl::StartsWith(key, prefix);
    }
    if (!is_known) visit(key);
    const auto first = static_cast<unsigned char>(key.empty() ? 0 : key[0]);
    if (first == 0xff) return absl::OkStatus();
    from = std::string(1, static_cast<char>(first + 1));
  }
}

}  // namespace packhouse
