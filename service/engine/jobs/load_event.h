// The events of a stream of an epoch's batches.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LOAD_EVENT_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LOAD_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/shared_batches.h"

namespace packhouse {

struct LoadEvent {
  enum class Kind {
    kBatch,
    kWait,  // Nothing until the stream is woken.
    // Every batch of the queue is done or, for a session that does not wait for others, leased. For
    // an evaluation: every batch was given.
    kEnd,
  };
  Kind kind = Kind::kEnd;
  // For kEnd: batches of the queue that are leased and not done.
  uint64_t num_pending = 0;
  // For kEnd, of an epoch with windows: steps of the session's reader.
  uint64_t num_steps = 0;
  // The fields below are for kBatch only.
  uint64_t number = 0;
  Place place = {};
  size_t rank_group = 0;
  bool is_padding = false;
  bool is_redelivered = false;
  uint64_t graphs_of_step = 0;  // Ranked only.
  absl::Time leased_until = absl::InfiniteFuture();
  BuiltBatch built;
};

// The batch at a place of the dealing, without its contents. O(ranks).
LoadEvent BatchEventAt(const Dealing& dealing, const LoadableEpoch& epoch, const Place& place);
// The same without graphs_of_step. O(1).
LoadEvent BatchEventAt(const Dealing& dealing, const Place& place);

// The batch at a place and, ranked, the others of its step, without padding: what BatchEventAt()
// and BuildContents() ask the epoch for. O(ranks).
std::vector<uint64_t> BatchesOfStep(const Dealing& dealing, const Place& place);

// Builds its contents, or takes what another job's worker has built. Errors and cost as
// PreparedEpoch::Build.
absl::Status BuildContents(const LoadableEpoch& epoch, LoadEvent& event,
                           const SharedBatches::Member* shared = nullptr);

// The capacities of the shape of a batch whose contents are built.
inline absl::Span<const uint64_t> CapacitiesOf(const LoadableEpoch& epoch, const LoadEvent& event) {
  return epoch.shapes(event.rank_group)[event.built.shape].capacities;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LOAD_EVENT_H_
