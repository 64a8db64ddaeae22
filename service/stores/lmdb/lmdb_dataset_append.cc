#include "service/stores/lmdb/lmdb_dataset_append.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/lmdb_dataset_values.h"
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
    if (!*stored && state.num_made_up > std::max(state.sweep_made_up_at, kMinMadeUpToSweep)) {
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

}  // namespace

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

}  // namespace packhouse
