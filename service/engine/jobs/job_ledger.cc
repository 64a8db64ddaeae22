#include "service/engine/jobs/job_ledger.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/event_codec.h"

namespace packhouse {
namespace {

std::string NameOf(const EpochKey& key) {
  return absl::StrCat("epoch ", key.epoch, " of job ", Quoted(key.job));
}

}  // namespace

uint64_t EpochState::Bytes() const {
  constexpr uint64_t kBytesPerWorker = 256;  // Names have up to 128.
  uint64_t bytes = sizeof(EpochState) + 512 + identity.options.size() + identity.dataset.size() +
                   identity.key.job.size() + attempt.size() + client.size() + plan.size() +
                   words.size();
  for (const IdentityRankGroup& rank_group : identity.rank_groups) {
    bytes += sizeof(rank_group) + rank_group.capacities.size() * sizeof(uint64_t);
  }
  bytes += (base.num_runs() + done.num_runs()) * kBytesPerRun;
  bytes += workers.size() * kBytesPerWorker;
  // The list may have up to twice the room that it needs.
  bytes += 2 * windows.size() * sizeof(uint32_t);
  return bytes + sharing.rank_group_of_rank.size() * sizeof(uint32_t);
}

uint64_t EpochState::ExpectedBatches() const {
  const std::vector<uint64_t> guess = GuessBatches(identity, windows);
  return std::accumulate(guess.begin(), guess.end(), uint64_t{0});
}

std::vector<uint64_t> KnownBatches(const EpochIdentity& identity,
                                   absl::Span<const uint32_t> windows) {
  std::vector<uint64_t> known(identity.rank_groups.size());
  for (size_t i = 0; i < windows.size(); ++i) known[i % known.size()] += windows[i];
  for (size_t j = 0; identity.num_windows == 0 && j < known.size(); ++j) {
    known[j] = identity.rank_groups[j].num_batches;
  }
  return known;
}

std::vector<uint64_t> GuessBatches(const EpochIdentity& identity,
                                   absl::Span<const uint32_t> windows) {
  std::vector<uint64_t> guess = KnownBatches(identity, windows);
  if (windows.size() == identity.num_counts()) return guess;
  const uint64_t known = windows.size() / guess.size();
  for (size_t j = 0; j < guess.size(); ++j) {
    const uint64_t most = identity.rank_groups[j].num_batches;
    // At most 2^32 batches and 2^16 windows.
    guess[j] =
        known == 0 ? most : std::min(most, (guess[j] * identity.num_windows + known - 1) / known);
  }
  return guess;
}

bool FitsWindows(const EpochIdentity& identity, absl::Span<const uint32_t> windows) {
  if (windows.size() > identity.num_counts()) return false;
  if (!windows.empty() && windows.size() % identity.rank_groups.size() != 0) return false;
  const std::vector<uint64_t> known = KnownBatches(identity, windows);
  for (size_t j = 0; j < known.size(); ++j) {
    if (known[j] > identity.rank_groups[j].num_batches) return false;
  }
  return true;
}

JobLedger::JobLedger(const JobLedger& other)
    : expired_(other.expired_),
      plans_(other.plans_),
      last_generation_(other.last_generation_),
      last_opening_(other.last_opening_),
      bytes_(other.bytes_),
      plan_bytes_(other.plan_bytes_) {
  for (const auto& [key, slot] : other.epochs_) {
    epochs_.emplace(key, Slot{std::make_shared<EpochState>(*slot.state), false, slot.opening});
  }
}

JobLedger& JobLedger::operator=(const JobLedger& other) {
  if (this != &other) *this = JobLedger(other);
  return *this;
}

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

JobLedger JobLedger::Fork() {
  JobLedger fork;
  for (auto& [key, slot] : epochs_) {
    slot.is_shared = true;
    fork.epochs_.emplace_hint(fork.epochs_.end(), key, slot);
  }
  fork.expired_ = expired_;
  fork.plans_ = plans_;
  fork.plan_bytes_ = plan_bytes_;
  fork.last_generation_ = last_generation_;
  fork.last_opening_ = last_opening_;
  fork.bytes_ = bytes_;
  return fork;
}

absl::Status JobLedger::Apply(const LedgerEvent& event) {
  return std::visit(
      [this](const auto& one) {
        if constexpr (std::is_same_v<decltype(one), const GenerationsUsed&>) {
          return ApplyOne(one);
        } else {
          const uint64_t before = BytesOf(KeyOf(one));
          const absl::Status status = ApplyOne(one);
          bytes_ += BytesOf(KeyOf(one)) - before;
          return status;
        }
      },
      event);
}

uint64_t JobLedger::BytesOf(const EpochKey& key) const {
  const EpochState* const state = Find(key);
  return state == nullptr ? 0 : state->Bytes();
}

absl::Status JobLedger::ApplyOne(const EpochOpened& event) {
  const auto [found, is_new] = epochs_.try_emplace(event.identity.key);
  if (!is_new) return CheckSameEpoch(found->second.state->identity, event.identity, "ledger");
  found->second.state = std::make_shared<EpochState>();
  found->second.state->identity = event.identity;
  found->second.opening = ++last_opening_;
  expired_.erase(event.identity.key);
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const EpochPlanned& event) {
  const EpochState* const epoch = Find(event.epoch);
  if (epoch == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(NameOf(event.epoch), ": is not open"));
  }
  if (!epoch->plan.empty()) {
    if (epoch->plan == event.digest) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(event.epoch), ": has plan ", epoch->plan, ", not ", event.digest));
  }
  std::shared_ptr<const KeptPlan> plan = event.plan;
  if (const auto found = plans_.find(event.digest); found != plans_.end()) {
    plan = found->second.plan;
  }
  if (plan == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(event.epoch), ": plan ", event.digest, " is not there"));
  }
  UsePlan(plan);
  FindMutable(event.epoch)->plan = event.digest;
  return absl::OkStatus();
}

