#include "service/engine/jobs/evaluation.h"

#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/joining.h"

namespace packhouse {
namespace {

// So many batches before a window is needed it is planned.
constexpr uint64_t kBatchesAhead = 64;

// Of the windows, which are all known.
std::vector<uint32_t> CountsOf(const LoadableEpoch& epoch) {
  return epoch.windows() == nullptr ? std::vector<uint32_t>() : epoch.windows()->Counts();
}

}  // namespace

absl::StatusOr<EpochShare> Evaluation::ShareOf(const LoadableEpoch& epoch,
                                               const EvaluationRequest& request) {
  const size_t ranks = request.sharing.rank_group_of_rank.size();
  if (request.rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation: rank ", request.rank, ": there are ", ranks));
  }
  PH_ASSIGN_OR_RETURN(EpochShare share,
                      packhouse::ShareOf(epoch.identity(), CountsOf(epoch), BatchSet(),
                                         request.sharing, request.rank));
  if (request.first_step > share.num_steps) {
    return absl::OutOfRangeError(absl::StrCat("evaluation.first_step: ", request.first_step,
                                              ", there are ", share.num_steps, " steps"));
  }
  share.num_steps_done = request.first_step;
  return share;
}

absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Open(
    std::shared_ptr<const LoadableEpoch> epoch, EvaluationRequest request, MemoryBudget* memory,
    MakeSegment make, std::function<void()> wake, SharedBatches* shared) {
  const EpochIdentity& identity = epoch->identity();
  PH_ASSIGN_OR_RETURN(const EpochShare share, ShareOf(*epoch, request));
  const std::vector<uint32_t> counts = CountsOf(*epoch);
  const uint64_t num_batches = epoch->windows() == nullptr
                                   ? identity.num_batches()
                                   : std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  MemoryHold hold;
  if (memory != nullptr) {
    PH_ASSIGN_OR_RETURN(
        hold, memory->Hold(
                  "how an epoch is dealt",
                  Dealing::MostBytes(num_batches, identity.rank_groups.size(), request.sharing)));
  }
  std::unique_ptr<SharedBatches::Member> member;
  if (shared != nullptr) {
    member = shared->JoinPass(
        identity,
        absl::StrCat(request.rank, " of ", absl::StrJoin(request.sharing.rank_group_of_rank, " ")));
  }
  PH_ASSIGN_OR_RETURN(Dealing dealing, DealingOf(identity, counts, BatchSet(), request.sharing));
  dealing.Keep(std::move(hold));
  return std::unique_ptr<Evaluation>(new Evaluation(std::move(epoch), std::move(dealing), share,
                                                    request, std::move(make), std::move(wake),
                                                    std::move(member)));
}

void Evaluation::Begin(uint32_t segment, bool is_ahead) {
  {
    absl::MutexLock lock(&making_->mutex);
    if (!making_->under_way.insert(segment).second) return;
  }
  SegmentMakings::Waiter waiter;
  waiter.is_ahead = is_ahead;
  waiter.is_over = [making = making_] { return making->is_over.load(); };
  waiter.made = [making = making_, wake = wake_, segment](const absl::Status& status) {
    {
      absl::MutexLock lock(&making->mutex);
      making->under_way.erase(segment);
      if (!status.ok()) making->failures.insert_or_assign(segment, status);
    }
    if (wake && !making->is_over) wake();
  };
  make_(segment, std::move(waiter));
}

std::optional<uint64_t> Evaluation::FirstMissing(absl::Span<const uint64_t> batches) {
  if (epoch_->segmented() != nullptr) return epoch_->segmented()->Pin(batches, pins_);
  return epoch_->windows()->FirstMissing(batches);
}

std::optional<uint64_t> Evaluation::NextMissing(uint64_t batch) const {
  if (epoch_->segmented() != nullptr) return epoch_->segmented()->NextMissing(batch);
  const uint64_t next = batch + kBatchesAhead;
  if (!dealing_.Knows(next)) return std::nullopt;
  return epoch_->windows()->FirstMissing({next});
}

absl::StatusOr<bool> Evaluation::HasSegments() {
  // Of all ranks, too: rank groups may stand in segments that push each other out.
  if (pinned_step_ == next_step_) return true;
  const std::vector<uint64_t> needed =
      BatchesOfStep(dealing_, {is_of_all_ranks_ ? next_rank_ : rank_, next_step_});
  if (const std::optional<uint64_t> missing = FirstMissing(needed)) {
    const auto number = static_cast<uint32_t>(*missing);
    {
      absl::MutexLock lock(&making_->mutex);
      if (const auto failed = making_->failures.extract(number)) return failed.mapped();
    }
    Begin(number, /*is_ahead=*/false);
    return false;
  }
  for (const uint64_t batch : needed) {
    if (const auto next = NextMissing(batch)) {
      Begin(static_cast<uint32_t>(*next), /*is_ahead=*/true);
    }
  }
  pinned_step_ = next_step_;
  return true;
}

absl::StatusOr<LoadEvent> Evaluation::PlaceOfNext() {
  LoadEvent event;
  // Of all ranks, padding is of no use.
  while (is_of_all_ranks_ && next_step_ != num_steps() &&
         dealing_.IsPadding(dealing_.BatchAt({next_rank_, next_step_}))) {
    Advance();
  }
  if (next_step_ == num_steps()) return event;
  if (epoch_->segmented() != nullptr || epoch_->windows() != nullptr) {
    PH_ASSIGN_OR_RETURN(const bool has_segments, HasSegments());
    event.kind = LoadEvent::Kind::kWait;
    if (!has_segments) return event;
  }
  if (is_of_all_ranks_) return BatchEventAt(dealing_, {next_rank_, next_step_});
  return BatchEventAt(dealing_, *epoch_, {rank_, next_step_});
}

void Evaluation::Advance() {
  if (is_of_all_ranks_) next_rank_ = (next_rank_ + 1) % dealing_.num_queues();
  if (next_rank_ == rank_) ++next_step_;
}

absl::StatusOr<LoadEvent> Evaluation::NextPlace() {
  PH_ASSIGN_OR_RETURN(LoadEvent event, PlaceOfNext());
  if (event.kind == LoadEvent::Kind::kBatch) Advance();
  return event;
}

absl::StatusOr<LoadEvent> Evaluation::Next() {
  PH_ASSIGN_OR_RETURN(LoadEvent event, PlaceOfNext());
  if (event.kind != LoadEvent::Kind::kBatch) return event;
  PH_RETURN_IF_ERROR(BuildContents(*epoch_, event, shared_.get()));
  Advance();
  return event;
}

}  // namespace packhouse
