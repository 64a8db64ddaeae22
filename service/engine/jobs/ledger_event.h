// The events that the ledger of a job remembers; event_codec.h has their bytes.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_EVENT_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_EVENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "service/access/client_identity.h"
#include "service/engine/epochs/batch_set.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/kept_plan.h"

namespace packhouse {

// An epoch was asked for for the first time.
struct EpochOpened {
  EpochIdentity identity;

  friend bool operator==(const EpochOpened&, const EpochOpened&) = default;
};

// The plan of an open epoch. The epoch goes on with this plan even if the planner of a later
// release finds another.
struct EpochPlanned {
  EpochKey epoch;
  // The plan's KeptPlan::digest.
  std::string digest;
  // Null if another open epoch of the job already has it.
  std::shared_ptr<const KeptPlan> plan;

  friend bool operator==(const EpochPlanned& a, const EpochPlanned& b) {
    return a.epoch == b.epoch && a.digest == b.digest &&
           (a.plan == nullptr) == (b.plan == nullptr) && (a.plan == nullptr || *a.plan == *b.plan);
  }
};

// An epoch is dealt, for the first time or anew; earlier generations no longer count.
struct GenerationStarted {
  EpochKey epoch;
  uint64_t generation = 0;
  // Named by the trainer, or empty.
  std::string attempt;
  Sharing sharing;
  // The batches that are done before it starts.
  BatchSet base;

  friend bool operator==(const GenerationStarted&, const GenerationStarted&) = default;
};

// A worker, named by its rank or name, takes part in a generation.
struct WorkerJoined {
  EpochKey epoch;
  uint64_t generation = 0;
  std::string worker;

  friend bool operator==(const WorkerJoined&, const WorkerJoined&) = default;
};

struct BatchesAcknowledged {
  EpochKey epoch;
  uint64_t generation = 0;
  BatchSet batches;

  friend bool operator==(const BatchesAcknowledged&, const BatchesAcknowledged&) = default;
};

// The next windows of an open epoch were planned (EpochWindows). What they have does not depend on
// generations.
struct WindowsCounted {
  EpochKey epoch;
  // Windows that were known before.
  uint64_t first_window = 0;
  // By window, then rank group.
  std::vector<uint32_t> num_batches;

  friend bool operator==(const WindowsCounted&, const WindowsCounted&) = default;
};

// The words with which an epoch was opened, so that its batches can be made again by its key alone.
struct EpochWorded {
  EpochKey epoch;
  // A packhouse.v1.EpochSpec without job and epoch; server/wire writes and reads it.
  std::string words;

  friend bool operator==(const EpochWorded&, const EpochWorded&) = default;
};

// Longer words are not kept.
inline constexpr uint64_t kMaxWordsBytes = uint64_t{64} << 10;

// The service keeps nothing of the epoch any more; a cursor can open it again.
struct EpochForgotten {
  EpochKey epoch;

  friend bool operator==(const EpochForgotten&, const EpochForgotten&) = default;
};

// The client that opened the epoch, for bounds.
struct EpochOwned {
  EpochKey epoch;
  ClientId client;

  friend bool operator==(const EpochOwned&, const EpochOwned&) = default;
};

// The time at which the epoch was joined or batches of it were acknowledged; written now and then.
struct EpochUsed {
  EpochKey epoch;
  // Since the Unix epoch.
  uint64_t seconds = 0;

  friend bool operator==(const EpochUsed&, const EpochUsed&) = default;
};

// The epoch was forgotten at this time because nobody had used it for long. Cursors of its
// generations, up to this last one, are refused.
struct EpochExpired {
  EpochKey epoch;
  uint64_t generation = 0;
  // Since the Unix epoch.
  uint64_t seconds = 0;

  friend bool operator==(const EpochExpired&, const EpochExpired&) = default;
};

// Generations up to this one have been used. In snapshots, for forgotten epochs.
struct GenerationsUsed {
  uint64_t last = 0;

  friend bool operator==(const GenerationsUsed&, const GenerationsUsed&) = default;
};

using LedgerEvent = std::variant<EpochOpened, EpochPlanned, GenerationStarted, WorkerJoined,
                                 BatchesAcknowledged, EpochForgotten, GenerationsUsed, EpochOwned,
                                 EpochUsed, EpochExpired, WindowsCounted, EpochWorded>;

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_EVENT_H_
