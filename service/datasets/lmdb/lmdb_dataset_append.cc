#include "service/datasets/lmdb/lmdb_dataset_append.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/datasets/lmdb/lmdb_dataset_values.h"
#include "service/datasets/lmdb/stored_keys.h"
#include "service/datasets/stored_values.h"

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

  std::string producer_key;
  if (append.producer) {
    producer_key = ProducerKey(dataset, append.producer->producer);
    const auto last = transaction.Get(producer_key);
    if (!last.ok()) return WithDatasetName(name, last.status());
    if (*last) {
      const auto sequence = DecodeProducer(**last);
      if (!sequence.ok()) return WrongValue(transaction, name, sequence.status());
      if (append.producer->sequence <= *sequence) {
        result.is_repetition = true;
        return result;
      }
    } else if (state.num_producers >= DatasetStore::kMaxProducers) {
      return TooManyProducers(name, state.num_producers);
    } else {
      // A producer with a damaged name would look new, and its retry would be stored twice.
      PH_RETURN_IF_ERROR(CheckProducers(transaction, name, dataset, state));
      ++state.num_producers;
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
    PH_RETURN_IF_ERROR(transaction.Put(producer_key, EncodeProducer(append.producer->sequence)));
  }
  PH_RETURN_IF_ERROR(transaction.Put(StateKey(dataset), EncodeState(state)));
  return result;
}

}  // namespace packhouse
