#include "service/engine/epochs/segmented_epoch.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/padding_batch.h"

namespace packhouse {

SegmentedEpoch::SegmentedEpoch(std::shared_ptr<const SegmentedPlan> plan,
                               const EpochRequest& request, const EpochBounds& bounds,
                               const Making& making, std::weak_ptr<const MakeRoom> make_room)
    : plan_(std::move(plan)),
      bounds_(bounds),
      whole_graphs_(request.whole_graphs),
      memory_(making.memory()),
      make_room_(std::move(make_room)),
      order_(plan_->counts().num_batches, plan_->num_tracks(), {request.seed, request.key.epoch},
             request.in_order, plan_->num_rank_groups()) {}

absl::StatusOr<std::shared_ptr<const SegmentedEpoch>> SegmentedEpoch::Prepare(
    std::shared_ptr<const SegmentedPlan> plan, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making, std::weak_ptr<const MakeRoom> make_room) {
  PH_ASSIGN_OR_RETURN(EpochIdentity identity, IdentityOf(request, *plan));
  const uint64_t num_pieces =
      plan->counts().num_batches.size() + plan->num_tracks() * plan->num_rank_groups();
  // Twice while they are made, and lists may have up to twice the room that they need.
  constexpr uint64_t kBytesOfPiece = 3 * sizeof(SegmentPiece) + 4 * sizeof(uint64_t);
  PH_ASSIGN_OR_RETURN(
      MemoryHold memory,
      making.Hold(absl::StrCat("an epoch of ", plan->layout().num_segments(), " segments"),
                  kBytesOfPiece * num_pieces));
  auto epoch = std::shared_ptr<SegmentedEpoch>(
      new SegmentedEpoch(std::move(plan), request, bounds, making, std::move(make_room)));
  epoch->identity_ = std::move(identity);
  epoch->order_memory_ = std::move(memory);
  return epoch;
}

uint64_t SegmentedEpoch::bytes() const {
  return sizeof(SegmentedEpoch) + order_.bytes() +
         MostKept() * plan_->num_rank_groups() * plan_->BytesOfSegment();
}

SegmentedEpoch::Segment SegmentedEpoch::Find(uint32_t segment) const {
  const auto found = alive_.find(segment);
  if (found == alive_.end()) return nullptr;
  Segment alive = found->second.lock();
  if (alive == nullptr) {
    alive_.erase(found);
    return nullptr;
  }
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (kept->first != segment) continue;
    kept_.splice(kept_.begin(), kept_, kept);
    break;
  }
  return alive;
}

std::optional<uint32_t> SegmentedEpoch::Pin(absl::Span<const uint64_t> batches, Pins& pins) const {
  Pins needed;
  std::optional<uint32_t> missing;
  {
    absl::MutexLock lock(&mutex_);
    for (const uint64_t batch : batches) {
      const uint32_t segment = order_.At(batch).segment;
      if (needed.contains(segment)) continue;
      if (Segment found = Find(segment)) {
        needed.emplace(segment, std::move(found));
      } else if (!missing) {
        missing = segment;
      }
    }
  }
  // The old ones are destroyed without the lock.
  pins.swap(needed);
  return missing;
}

std::optional<uint32_t> SegmentedEpoch::NextMissing(uint64_t batch) const {
  const std::vector<uint32_t> after = order_.After(batch, 1);
  if (after.empty()) return std::nullopt;
  Segment found;  // Destroyed without the lock.
  absl::MutexLock lock(&mutex_);
  // It is used soon, so what nobody comes back to goes before it.
  found = Find(after[0]);
  if (found != nullptr || refused_.contains(after[0])) return std::nullopt;
  return after[0];
}

