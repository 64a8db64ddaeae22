#include "service/delivery/evaluation.h"

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Open(
    std::shared_ptr<const PreparedEpoch> epoch, EvaluationRequest request, MemoryBudget* memory) {
  const size_t ranks = request.sharing.rank_group_of_rank.size();
  if (request.rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation: rank ", request.rank, ": there are ", ranks));
  }
  const EpochIdentity& identity = epoch->identity();
  MemoryHold hold;
  if (memory != nullptr) {
    PH_ASSIGN_OR_RETURN(
        hold, memory->Hold("how an epoch is dealt",
                           Dealing::MostBytes(identity.num_batches(), identity.rank_groups.size(),
                                              request.sharing)));
  }
  PH_ASSIGN_OR_RETURN(Dealing dealing, Dealing::Create(identity.first_batches(), BatchSet(),
                                                       std::move(request.sharing)));
  dealing.Keep(std::move(hold));
  const uint64_t num_steps = dealing.lane_length(request.rank);
  if (request.first_step > num_steps) {
    return absl::OutOfRangeError(absl::StrCat("evaluation.first_step: ", request.first_step,
                                              ", there are ", num_steps, " steps"));
  }
  return std::unique_ptr<Evaluation>(new Evaluation(std::move(epoch), std::move(dealing), request));
}

absl::StatusOr<LoadEvent> Evaluation::Next() {
  if (next_step_ == num_steps()) return LoadEvent();
  LoadEvent event = BatchEventAt(dealing_, *epoch_, {rank_, next_step_});
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event));
  ++next_step_;
  return event;
}

}  // namespace packhouse
