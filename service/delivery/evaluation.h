// One pass over an epoch's batches. The service keeps nothing of it.
#ifndef PACKHOUSE_SERVICE_DELIVERY_EVALUATION_H_
#define PACKHOUSE_SERVICE_DELIVERY_EVALUATION_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "service/delivery/load_event.h"
#include "service/epochs/dealing.h"
#include "service/epochs/prepared_epoch.h"

namespace packhouse {

// Which steps of which rank.
struct EvaluationRequest {
  // Ranked.
  Sharing sharing = Sharing::Ranked(1);
  uint32_t rank = 0;
  uint64_t first_step = 0;
};

// One stream. Its batches depend on the epoch and the request alone. Thread-compatible.
class Evaluation {
 public:
  // INVALID_ARGUMENT for a rank that does not exist, naming it, for dynamic sharing, or as Dealing;
  // OUT_OF_RANGE naming a first step above the number of steps; RESOURCE_EXHAUSTED if `memory`,
  // which may be null, has no room. O(batches).
  static absl::StatusOr<std::unique_ptr<Evaluation>> Open(
      std::shared_ptr<const PreparedEpoch> epoch, EvaluationRequest request, MemoryBudget* memory);

  const PreparedEpoch& epoch() const { return *epoch_; }
  uint64_t num_steps() const { return dealing_.lane_length(rank_); }
  uint64_t first_step() const { return first_step_; }

  // The next step's batch, or kEnd after the last. DATA_LOSS as PreparedEpoch::Build.
  absl::StatusOr<LoadEvent> Next();

 private:
  Evaluation(std::shared_ptr<const PreparedEpoch> epoch, Dealing dealing,
             const EvaluationRequest& request)
      : epoch_(std::move(epoch)),
        dealing_(std::move(dealing)),
        rank_(request.rank),
        first_step_(request.first_step),
        next_step_(request.first_step) {}

  const std::shared_ptr<const PreparedEpoch> epoch_;
  const Dealing dealing_;
  const uint32_t rank_;
  const uint64_t first_step_;
  uint64_t next_step_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_EVALUATION_H_
