// What a job has: its part of the ledger, and what is in memory of epochs that somebody loads.
//
// Who wakes whom: LeaseTable::TakeWoken() says which sessions may go on after a change to leases,
// and JobState::TellWoken() passes it on; a table that goes wakes all that wait (RetireTable()). A
// session that waits for its join is woken when that is answered (join_operation.h).
#ifndef PACKHOUSE_SERVICE_DELIVERY_JOB_STATE_H_
#define PACKHOUSE_SERVICE_DELIVERY_JOB_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/admission/client_identity.h"
#include "service/admission/memory_budget.h"
#include "service/delivery/delivery_snapshot.h"
#include "service/delivery/epoch_quota.h"
#include "service/delivery/job_session.h"
#include "service/delivery/lease_table.h"
#include "service/delivery/ledger_writer.h"
#include "service/epochs/batch_set.h"
#include "service/epochs/dealing.h"
#include "service/ledger/job_ledger.h"

namespace packhouse {

// Runs work soon, on another thread or at once.
using Executor = std::function<void(std::function<void()>)>;

// What all jobs of a server have in common. The pointees outlive the jobs.
struct JobEnvironment {
  LedgerWriter* writer = nullptr;
  EpochQuota* quota = nullptr;
  // For the ledger's part, and what is in memory of epochs that are loaded. May be null.
  MemoryBudget* memory = nullptr;
  // For commits that no caller waits for.
  Executor executor;
  // Dynamic workers that are silent for so long give their batches back.
  absl::Duration lease_duration = absl::Minutes(5);
  // So many finished epochs are remembered, for acknowledgements that come late.
  size_t kept_finished_epochs = 8;
  // A join that comes so soon after one that was committed waits about as long for others to share
  // its commit: workers of a job come together, and a fast disk would commit each alone. One that
  // comes alone does not wait, nor does who waits for an acknowledgement.
  absl::Duration gather_joins = absl::ZeroDuration();
  // Epochs that nobody has used for so long are forgotten.
  absl::Duration epoch_retention = absl::InfiniteDuration();
};

// How an epoch of a job is doing, for people.
struct EpochSummary {
  EpochProgress progress;
  std::string dataset;
  uint64_t num_sessions = 0;
  ClientId client;            // Empty: not known.
  uint64_t used_seconds = 0;  // Since the Unix epoch; 0: not known.
};

// What is in memory of an epoch that somebody loads: some bytes a batch.
struct OpenEpoch {
  // Of the current generation, whose number it is.
  uint64_t generation = 0;
  std::unique_ptr<LeaseTable> table;
  uint64_t table_bytes = 0;
  LeaseCounters earlier;  // Of tables before it.
  // That have joined, in this generation or an earlier one, and have not left.
  std::map<SessionId, std::shared_ptr<JobSession>> sessions;
  // Dynamic: the sessions of workers that ended while others worked; some may have gone.
  std::map<std::string, SessionId> ended;
  uint64_t used_seconds = 0;
};

// Who is to be told, once no mutex is held, that it may go on.
struct Wakes {
  // Takes no more memory than there is: if there is none, all sessions are told.
  void Add(const std::function<void()>& wake);

  std::vector<std::function<void()>> each;
  bool all = false;
  // Of which nothing is known any more; their sessions are told, too.
  std::map<uint64_t, std::unique_ptr<OpenEpoch>> lost;
};

// Thread-compatible: the job's mutex guards it. Waits for nothing.
class JobState {
 public:
  // `ledger` has nothing but epochs of this job. It is there whatever the memory budget says; what
  // comes to it later is reserved.
  JobState(std::string name, JobLedger ledger, const JobEnvironment* environment);

  const std::string& name() const { return name_; }
  const JobEnvironment& environment() const { return environment_; }
  EpochKey KeyOf(uint64_t epoch) const { return {name_, epoch}; }

  const JobLedger& ledger() const { return ledger_; }
  // Sharing what does not change. O(epochs).
  JobLedger ForkLedger() { return ledger_.Fork(); }
  // To be called by whoever commits, and by nobody else.
  void ReplaceLedger(JobLedger& ledger) { std::swap(ledger_, ledger); }