void JobLedger::UsePlan(const std::shared_ptr<const KeptPlan>& plan) {
  PlanInUse& used = plans_[plan->digest];
  if (used.num_epochs++ != 0) return;
  used.plan = plan;
  plan_bytes_ += BytesOf(*plan);
}

void JobLedger::Erase(const EpochKey& key) {
  const auto found = epochs_.find(key);
  if (found == epochs_.end()) return;
  if (const std::string& digest = found->second.state->plan; !digest.empty()) {
    const auto used = plans_.find(digest);
    if (--used->second.num_epochs == 0) {
      plan_bytes_ -= BytesOf(*used->second.plan);
      plans_.erase(used);
    }
  }
  epochs_.erase(found);
}

std::shared_ptr<const KeptPlan> JobLedger::PlanOf(const EpochKey& key) const {
  const EpochState* const epoch = Find(key);
  return epoch == nullptr || epoch->plan.empty() ? nullptr : plans_.at(epoch->plan).plan;
}

uint64_t JobLedger::LastOf(const std::string& job) const {
  uint64_t last = 0;
  for (auto epoch = epochs_.lower_bound({job, 0});
       epoch != epochs_.end() && epoch->first.job == job; ++epoch) {
    last = std::max(last, epoch->second.state->generation);
  }
  return last;
}

absl::Status JobLedger::ApplyOne(const GenerationStarted& event) {
  const auto found = epochs_.find(event.epoch);
  if (found == epochs_.end()) {
    return absl::FailedPreconditionError(absl::StrCat(NameOf(event.epoch), ": is not open"));
  }
  const uint64_t last = LastOf(event.epoch.job);
  if (event.generation <= last) {
    return absl::FailedPreconditionError(absl::StrCat(
        NameOf(event.epoch), ": generation ", event.generation, " was used, the last is ", last));
  }
  const uint64_t num_batches = found->second.state->identity.num_batches();
  if (event.base.end() > num_batches) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(event.epoch), ": batch ",
                                                   event.base.end() - 1, " is done, there are ",
                                                   num_batches));
  }
  last_generation_ = std::max(last_generation_, event.generation);
  EpochState& epoch = *FindMutable(event.epoch);
  epoch.generation = event.generation;
  epoch.attempt = event.attempt;
  epoch.sharing = event.sharing;
  epoch.base = event.base;
  epoch.done = event.base;
  epoch.workers.clear();
  return absl::OkStatus();
}

EpochState* JobLedger::FindMutable(const EpochKey& key) {
  const auto found = epochs_.find(key);
  if (found == epochs_.end()) return nullptr;
  Slot& slot = found->second;
  if (slot.is_shared) {
    slot.state = std::make_shared<EpochState>(*slot.state);
    slot.is_shared = false;
  }
  return slot.state.get();
}

EpochState* JobLedger::FindCurrent(const EpochKey& key, uint64_t generation) {
  const EpochState* const epoch = Find(key);
  if (epoch == nullptr || generation == 0 || epoch->generation != generation) return nullptr;
  return FindMutable(key);
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
  Erase(event.epoch);
  expired_.erase(event.epoch);
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const GenerationsUsed& event) {
  last_generation_ = std::max(last_generation_, event.last);
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const EpochOwned& event) {
  if (EpochState* const epoch = FindMutable(event.epoch)) epoch->client = event.client;
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const EpochUsed& event) {
  if (EpochState* const epoch = FindMutable(event.epoch)) {
    epoch->used_seconds = std::max(epoch->used_seconds, event.seconds);
  }
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const EpochExpired& event) {
  Erase(event.epoch);
  expired_[event.epoch] = {event.generation, event.seconds};
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const WindowsCounted& event) {
  const EpochState* const epoch = Find(event.epoch);
  if (epoch == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(NameOf(event.epoch), ": is not open"));
  }
  const EpochIdentity& identity = epoch->identity;
  std::vector<uint32_t> windows = epoch->windows;
  windows.insert(windows.end(), event.num_batches.begin(), event.num_batches.end());
  const size_t num_groups = identity.rank_groups.size();
  if (event.first_window * num_groups != epoch->windows.size() || !FitsWindows(identity, windows)) {
    return absl::InvalidArgumentError(absl::StrCat(
        NameOf(event.epoch), ": ", event.num_batches.size(), " numbers of batches of windows from ",
        event.first_window, " on, with ",
        std::accumulate(windows.begin(), windows.end(), uint64_t{0}), " batches so far; ",
        epoch->windows.size() / num_groups, " of ", identity.num_windows, " are known, of ",
        num_groups, " rank groups with at most ", identity.num_batches(), " batches"));
  }
  FindMutable(event.epoch)->windows = std::move(windows);
  return absl::OkStatus();
}

