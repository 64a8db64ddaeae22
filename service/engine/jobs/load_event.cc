#include "service/engine/jobs/load_event.h"

#include "service/base/status_macros.h"

namespace packhouse {

LoadEvent BatchEventAt(const Dealing& dealing, const Place& place) {
  LoadEvent event;
  event.kind = LoadEvent::Kind::kBatch;
  event.number = dealing.BatchAt(place);
  event.place = place;
  event.is_padding = dealing.IsPadding(event.number);
  const Sharing& sharing = dealing.sharing();
  event.rank_group = sharing.ranked() ? sharing.rank_group_of_rank[place.queue] : place.queue;
  return event;
}

LoadEvent BatchEventAt(const Dealing& dealing, const LoadableEpoch& epoch, const Place& place) {
  LoadEvent event = BatchEventAt(dealing, place);
  if (dealing.sharing().ranked()) {
    event.graphs_of_step = SharesOfStep(dealing, place.position,
                                        [&epoch](uint64_t batch) { return epoch.NumGraphs(batch); })
                               .front()
                               .graphs_of_step;
  }
  return event;
}

std::vector<uint64_t> BatchesOfStep(const Dealing& dealing, const Place& place) {
  std::vector<uint64_t> batches;
  const auto add = [&](uint64_t batch) {
    if (!dealing.IsPadding(batch)) batches.push_back(batch);
  };
  add(dealing.BatchAt(place));
  for (uint32_t queue = 0; dealing.sharing().ranked() && queue < dealing.num_queues(); ++queue) {
    if (queue != place.queue) add(dealing.BatchAt({queue, place.position}));
  }
  return batches;
}

absl::Status BuildContents(const LoadableEpoch& epoch, LoadEvent& event,
                           const SharedBatches::Member* shared) {
  if (event.is_padding) {
    PH_ASSIGN_OR_RETURN(event.built, epoch.BuildPadding(event.rank_group));
  } else if (shared != nullptr) {
    PH_ASSIGN_OR_RETURN(event.built, shared->Build(epoch, event.number));
  } else {
    PH_ASSIGN_OR_RETURN(event.built, epoch.Build(event.number));
  }
  return absl::OkStatus();
}

}  // namespace packhouse