  // Does what changes something of it. If there is no memory for that, false: then what is in
  // memory of epochs is in an unknown state, and let go of. Nothing is lost by it that is durable:
  // their sessions end with UNAVAILABLE, and what is loaded again is made from the ledger.
  bool HasMemoryOrLoses(Wakes& wakes, absl::FunctionRef<void()> change);

  // When a join was committed last.
  absl::Time last_join() const { return last_join_; }
  void NoteJoin(absl::Time now) { last_join_ = std::max(last_join_, now); }

  // For a dealing that is to be made, which keeps it: streams may have it for longer than the
  // table.
  absl::StatusOr<MemoryHold> HoldDealing(const EpochIdentity& identity,
                                         const Sharing& sharing) const;
  // Of the memory budget, before they are allocated; what is not needed after all is given back by
  // GiveBackUnused(), which nobody calls while something is planned against this.
  absl::Status Reserve(uint64_t bytes);
  void GiveBackUnused();

  // An epoch of the ledger, in memory. O(batches) for the first time. NOT_FOUND or
  // FAILED_PRECONDITION as NoSuchEpoch(); RESOURCE_EXHAUSTED.
  absl::StatusOr<OpenEpoch*> Open(const EpochKey& key);
  // One that is in memory.
  OpenEpoch& At(uint64_t epoch) { return *epochs_.at(epoch); }
  // Whether somebody loads it.
  bool IsLoaded(uint64_t epoch) const;
  // The epoch that a session has joined. FAILED_PRECONDITION or NOT_FOUND unless it may lease.
  absl::StatusOr<OpenEpoch*> EpochOf(const JobSession& session) const;
  const std::map<uint64_t, std::unique_ptr<OpenEpoch>>& open_epochs() const { return epochs_; }

  // A generation takes the place of the one before, all of whose sessions lose their part.
  // `table_bytes` have been reserved.
  void StartGeneration(uint64_t epoch, uint64_t generation, Dealing dealing, uint64_t table_bytes,
                       Wakes& wakes);
  // Bytes of a table, at most.
  static uint64_t TableBytes(const EpochState& state);
  // A session goes, as Job::Leave() says. False if it is not there. Whoever leaves cannot be told
  // that there is no memory: then HasMemoryOrLoses().
  bool Leave(JobSession& session, Wakes& wakes);
  // Of an epoch that the ledger does not have any more.
  void Close(const EpochKey& key, Wakes& wakes);
  // Lets go of what is in memory of an epoch, if nobody loads it, and nothing of it is leased. Not
  // while something is committed: it may have been planned against the epoch's table.
  void RestIfIdle(uint64_t epoch);
  // To be called after each change to leases.
  void TellWoken(OpenEpoch& epoch, Wakes& wakes);

  // When an epoch was used last, in seconds since the Unix epoch; 0: not known.
  uint64_t UsedSeconds(const EpochState& state) const;
  // By number, the highest first.
  std::vector<EpochSummary> Summaries() const;
  // Adds to it, but for the number of epochs.
  void AddTo(DeliverySnapshot& snapshot) const;

 private:
  // What is left of an epoch in memory when nobody loads it.
  struct RestingEpoch {
    uint64_t generation = 0;
    BatchSet sent;  // And not done.
    uint64_t used_seconds = 0;
  };

  void SetTable(OpenEpoch& epoch, std::unique_ptr<LeaseTable> table, uint64_t bytes);
  void RetireTable(OpenEpoch& epoch, Wakes& wakes);

  const std::string name_;
  const JobEnvironment& environment_;
  JobLedger ledger_;
  // By number.
  std::map<uint64_t, std::unique_ptr<OpenEpoch>> epochs_;
  std::map<uint64_t, RestingEpoch> resting_;
  LeaseCounters closed_;  // Of epochs that are not open any more.
  uint64_t num_generations_ = 0;
  absl::Time last_join_ = absl::InfinitePast();

  MemoryHold memory_;
  uint64_t open_bytes_ = 0;  // Of the tables of epochs_.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_JOB_STATE_H_