absl::Status JobLedger::ApplyOne(const EpochWorded& event) {
  if (EpochState* const epoch = FindMutable(event.epoch)) epoch->words = event.words;
  return absl::OkStatus();
}

const EpochState* JobLedger::Find(const EpochKey& key) const {
  const auto found = epochs_.find(key);
  return found == epochs_.end() ? nullptr : found->second.state.get();
}

uint64_t JobLedger::OpeningOf(const EpochKey& key) const {
  const auto found = epochs_.find(key);
  return found == epochs_.end() ? 0 : found->second.opening;
}

const ExpiredEpoch* JobLedger::FindExpired(const EpochKey& key) const {
  const auto found = expired_.find(key);
  return found == expired_.end() ? nullptr : &found->second;
}

std::vector<EpochKey> JobLedger::Epochs() const {
  std::vector<EpochKey> keys;
  keys.reserve(epochs_.size());
  for (const auto& [key, slot] : epochs_) keys.push_back(key);
  return keys;
}

std::vector<EpochKey> JobLedger::Expired() const {
  std::vector<EpochKey> keys;
  for (const auto& [key, expired] : expired_) keys.push_back(key);
  return keys;
}

std::vector<EpochKey> JobLedger::EpochsAfter(const EpochKey& key) const {
  std::vector<EpochKey> later;
  for (auto epoch = epochs_.upper_bound(key); epoch != epochs_.end() && epoch->first.job == key.job;
       ++epoch) {
    later.push_back(epoch->first);
  }
  return later;
}

void JobLedger::DropExpired(uint64_t seconds) {
  std::erase_if(expired_, [&](const auto& entry) { return entry.second.seconds <= seconds; });
}

std::vector<std::string> JobLedger::EpochRecords() const {
  std::vector<std::string> records;
  // Generations must be in ascending order. The order of the epochs may differ from it.
  std::vector<const EpochState*> by_generation;
  for (const auto& [key, slot] : epochs_) by_generation.push_back(slot.state.get());
  std::stable_sort(
      by_generation.begin(), by_generation.end(),
      [](const EpochState* a, const EpochState* b) { return a->generation < b->generation; });
  absl::btree_set<std::string> written_plans;
  for (const EpochState* const epoch : by_generation) {
    const EpochKey& key = epoch->identity.key;
    records.push_back(EncodeEvent(EpochOpened{epoch->identity}));
    if (!epoch->plan.empty()) {
      const bool is_first = written_plans.insert(epoch->plan).second;
      records.push_back(EncodeEvent(
          EpochPlanned{key, epoch->plan, is_first ? plans_.at(epoch->plan).plan : nullptr}));
    }
    if (!epoch->client.empty()) records.push_back(EncodeEvent(EpochOwned{key, epoch->client}));
    if (!epoch->words.empty()) records.push_back(EncodeEvent(EpochWorded{key, epoch->words}));
    if (epoch->used_seconds != 0) {
      records.push_back(EncodeEvent(EpochUsed{key, epoch->used_seconds}));
    }
    if (!epoch->windows.empty()) {
      records.push_back(EncodeEvent(WindowsCounted{key, 0, epoch->windows}));
    }
    if (epoch->generation == 0) continue;
    records.push_back(EncodeEvent(
        GenerationStarted{key, epoch->generation, epoch->attempt, epoch->sharing, epoch->base}));
    for (const std::string& worker : epoch->workers) {
      records.push_back(EncodeEvent(WorkerJoined{key, epoch->generation, worker}));
    }
    if (epoch->done == epoch->base) continue;
    records.push_back(EncodeEvent(BatchesAcknowledged{key, epoch->generation, epoch->done}));
  }
  for (const auto& [key, expired] : expired_) {
    records.push_back(EncodeEvent(EpochExpired{key, expired.generation, expired.seconds}));
  }
  return records;
}

std::vector<std::string> JobLedger::Snapshot() const {
  std::vector<std::string> records = EpochRecords();
  if (last_generation_ != 0) records.push_back(EncodeEvent(GenerationsUsed{last_generation_}));
  return records;
}

bool operator==(const JobLedger& a, const JobLedger& b) {
  return a.last_generation_ == b.last_generation_ && a.expired_ == b.expired_ &&
         std::equal(a.epochs_.begin(), a.epochs_.end(), b.epochs_.begin(), b.epochs_.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && *x.second.state == *y.second.state;
                    });
}

}  // namespace packhouse
