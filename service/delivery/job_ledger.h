// What delivery must not forget: for each epoch of each job, what has been acknowledged.
//
// A state machine. Whoever changes it makes events, appends them to the log, and applies them when
// the log has them; an answer to a client leaves after that. So after a crash, Replay() gives the
// state that the answers told of, and at most what was not acknowledged is sent again. Leases are
// not in it.
//
// Generations. An epoch is dealt once or more often: a roll-back to a cursor, or another number of
// workers, starts a new generation. Within one, each batch is acknowledged once. Acknowledgements
// of an earlier generation are refused, and ignored if they are in the log. Generations are
// numbered from 1 by job, never used twice.
#ifndef PACKHOUSE_SERVICE_DELIVERY_JOB_LEDGER_H_
#define PACKHOUSE_SERVICE_DELIVERY_JOB_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/delivery/batch_set.h"
#include "service/delivery/dealing.h"
#include "service/delivery/epoch_identity.h"
#include "service/delivery/ledger_event.h"

namespace packhouse {

// One epoch. `generation` is 0 until one has started.
struct EpochState {
  EpochIdentity identity;
  uint64_t generation = 0;
  std::string attempt;
  Sharing sharing;
  // Done before the generation started, and now. `done` may have padding (Dealing::IsPadding).
  BatchSet base;
  BatchSet done;
  // Workers that took part in the generation.
  absl::btree_set<std::string> workers;

  friend bool operator==(const EpochState&, const EpochState&) = default;
};

// Thread-compatible. Memory O(runs of batches) for each epoch that is not forgotten.
class JobLedger {
 public:
  // DATA_LOSS naming the first record that cannot be read or does not follow from those before.
  static absl::StatusOr<JobLedger> Replay(absl::Span<const std::string> records);

  // FAILED_PRECONDITION for an epoch that is open with another identity, an epoch that is not open,
  // or a generation that was used; INVALID_ARGUMENT for a base that the epoch has not. Then nothing
  // happens. What belongs to a generation that is not the current one is ignored.
  absl::Status Apply(const LedgerEvent& event);

  // Nothing if it is not open; valid until the epoch is forgotten.
  const EpochState* Find(const EpochKey& key) const;
  // All epochs, by job and number.
  const std::map<EpochKey, EpochState>& epochs() const { return epochs_; }
  // Those of the same job with higher numbers.
  std::vector<EpochKey> EpochsAfter(const EpochKey& key) const;
  // 0 if there was none.
  uint64_t LastGeneration(const std::string& job) const;

  // Records whose Replay() gives the same state: for RecordLog::Replace().
  std::vector<std::string> Snapshot() const;

  friend bool operator==(const JobLedger&, const JobLedger&) = default;

 private:
  absl::Status ApplyOne(const EpochOpened& event);
  absl::Status ApplyOne(const GenerationStarted& event);
  absl::Status ApplyOne(const WorkerJoined& event);
  absl::Status ApplyOne(const BatchesAcknowledged& event);
  absl::Status ApplyOne(const EpochForgotten& event);
  absl::Status ApplyOne(const GenerationsUsed& event);

  EpochState* FindCurrent(const EpochKey& key, uint64_t generation);

  std::map<EpochKey, EpochState> epochs_;
  std::map<std::string, uint64_t> last_generation_;  // By job.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_JOB_LEDGER_H_
