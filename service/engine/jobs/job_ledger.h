// What delivery must remember: for each epoch of each job, which batches are acknowledged.
//
// A state machine. To change it, make events, append them to the log, and apply them when the log
// has them; answer the client after that. So after a crash Replay() gives the state of all answers,
// and only batches that were not acknowledged are sent again. Leases are not in it.
//
// Generations. An epoch may be dealt several times: a roll-back to a cursor, or another number of
// workers, starts a new generation. Within one, each batch is acknowledged once. Acknowledgements
// of an earlier generation are refused, and ignored if they are in the log. Generations are
// numbered from 1 over all jobs together, and a number is never used twice, so that a deleted job
// leaves nothing behind. (Older servers numbered them by job; their logs can be read.)
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_LEDGER_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/access/client_identity.h"
#include "service/engine/epochs/batch_set.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/ledger_event.h"

namespace packhouse {

// By rank group, the batches that are known if `windows` are EpochState::windows; all without
// windows.
std::vector<uint64_t> KnownBatches(const EpochIdentity& identity,
                                   absl::Span<const uint32_t> windows);
// By rank group, how many there will be as far as these tell: exact if all are known, at most as
// many as the identity has room for.
std::vector<uint64_t> GuessBatches(const EpochIdentity& identity,
                                   absl::Span<const uint32_t> windows);

// Whether such numbers are of whole windows, and of no more batches than the identity has room for.
bool FitsWindows(const EpochIdentity& identity, absl::Span<const uint32_t> windows);

// One epoch. `generation` is 0 until one has started.
struct EpochState {
  EpochIdentity identity;
  uint64_t generation = 0;
  std::string attempt;
  Sharing sharing;
  // The batches that were done before the generation started, and those that are done now. `done`
  // may have padding (Dealing::IsPadding).
  BatchSet base;
  BatchSet done;
  // Workers that took part in the generation.
  absl::btree_set<std::string> workers;
  // The client that opened it; empty if not known, since older servers did not write it.
  ClientId client;
  // The digest of its plan (JobLedger::PlanOf()); empty if none is kept.
  std::string plan;
  // Of an epoch with windows: batches of the first ones, by window, then rank group, as far as they
  // are known.
  std::vector<uint32_t> windows;
  // EpochWorded::words; empty if they are not known.
  std::string words;
  // About when it was last used, in seconds since the Unix epoch; 0 if not known.
  uint64_t used_seconds = 0;

  // Without padding. O(runs).
  BatchSet DoneWithoutPadding() const { return done.Below(identity.num_batches()); }
  // Whether all batches are known; and how many of each rank group are.
  bool is_complete() const { return windows.size() == identity.num_counts(); }
  std::vector<uint64_t> NumKnown() const { return KnownBatches(identity, windows); }
  // Without padding. If not all batches are known, a guess from those that are. O(windows).
  uint64_t ExpectedBatches() const;
  bool finished() const {
    return is_complete() && DoneWithoutPadding().size() == ExpectedBatches();
  }
  // An upper estimate of its memory. O(rank groups).
  uint64_t Bytes() const;

  friend bool operator==(const EpochState&, const EpochState&) = default;
};

// At most the memory of a run of batches.
inline constexpr uint64_t kBytesPerRun = 40;

// What is left of an epoch that was forgotten because nobody had used it for long.
struct ExpiredEpoch {
  uint64_t generation = 0;  // Its last generation.
  uint64_t seconds = 0;     // When it was forgotten, since the Unix epoch.

  friend bool operator==(const ExpiredEpoch&, const ExpiredEpoch&) = default;
};

// The ledger of all jobs, or of one. Thread-compatible. Memory O(runs of batches) for each epoch
// that is not forgotten, and the bytes of each kept plan, once for each job.
class JobLedger {
 public:
  JobLedger() = default;
  // O(everything).
  JobLedger(const JobLedger& other);
  JobLedger& operator=(const JobLedger& other);
  JobLedger(JobLedger&&) = default;
  JobLedger& operator=(JobLedger&&) = default;

  // DATA_LOSS naming the first record that cannot be read or does not fit those before it.
  static absl::StatusOr<JobLedger> Replay(absl::Span<const std::string> records);

  // A copy that shares everything that neither changes afterwards. O(epochs). Different threads may
  // use the two.
  JobLedger Fork();

  // FAILED_PRECONDITION for an epoch that is open with another identity or plan, an epoch that is
  // not open, a missing plan, or a generation that was used; INVALID_ARGUMENT for a base that the
  // epoch does not have. With an error nothing changes. Events of a generation that is not the
  // current one are ignored.
  absl::Status Apply(const LedgerEvent& event);

