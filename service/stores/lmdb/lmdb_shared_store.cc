#include "service/stores/lmdb/lmdb_shared_store.h"

#include <algorithm>
#include <optional>

#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_dataset_values.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {

absl::Status LmdbSharedStore::WriteFormatIfNew() {
  PH_ASSIGN_OR_RETURN(const bool has_format,
                      CheckFormat(*environment_, FormatKey(), kStoreFormatVersion));
  if (!environment_->is_read_only() && !has_format) {
    PH_RETURN_IF_ERROR(commits_.Run(
        [](LmdbTransaction& transaction, StoreTotals&) {
          return TouchFormat(transaction, FormatKey(), kStoreFormatVersion);
        },
        kSmallChangeBytes));
  }
  PH_ASSIGN_OR_RETURN(const auto format, ReadFormat(*environment_, FormatKey()));
  identity_ = format ? format->identity : 0;
  return absl::OkStatus();
}

absl::Status LmdbSharedStore::Load() {
  PH_RETURN_IF_ERROR(WriteFormatIfNew());
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
  PH_RETURN_IF_ERROR(ForEachKey(transaction, kTombstonePrefix,
                                [&](absl::string_view key, absl::string_view value) {
                                  const auto dataset = NumberAtEnd(key);
                                  // A damaged tombstone might name a data set that exists.
                                  if (dataset && CheckedPayload(key, value).ok()) {
                                    totals.next_number = std::max(totals.next_number, *dataset + 1);
                                    eraser_.Add(*dataset);
                                  }
                                  return true;
                                }));
  commits_.SetTotals(totals);
  return absl::OkStatus();
}

absl::Status LmdbSharedStore::CommitWithRoom(GroupCommit::Change change, uint64_t num_bytes,
                                             const bool& may_need_room) {
  while (true) {
    const uint64_t num_steps = eraser_.num_steps();
    absl::Status status = commits_.Run(change, num_bytes);
    if (!absl::IsResourceExhausted(status) || !may_need_room || !eraser_.WaitForStep(num_steps)) {
      return status;
    }
  }
}

std::shared_ptr<const void> LmdbSharedStore::Pin(const std::shared_ptr<LmdbSharedStore>& shared,
                                                 uint64_t dataset) {
  shared->eraser_.Pin(dataset);
  return std::shared_ptr<const void>(
      shared.get(), [shared, dataset](const void*) { shared->eraser_.Unpin(dataset); });
}

absl::StatusOr<OpenedDataset> LmdbSharedStore::OpenDataset(
    const std::shared_ptr<LmdbSharedStore>& shared, absl::string_view name) {
  OpenedDataset opened;
  // A pin helps only if the data set still exists afterwards: after an earlier deletion it may
  // already be being erased.
  PH_ASSIGN_OR_RETURN(const StoredDefinition pinned, shared->Definition(name));
  const uint64_t dataset = pinned.dataset;
  opened.dataset.id = dataset;
  opened.owner = Pin(shared, dataset);
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared->Read());
  PH_ASSIGN_OR_RETURN(const StoredDefinition definition, ReadDefinition(transaction, name));
  // It was deleted and created again just now.
  if (definition.dataset != dataset) return NoSuchDataset(name);
  PH_ASSIGN_OR_RETURN(opened.state, ReadState(transaction, name, dataset));
  PH_ASSIGN_OR_RETURN(opened.dataset.info, InfoOf(name, definition, opened.state));
  opened.histogram = ReadHistogram(transaction, name, dataset, opened.state, nullptr);
  opened.producers = CheckProducers(transaction, name, dataset, opened.state);
  PH_RETURN_IF_ERROR(ForEachKey(transaction, RecordPrefix(dataset),
                                [&](absl::string_view key, absl::string_view value) {
                                  opened.dataset.Add(NumberAtEnd(key).value_or(UINT64_MAX), value);
                                  return true;
                                }));
  opened.dataset.End();
  PH_RETURN_IF_ERROR(shared->environment_->CheckFiles());
  return opened;
}

absl::StatusOr<StoredDefinition> LmdbSharedStore::Definition(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, Read());
  return ReadDefinition(transaction, name);
}

}  // namespace packhouse
