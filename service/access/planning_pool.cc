#include "service/access/planning_pool.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "service/base/low_priority.h"
#include "service/base/out_of_memory.h"

namespace packhouse {

bool PlanningTurn::YieldTurn() {
  if (cancelled()) return true;
  // Both are written by this thread while it is at work, or before it is woken.
  if (state_ == State::kAtWork && pool_->clock_->Now() < slice_end_) return false;
  return pool_->Pause(*this);
}

bool PlanningTurn::LeaveTurn() { return pool_->Rest(*this); }

bool PlanningTurn::YieldTurnIn(absl::string_view where) { return pool_->PauseIn(*this, where); }

void PlanningTurn::Cancel() { pool_->Cancel(*this); }

void PlanningTurn::Hurry() { pool_->Hurry(*this); }

PlanningPool::PlanningPool(Clock* clock, size_t num_turns, QuotasOf quotas_of)
    : clock_(clock),
      num_turns_(num_turns),
      quotas_of_(std::move(quotas_of)),
      max_begun_by_client_(std::max(kMaxBegunByClient, 2 * num_turns)),
      max_begun_(std::max(kMaxBegun, 2 * max_begun_by_client_)) {}

PlanningPool::~PlanningPool() {
  std::vector<Thread> threads;  // End without the mutex.
  absl::MutexLock lock(&mutex_);
  stop_ = true;
  const auto all_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return lanes_.empty(); };
  mutex_.Await(absl::Condition(&all_done));
  threads.swap(threads_);
}

void PlanningPool::Submit(std::shared_ptr<PlanningTurn> turn, std::function<void()> job) {
  {
    absl::MutexLock lock(&mutex_);
    if (!turn->cancelled()) {
      Enqueue(turn);
      turn->job_ = std::move(job);
      turn->state_ = State::kQueued;
      // If there is no memory to begin it now, it is begun when another turn ends. If there is no
      // other turn, the job is refused.
      if (TryGiveTurns() || num_begun_ != 0) return;
      Dequeue(*turn);
      turn->state_ = State::kNew;
      throw std::bad_alloc();
    }
    turn->state_ = State::kDone;
  }
  job();
}

void PlanningPool::Cancel(PlanningTurn& turn) {
  std::function<void()> job;
  {
    absl::MutexLock lock(&mutex_);
    turn.cancelled_.store(true, std::memory_order_relaxed);
    if (turn.state_ != State::kQueued) return;
    Dequeue(turn);
    turn.state_ = State::kDone;
    job = std::move(turn.job_);
  }
  job();
}

void PlanningPool::Hurry(PlanningTurn& turn) {
  absl::MutexLock lock(&mutex_);
  if (!turn.is_background_) return;
  if (turn.state_ == State::kNew || turn.state_ == State::kDone) {
    turn.is_background_ = false;
    return;
  }
  const LaneKey from_key = KeyOf(turn);
  Lane& from = LaneOf(turn);
  turn.is_background_ = false;
  // If there is no memory for its place among the calls, it stays where it is.
  Lane* to = nullptr;
  const bool has_place = RunWithinMemory([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    to = &LaneFor(turn);
    if (turn.state_ == State::kParked) to->parked.push_back(&turn);
    if (turn.state_ != State::kQueued) return;
    const auto place = std::find_if(from.queued.begin(), from.queued.end(),
                                    [&turn](const auto& other) { return other.get() == &turn; });
    to->queued.push_back(*place);
    from.queued.erase(place);
  });
  if (!has_place) {
    EraseIfEmpty(KeyOf(turn));
    turn.is_background_ = true;
    return;
  }
  if (turn.state_ == State::kParked) {
    from.parked.erase(std::find(from.parked.begin(), from.parked.end(), &turn));
  }
  if (turn.state_ != State::kQueued) {
    --from.num_begun;
    ++to->num_begun;
    --num_begun_in_background_;
    if (!turn.is_long_) {
      --from.num_short;
      ++to->num_short;
    }
  }
  if (turn.state_ == State::kAtWork) {
    --from.num_at_work;
    ++to->num_at_work;
  }
  EraseIfEmpty(from_key);
  // If there is no memory for it now, another turn's end does it.
  TryGiveTurns();
}

PlanningPool::Lane& PlanningPool::LaneFor(const PlanningTurn& turn) {
  Lane& lane = lanes_.try_emplace(KeyOf(turn)).first->second;
  lane.is_background = turn.is_background_;
  return lane;
}

