#include "service/stores/lmdb/lmdb_dataset_eraser.h"

#include <algorithm>

#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_dataset_values.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {

void LmdbDatasetEraser::Start() {
  {
    absl::MutexLock lock(&mutex_);
    is_started_ = true;
  }
  thread_ = Thread([this] { Run(); });
}

void LmdbDatasetEraser::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void LmdbDatasetEraser::Add(uint64_t dataset) {
  absl::MutexLock lock(&mutex_);
  deleted_.insert(dataset);
  refusal_ = absl::OkStatus();
}

void LmdbDatasetEraser::Pin(uint64_t dataset) {
  absl::MutexLock lock(&mutex_);
  ++num_pins_[dataset];
}

void LmdbDatasetEraser::Unpin(uint64_t dataset) {
  absl::MutexLock lock(&mutex_);
  const auto found = num_pins_.find(dataset);
  if (--found->second != 0) return;
  num_pins_.erase(found);
  if (deleted_.contains(dataset)) refusal_ = absl::OkStatus();
}

uint64_t LmdbDatasetEraser::num_steps() const {
  absl::MutexLock lock(&mutex_);
  return num_steps_;
}

bool LmdbDatasetEraser::WaitForStep(uint64_t seen) const {
  absl::MutexLock lock(&mutex_);
  const auto is_answered = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return num_steps_ != seen || !IsBusy();
  };
  mutex_.Await(absl::Condition(&is_answered));
  return num_steps_ != seen;
}

absl::Status LmdbDatasetEraser::WaitUntilErased() const {
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !IsBusy(); };
  mutex_.Await(absl::Condition(&is_idle));
  return refusal_;
}

uint64_t LmdbDatasetEraser::Erasable() const {
  for (const uint64_t dataset : deleted_) {
    if (!num_pins_.contains(dataset)) return dataset;
  }
  return 0;
}

void LmdbDatasetEraser::Run() {
  while (true) {
    uint64_t dataset = 0;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return is_stopping_ || IsBusy();
      };
      while (!has_work()) {
        if (refusal_.ok()) {
          mutex_.Await(absl::Condition(&has_work));
        } else if (!mutex_.AwaitWithTimeout(absl::Condition(&has_work), kRetryInterval)) {
          refusal_ = absl::OkStatus();
        }
      }
      if (is_stopping_) return;
      dataset = Erasable();
    }
    // No other thread erases it meanwhile, and it cannot be opened any more: a caller that pins it
    // now sees that its name is gone, and lets go.
    absl::StatusOr<bool> is_all = OutOfMemory();
    RunWithinMemory([&] { is_all = EraseSome(dataset); });
    absl::MutexLock lock(&mutex_);
    if (!is_all.ok()) {
      refusal_ = is_all.status();
      continue;
    }
    ++num_steps_;
    if (*is_all) deleted_.erase(dataset);
  }
}

absl::StatusOr<bool> LmdbDatasetEraser::EraseSome(uint64_t dataset) {
  PH_ASSIGN_OR_RETURN(const Portion portion, ReadPortion(dataset));
  PH_RETURN_IF_ERROR(
      commits_->RunBehind([&](LmdbTransaction& transaction, StoreTotals& totals) -> absl::Status {
        return ErasePortion(portion, dataset, transaction, totals);
      }));
  return portion.is_last;
}

absl::StatusOr<LmdbDatasetEraser::Portion> LmdbDatasetEraser::ReadPortion(uint64_t dataset) const {
  PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                      LmdbTransaction::Begin(*environment_, LmdbTransaction::Kind::kRead));
  Portion portion;
  const auto is_full = [&] {
    return portion.keys.size() >= kMaxKeys || portion.num_bytes >= kMaxBytes;
  };
  const std::string records = RecordPrefix(dataset);
  for (const std::string& prefix : {records, HistogramPrefix(dataset), ProducerPrefix(dataset)}) {
    const bool is_record = prefix == records;
    PH_RETURN_IF_ERROR(
        ForEachKey(transaction, prefix, [&](absl::string_view key, absl::string_view raw_value) {
          if (is_full()) return false;
          portion.keys.emplace_back(key);
          if (!is_record || raw_value.empty()) return true;
          portion.num_bytes += environment_->BytesOnDisk(raw_value.size());
          // LMDB reads the first page of a value that it erases. Reading it here brings it into
          // memory, so that no commit waits for the disk.
          static_cast<void>(*static_cast<const volatile char*>(raw_value.data()));
          return true;
        }));
  }
  // The last portion is a commit of its own. LMDB reuses freed pages only from the second commit
  // after the one that freed them. So an append that waits for room finds all of it after the last
  // commit.
  portion.is_last = portion.keys.empty();
  return portion;
}

absl::Status LmdbDatasetEraser::ErasePortion(const Portion& portion, uint64_t dataset,
                                             LmdbTransaction& transaction,
                                             StoreTotals& totals) const {
  for (const std::string& key : portion.keys) PH_RETURN_IF_ERROR(transaction.Erase(key));
  // The store counts what the state counts. A state that cannot be read was never counted.
  const std::string key = StateKey(dataset);
  PH_ASSIGN_OR_RETURN(const auto raw, transaction.GetRaw(key));
  if (raw) {
    const auto payload = CheckedPayload(key, *raw);
    auto state = payload.ok() ? DecodeState(*payload) : payload.status();
    if (state.ok()) {
      const uint64_t freed =
          portion.is_last ? state->num_bytes : std::min(state->num_bytes, portion.num_bytes);
      state->num_bytes -= freed;
      totals.num_bytes -= std::min(totals.num_bytes, freed);
      // So that a server that starts in between counts what is left.
      if (!portion.is_last) PH_RETURN_IF_ERROR(transaction.Put(key, EncodeState(*state)));
    }
  }
  if (!portion.is_last) return absl::OkStatus();
  PH_RETURN_IF_ERROR(transaction.Erase(key));
  return transaction.Erase(TombstoneKey(dataset));
}

}  // namespace packhouse