  // Null if it is not open; valid until the epoch is changed.
  const EpochState* Find(const EpochKey& key) const;
  // Tells one opening of an epoch from others under the same key, before and after it was
  // forgotten: above 0, and never the same twice in a ledger and its forks, as long as each
  // replaces the one it was forked from. 0 if the epoch is not open. Not durable: for work in
  // progress.
  uint64_t OpeningOf(const EpochKey& key) const;
  // The kept plan of an open epoch; null if none is kept.
  std::shared_ptr<const KeptPlan> PlanOf(const EpochKey& key) const;
  // Whether an open epoch has the plan with this digest.
  bool HasPlan(const std::string& digest) const { return plans_.contains(digest); }
  // Null unless it was forgotten because nobody used it, and has not been opened since.
  const ExpiredEpoch* FindExpired(const EpochKey& key) const;
  // The keys of all epochs, by job and number.
  std::vector<EpochKey> Epochs() const;
  size_t num_epochs() const { return epochs_.size(); }
  // The keys of all epochs that FindExpired() finds.
  std::vector<EpochKey> Expired() const;
  // The epochs of the same job with higher numbers.
  std::vector<EpochKey> EpochsAfter(const EpochKey& key) const;
  // The last of all generations that were ever applied; 0 if there was none.
  uint64_t last_generation() const { return last_generation_; }
  // An upper estimate of all its memory. O(1).
  uint64_t bytes() const { return bytes_ + plan_bytes_ + expired_.size() * kBytesPerExpired; }
  // The bytes that a new plan adds.
  static uint64_t BytesOf(const KeptPlan& plan) { return 512 + plan.bytes.size(); }
  // Whether there are neither epochs nor expired epochs.
  bool empty() const { return epochs_.empty() && expired_.empty(); }

  // Forgets expired epochs that were forgotten at `seconds` or earlier. This is not an event: it
  // can be done again after the log has been replayed.
  void DropExpired(uint64_t seconds);

  // Records whose Replay() gives the same state: for RecordLog::Replace().
  std::vector<std::string> Snapshot() const;
  // The same without the last generation. The records of several jobs, one after the other, are
  // those of all.
  std::vector<std::string> EpochRecords() const;

  friend bool operator==(const JobLedger& a, const JobLedger& b);

 private:
  // A slot of an epoch. `is_shared`: another ledger may have it too, so it must not be changed.
  struct Slot {
    std::shared_ptr<EpochState> state;
    bool is_shared = false;
    uint64_t opening = 0;
  };

  // Plans are shared: all epochs of a job with the same words have one.
  struct PlanInUse {
    std::shared_ptr<const KeptPlan> plan;
    size_t num_epochs = 0;
  };

  static constexpr uint64_t kBytesPerExpired = 512;

  static const EpochKey& KeyOf(const EpochOpened& event) { return event.identity.key; }
  template <typename Event>
  static const EpochKey& KeyOf(const Event& event) {
    return event.epoch;
  }
  uint64_t BytesOf(const EpochKey& key) const;

  absl::Status ApplyOne(const EpochOpened& event);
  absl::Status ApplyOne(const EpochPlanned& event);
  absl::Status ApplyOne(const GenerationStarted& event);
  absl::Status ApplyOne(const WorkerJoined& event);
  absl::Status ApplyOne(const BatchesAcknowledged& event);
  absl::Status ApplyOne(const EpochForgotten& event);
  absl::Status ApplyOne(const GenerationsUsed& event);
  absl::Status ApplyOne(const EpochOwned& event);
  absl::Status ApplyOne(const EpochUsed& event);
  absl::Status ApplyOne(const EpochExpired& event);
  absl::Status ApplyOne(const WindowsCounted& event);
  absl::Status ApplyOne(const EpochWorded& event);

  void UsePlan(const std::shared_ptr<const KeptPlan>& plan);
  // Erases the epoch; also its plan if no other epoch has it.
  void Erase(const EpochKey& key);
  // The state, for changing it. Null if it is not open.
  EpochState* FindMutable(const EpochKey& key);
  EpochState* FindCurrent(const EpochKey& key, uint64_t generation);
  // The last generation of the job's epochs that are not forgotten.
  uint64_t LastOf(const std::string& job) const;

  std::map<EpochKey, Slot> epochs_;
  std::map<EpochKey, ExpiredEpoch> expired_;
  std::map<std::string, PlanInUse> plans_;  // By digest.
  uint64_t last_generation_ = 0;
  uint64_t last_opening_ = 0;
  uint64_t bytes_ = 0;       // The bytes of epochs_.
  uint64_t plan_bytes_ = 0;  // The bytes of plans_.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_LEDGER_H_