void PlanningPool::EraseIfEmpty(const LaneKey& key) {
  const auto lane = lanes_.find(key);
  if (lane == lanes_.end() || !lane->second.queued.empty() || lane->second.num_begun != 0) return;
  lanes_.erase(lane);
}

void PlanningPool::Enqueue(const std::shared_ptr<PlanningTurn>& turn) {
  Lane& lane = LaneFor(*turn);
  try {
    lane.queued.push_back(turn);
  } catch (...) {
    EraseIfEmpty(KeyOf(*turn));
    throw;
  }
}

void PlanningPool::Dequeue(const PlanningTurn& turn) {
  auto& queued = LaneOf(turn).queued;
  queued.erase(std::find_if(queued.begin(), queued.end(),
                            [&turn](const auto& other) { return other.get() == &turn; }));
  EraseIfEmpty(KeyOf(turn));
}

bool PlanningPool::TryGiveTurns() {
  return RunWithinMemory([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { GiveTurns(); });
}

void PlanningPool::GiveTurnsWhenPossible() {
  const auto never = [] { return false; };
  // Turns at work give them when they end.
  while (!TryGiveTurns() && num_at_work_ == 0) {
    mutex_.AwaitWithTimeout(absl::Condition(&never), kRetry);
  }
}

bool PlanningPool::Pause(PlanningTurn& turn) {
  absl::MutexLock lock(&mutex_);
  if (turn.cancelled()) return true;
  if (turn.state_ == State::kAtWork) {
    // Giving up its turn may make room for another call of its namespace.
    const auto own = at_work_in_.find(turn.where_);
    if (own != at_work_in_.end()) --own->second;
    const bool is_wanted = AnyMayGoOn(turn.is_background_);
    if (own != at_work_in_.end()) ++own->second;
    if (!is_wanted) {
      const absl::Time now = clock_->Now();
      turn.worked_ += now - turn.turn_began_;
      turn.turn_began_ = now;
      turn.slice_end_ = now + kSlice;
      if (turn.worked_ >= kLong) MarkLong(turn, LaneOf(turn));
      return false;
    }
    EndTurn(turn, State::kParked);
  }
  return Park(turn);
}

bool PlanningPool::PauseIn(PlanningTurn& turn, absl::string_view where) {
  absl::MutexLock lock(&mutex_);
  if (turn.cancelled()) return true;
  std::string name(where);
  if (turn.state_ != State::kAtWork) {
    turn.where_ = std::move(name);
    return false;
  }
  const size_t at_work = ++at_work_in_[name];
  turn.where_ = std::move(name);
  if (at_work == 1 || !IsOver(turn.where_, at_work)) return false;
  EndTurn(turn, State::kParked);
  return Park(turn);
}

bool PlanningPool::IsOver(const std::string& where, size_t at_work) const {
  if (!quotas_of_ || where.empty()) return false;
  const std::optional<double> share = quotas_of_(where).planning;
  if (!share) return false;
  const auto most = static_cast<size_t>(*share * static_cast<double>(num_turns_));
  return at_work > std::max<size_t>(1, most);
}

bool PlanningPool::IsFull(const std::string& where) const {
  const auto found = at_work_in_.find(where);
  return IsOver(where, (found == at_work_in_.end() ? 0 : found->second) + 1);
}

PlanningTurn* PlanningPool::FirstParked(const Lane& lane) const {
  const auto found =
      std::find_if(lane.parked.begin(), lane.parked.end(),
                   [this](const PlanningTurn* turn)
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !IsFull(turn->where_); });
  return found == lane.parked.end() ? nullptr : *found;
}

double PlanningPool::ShareOf(absl::string_view where) const {
  absl::MutexLock lock(&mutex_);
  const auto found = at_work_in_.find(where);
  if (found == at_work_in_.end()) return 0;
  return static_cast<double>(found->second) / static_cast<double>(num_turns_);
}

bool PlanningPool::Park(PlanningTurn& turn) {
  // It goes to the end of its client's calls.
  LaneOf(turn).parked.push_back(&turn);
  turn.state_ = State::kParked;
  GiveTurnsWhenPossible();
  const auto may_go_on = [&turn] { return turn.state_ == State::kAtWork || turn.cancelled(); };
  mutex_.Await(absl::Condition(&may_go_on));
  if (turn.state_ == State::kParked) {
    // It may be in another lane now (Hurry()).
    auto& parked = LaneOf(turn).parked;
    parked.erase(std::find(parked.begin(), parked.end(), &turn));
    turn.state_ = State::kResting;
  }
  return turn.cancelled();
}