absl::Status SegmentedEpoch::MakeSegment(uint32_t segment, bool is_ahead,
                                         const Making& making) const {
  if (!is_ahead) return Needed(segment, making).status();
  {
    // Before it is made, so that it holds for a failure of any kind. A success takes it back.
    absl::MutexLock lock(&mutex_);
    refused_.insert(segment);
  }
  Make(segment, nullptr, making).IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<SegmentedEpoch::Segment> SegmentedEpoch::Needed(uint32_t segment,
                                                               const Making& making) const {
  // Segments that nobody uses may have what a store has little of: the files of a cache.
  const auto make_room = [this](absl::FunctionRef<bool()> done) {
    while (ForgetOldest()) {
      if (done()) return;
    }
    if (const auto others = make_room_.lock()) (*others)(done);
  };
  return Make(segment, make_room, making);
}

absl::StatusOr<SegmentedEpoch::Segment> SegmentedEpoch::Make(uint32_t segment,
                                                             const MakeRoom& make_room,
                                                             const Making& making) const {
  {
    absl::MutexLock lock(&mutex_);
    if (Segment found = Find(segment)) return found;
  }
  // Room for it, before it is made.
  const auto is_full = [this] {
    absl::MutexLock lock(&mutex_);
    // Rank groups may stand in other segments.
    return kept_.size() >= MostKept() * plan_->num_rank_groups();
  };
  while (is_full() && ForgetOldest()) {
  }
  const auto make = [&]() -> absl::StatusOr<Segment> {
    std::vector<uint64_t> before(plan_->num_rank_groups());
    for (size_t i = 0; i < before.size() && order_.num_tracks() == 1; ++i) {
      before[i] = order_.Before(segment, i);
    }
    PH_ASSIGN_OR_RETURN(auto plan, plan_->PlanOf(segment, making, make_room, before));
    return PreparedEpoch::Prepare(std::move(plan), plan_->RequestOf(segment, identity_.key, before),
                                  bounds_, making);
  };
  PH_ASSIGN_OR_RETURN(Segment made, make());  // Destroyed without the lock.
  absl::MutexLock lock(&mutex_);
  refused_.clear();
  if (!steps_ || segment == order_.At(0).segment) steps_ = made->steps();
  // Somebody else may have made it meanwhile.
  if (Segment found = Find(segment)) return found;
  alive_[segment] = made;
  kept_.emplace_front(segment, made);
  return made;
}

bool SegmentedEpoch::ForgetOldest() const {
  Segment oldest;  // Destroyed without the lock.
  absl::MutexLock lock(&mutex_);
  if (kept_.empty()) return false;
  // Or two epochs that are made ahead would take each other's room in turn.
  refused_.insert(kept_.back().first);
  oldest = std::move(kept_.back().second);
  kept_.pop_back();
  return true;
}

absl::StatusOr<SegmentedEpoch::Segment> SegmentedEpoch::SegmentAt(uint32_t segment) const {
  return Needed(segment, Making(memory_, nullptr));
}

absl::StatusOr<std::optional<Company>> SegmentedEpoch::MeasureCompany(const Making& making) const {
  if (identity_.num_batches() == 0) return std::nullopt;
  const auto segment = Needed(order_.At(0).segment, making);
  if (absl::IsCancelled(segment.status())) return segment.status();
  // Whoever loads it learns why.
  if (!segment.ok()) return std::nullopt;
  PH_ASSIGN_OR_RETURN(std::optional<Company> company, (*segment)->MeasureCompany(making));
  if (company) {
    company->of_shuffle *= static_cast<double>((*segment)->identity().num_batches()) /
                           static_cast<double>(identity_.num_batches());
    absl::MutexLock lock(&mutex_);
    company_ = company;
  }
  return company;
}

std::optional<Company> SegmentedEpoch::known_company() const {
  absl::MutexLock lock(&mutex_);
  return company_;
}

std::optional<StepFigures> SegmentedEpoch::steps() const {
  absl::MutexLock lock(&mutex_);
  return steps_;
}

uint64_t SegmentedEpoch::NumGraphs(uint64_t number) const {
  const SegmentBatch place = order_.At(number);
  const auto segment = SegmentAt(place.segment);
  return segment.ok() ? (*segment)->NumGraphs(place.batch) : 0;
}

absl::StatusOr<std::pair<std::shared_ptr<const PreparedEpoch>, uint32_t>> SegmentedEpoch::SegmentOf(
    uint64_t batch) const {
  const SegmentBatch place = order_.At(batch);
  PH_ASSIGN_OR_RETURN(Segment segment, SegmentAt(place.segment));
  return std::pair(std::move(segment), place.batch);
}

absl::StatusOr<GraphsOfBatch> SegmentedEpoch::GraphsOf(uint64_t number) const {
  const SegmentBatch place = order_.At(number);
  PH_ASSIGN_OR_RETURN(const Segment segment, SegmentAt(place.segment));
  return segment->GraphsOf(place.batch);
}

absl::StatusOr<BuiltBatch> SegmentedEpoch::Build(uint64_t number) const {
  const SegmentBatch place = order_.At(number);
  PH_ASSIGN_OR_RETURN(const Segment segment, SegmentAt(place.segment));
  return segment->Build(place.batch);
}

absl::StatusOr<BuiltBatch> SegmentedEpoch::BuildPadding(size_t rank_group) const {
  return PaddingBatch(shapes(rank_group), whole_graphs_, bounds_);
}

}  // namespace packhouse
