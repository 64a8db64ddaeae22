#include "service/delivery/job_ledger.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

std::string NameOf(const EpochKey& key) {
  return absl::StrCat("epoch ", key.epoch, " of job '", key.job, "'");
}

}  // namespace

absl::StatusOr<JobLedger> JobLedger::Replay(absl::Span<const std::string> records) {
  JobLedger ledger;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto event = DecodeEvent(records[i]);
    const absl::Status status = event.ok() ? ledger.Apply(*event) : event.status();
    if (!status.ok()) {
      return absl::DataLossError(absl::StrCat("ledger: record ", i, ": ", status.message()));
    }
  }
  return ledger;
}

absl::Status JobLedger::Apply(const LedgerEvent& event) {
  return std::visit([this](const auto& one) { return ApplyOne(one); }, event);
}

absl::Status JobLedger::ApplyOne(const EpochOpened& event) {
  const auto [found, is_new] = epochs_.try_emplace(event.identity.key);
  if (!is_new) return CheckSameEpoch(found->second.identity, event.identity, "ledger");
  found->second.identity = event.identity;
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const GenerationStarted& event) {
  const auto found = epochs_.find(event.epoch);
  if (found == epochs_.end()) {
    return absl::FailedPreconditionError(absl::StrCat(NameOf(event.epoch), ": is not open"));
  }
  EpochState& epoch = found->second;
  const uint64_t last = LastGeneration(event.epoch.job);
  if (event.generation <= last) {
    return absl::FailedPreconditionError(absl::StrCat(
        NameOf(event.epoch), ": generation ", event.generation, " was used, the last is ", last));
  }
  if (event.base.end() > epoch.identity.num_batches()) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(event.epoch), ": batch ",
                                                   event.base.end() - 1, " is done, there are ",
                                                   epoch.identity.num_batches()));
  }
  last_generation_[event.epoch.job] = event.generation;
  epoch.generation = event.generation;
  epoch.attempt = event.attempt;
  epoch.sharing = event.sharing;
  epoch.base = event.base;
  epoch.done = event.base;
  epoch.workers.clear();
  return absl::OkStatus();
}

EpochState* JobLedger::FindCurrent(const EpochKey& key, uint64_t generation) {
  const auto found = epochs_.find(key);
  if (found == epochs_.end() || generation == 0) return nullptr;
  return found->second.generation == generation ? &found->second : nullptr;
}

absl::Status JobLedger::ApplyOne(const WorkerJoined& event) {
  if (EpochState* const epoch = FindCurrent(event.epoch, event.generation)) {
    epoch->workers.insert(event.worker);
  }
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const BatchesAcknowledged& event) {
  if (EpochState* const epoch = FindCurrent(event.epoch, event.generation)) {
    epoch->done.InsertAll(event.batches);
  }
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const EpochForgotten& event) {
  epochs_.erase(event.epoch);
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const GenerationsUsed& event) {
  uint64_t& last = last_generation_[event.job];
  last = std::max(last, event.last);
  return absl::OkStatus();
}

const EpochState* JobLedger::Find(const EpochKey& key) const {
  const auto found = epochs_.find(key);
  return found == epochs_.end() ? nullptr : &found->second;
}

std::vector<EpochKey> JobLedger::EpochsAfter(const EpochKey& key) const {
  std::vector<EpochKey> later;
  for (auto epoch = epochs_.upper_bound(key); epoch != epochs_.end() && epoch->first.job == key.job;
       ++epoch) {
    later.push_back(epoch->first);
  }
  return later;
}

uint64_t JobLedger::LastGeneration(const std::string& job) const {
  const auto found = last_generation_.find(job);
  return found == last_generation_.end() ? 0 : found->second;
}

std::vector<std::string> JobLedger::Snapshot() const {
  std::vector<std::string> records;
  // Generations must come in their order, which need not be that of the epochs.
  std::vector<const EpochState*> by_generation;
  for (const auto& [key, epoch] : epochs_) by_generation.push_back(&epoch);
  std::stable_sort(
      by_generation.begin(), by_generation.end(),
      [](const EpochState* a, const EpochState* b) { return a->generation < b->generation; });
  for (const EpochState* const epoch : by_generation) {
    const EpochKey& key = epoch->identity.key;
    records.push_back(EncodeEvent(EpochOpened{epoch->identity}));
    if (epoch->generation == 0) continue;
    records.push_back(EncodeEvent(
        GenerationStarted{key, epoch->generation, epoch->attempt, epoch->sharing, epoch->base}));
    for (const std::string& worker : epoch->workers) {
      records.push_back(EncodeEvent(WorkerJoined{key, epoch->generation, worker}));
    }
    if (epoch->done == epoch->base) continue;
    records.push_back(EncodeEvent(BatchesAcknowledged{key, epoch->generation, epoch->done}));
  }
  for (const auto& [job, last] : last_generation_) {
    records.push_back(EncodeEvent(GenerationsUsed{job, last}));
  }
  return records;
}

}  // namespace packhouse