bool PlanningPool::Rest(PlanningTurn& turn) {
  absl::MutexLock lock(&mutex_);
  if (turn.state_ == State::kAtWork) {
    EndTurn(turn, State::kResting);
    // Waiting for another call's work may take long, and must not hold up this client's short
    // plans.
    MarkLong(turn, LaneOf(turn));
    GiveTurnsWhenPossible();
  }
  return turn.cancelled();
}

void PlanningPool::MarkLong(PlanningTurn& turn, Lane& lane) {
  if (turn.is_long_) return;
  turn.is_long_ = true;
  --lane.num_short;
}

void PlanningPool::EndTurn(PlanningTurn& turn, State next) {
  Lane& lane = LaneOf(turn);
  turn.state_ = next;
  turn.worked_ += clock_->Now() - turn.turn_began_;
  if (turn.worked_ >= kLong) MarkLong(turn, lane);
  --lane.num_at_work;
  --num_at_work_;
  if (const auto found = at_work_in_.find(turn.where_);
      found != at_work_in_.end() && --found->second == 0) {
    at_work_in_.erase(found);
  }
}

bool PlanningPool::MayBegin(const Lane& lane) const {
  if (lane.queued.empty()) return false;
  if (lane.is_background && num_begun_in_background_ >= num_turns_) return false;
  if (lane.num_begun == 0) return num_begun_ < max_begun_;
  return num_begun_ < max_begun_ / 2 && lane.num_begun < max_begun_by_client_ &&
         lane.num_short < num_turns_;
}

bool PlanningPool::AnyMayGoOn(bool is_background) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const auto& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                       return (is_background || !lane.second.is_background) && MayGoOn(lane.second);
                     });
}

void PlanningPool::GiveTurns() {
  while (num_at_work_ < num_turns_) {
    Lane* next = nullptr;
    const auto rank = [](const Lane& lane) {
      return std::tuple(lane.is_background, lane.num_at_work, lane.last_turn);
    };
    for (auto& [key, lane] : lanes_) {
      if (!MayGoOn(lane)) continue;
      if (next == nullptr || rank(lane) < rank(*next)) next = &lane;
    }
    if (next == nullptr) return;
    if (MayBegin(*next) && !HaveThread()) {
      // The machine has no more threads now. A parked call needs no new thread.
      if (FirstParked(*next) == nullptr) return;
      GiveTurn(*next, /*begin=*/false);
      continue;
    }
    GiveTurn(*next, MayBegin(*next));
  }
}

void PlanningPool::GiveTurn(Lane& lane, bool begin) {
  PlanningTurn* turn = nullptr;
  if (begin) {
    turn = lane.queued.front().get();
    ready_.push_back(std::move(lane.queued.front()));
    lane.queued.pop_front();
    ++lane.num_begun;
    ++lane.num_short;
    ++num_begun_;
    num_begun_in_background_ += lane.is_background;
  } else {
    turn = FirstParked(lane);
    // Takes memory, so it comes first.
    if (!turn->where_.empty()) ++at_work_in_[turn->where_];
    lane.parked.erase(std::find(lane.parked.begin(), lane.parked.end(), turn));
  }
  turn->turn_began_ = clock_->Now();
  turn->slice_end_ = turn->turn_began_ + kSlice;
  turn->state_ = State::kAtWork;
  ++lane.num_at_work;
  ++num_at_work_;
  lane.last_turn = ++last_turn_;
}

void PlanningPool::EndJob(PlanningTurn& turn) {
  if (turn.state_ == State::kAtWork) EndTurn(turn, State::kDone);
  turn.state_ = State::kDone;
  Lane& lane = LaneOf(turn);
  if (!turn.is_long_) --lane.num_short;
  --lane.num_begun;
  --num_begun_;
  num_begun_in_background_ -= lane.is_background;
  EraseIfEmpty(KeyOf(turn));
  GiveTurnsWhenPossible();
}

bool PlanningPool::HaveThread() {
  if (num_idle_ > ready_.size()) return true;
  try {
    threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error&) {
    return false;
  }
  ++num_idle_;
  return true;
}

void PlanningPool::Run() {
  LowerPriority();
  for (;;) {
    std::shared_ptr<PlanningTurn> turn;
    std::function<void()> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &PlanningPool::HasNews));
      if (ready_.empty()) return;
      turn = std::move(ready_.front());
      ready_.pop_front();
      --num_idle_;
      job = std::move(turn->job_);
    }
    // The job ends its call itself if it can. An exception that gets here has ended nothing.
    RunWithinMemory(job);
    job = nullptr;
    absl::MutexLock lock(&mutex_);
    ++num_idle_;
    EndJob(*turn);
  }
}

}  // namespace packhouse
