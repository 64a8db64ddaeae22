// Threads for calls that plan. These may take minutes, so they work by turns, each for a slice of
// time.
//
// Flow: each call has a PlanningTurn. Submit() queues its job, which runs on a thread of the pool.
// The job asks YieldTurn() now and then, as planners do (algorithms/planning/work_budget.h). In
// YieldTurn() it waits when its slice is over and it is another call's turn.
//
// Implementation: a call that has begun keeps its thread until it ends. So there are more threads
// than turns; threads without a turn wait.
#ifndef PACKHOUSE_SERVICE_ACCESS_PLANNING_POOL_H_
#define PACKHOUSE_SERVICE_ACCESS_PLANNING_POOL_H_

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/access/policy.h"
#include "service/base/clock.h"
#include "service/base/execution.h"

namespace packhouse {

class PlanningPool;

// The turn of one call. Any thread may call Cancel() and Hurry(); only the thread of the job may
// call the rest.
class PlanningTurn {
 public:
  enum class Urgency {
    kCall,  // Somebody waits for it.
    // Nobody waits yet: it has a turn when no call wants one.
    kBackground,
  };

  // The pool must outlive it.
  PlanningTurn(PlanningPool* pool, ClientId client, Urgency urgency = Urgency::kCall)
      : pool_(pool), client_(std::move(client)), is_background_(urgency == Urgency::kBackground) {}
  PlanningTurn(const PlanningTurn&) = delete;
  PlanningTurn& operator=(const PlanningTurn&) = delete;

  // Whether the call was cancelled. If its slice is over, or it had none, blocks until it is this
  // call's turn or it is cancelled. So do not call it under a lock that others need. Otherwise
  // cheap.
  bool YieldTurn();

  // The same, for a call that is about to wait for another call's result. Gives the turn to others
  // and never blocks. The next YieldTurn() waits for a turn.
  bool LeaveTurn();

  // The namespace that the call works for, once its request was read; waits as YieldTurn() if the
  // namespace has its share of the turns already. May be called once.
  bool YieldTurnIn(absl::string_view where);

  // To be called when nobody waits for the call any more. If its job has not begun, it runs at once
  // on this thread and finds itself cancelled. If it waits for its turn, it goes on.
  void Cancel();

  // To be called when somebody waits for what is done in the background: from now on it is a call.
  void Hurry();

  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  friend class PlanningPool;

  enum class State {
    kNew,      // Not submitted.
    kQueued,   // Submitted, not begun.
    kAtWork,   // Has a turn, perhaps not yet a thread.
    kParked,   // Waits for a turn.
    kResting,  // Has begun, and wants no turn.
    kDone,
  };

  PlanningPool* const pool_;
  const ClientId client_;
  std::atomic<bool> cancelled_ = false;  // Set under the pool's mutex.

  // Guarded by the pool's mutex; the thread that runs the job reads what only it changes.
  State state_ = State::kNew;
  bool is_background_;
  std::function<void()> job_;
  bool is_long_ = false;
  std::string where_;  // Its namespace; empty: not known.
  absl::Duration worked_;
  // About the turn: written while no thread runs the job, or by the thread that runs it.
  absl::Time turn_began_;
  absl::Time slice_end_ = absl::InfinitePast();
};

// Which call is next: of the clients with a call that can go on, the one with the fewest turns now;
// in a tie, the one whose last turn is the longest ago. So each of n clients that plan has 1/n of
// the turns, however many calls it makes; clients share turns that others do not use. Of a client's
// calls, the one that has waited the longest is next. A new call is begun if fewer than `num_turns`
// of the begun ones are short so far. So short plans are made one after another, in order, and long
// plans do not hold them up.
//
// A namespace may have a share of the turns (the quota `planning`): of its calls at most so many,
// at least one, are at work at the same time. Others wait, even if turns are free.
//
// The queue is bounded by its users: the gate bounds calls and streams. Each begun call has a
// thread: at most kMaxBegun, of which kMaxBegunByClient are one client's, or more if there are more
// turns. The last half of them is for clients that have none, so that a client's first call can
// begin unless there are too many first calls of others. The threads have a lower priority than
// those that answer quick calls.
//
// Work in the background has what calls leave: a turn only while no call can have it, and at most
// `num_turns` of it have begun. Among itself it is as calls are.
//
// Thread-safe.
class PlanningPool {
 public:
  // Long enough that changing turns costs nothing, short enough that a plan of milliseconds does
  // not wait long behind a few clients.
  static constexpr absl::Duration kSlice = absl::Milliseconds(20);
  // A call that has worked for this long is not short.
  static constexpr absl::Duration kLong = absl::Seconds(1);
  static constexpr size_t kMaxBegunByClient = 8;
  static constexpr size_t kMaxBegun = 64;

  // Time between two attempts to get memory.
  static constexpr absl::Duration kRetry = absl::Milliseconds(10);

  // `num_turns` calls are at work at the same time. Without `quotas_of` namespaces have no shares.
  PlanningPool(Clock* clock, size_t num_turns, QuotasOf quotas_of = nullptr);
  // Runs the queued jobs, then ends.
  ~PlanningPool();

  PlanningPool(const PlanningPool&) = delete;
  PlanningPool& operator=(const PlanningPool&) = delete;

  // Runs `job` once, when it is its turn. If the turn was cancelled, runs it at once, on this
  // thread. May be called once for each turn. Throws std::bad_alloc if there is no memory; then the
  // job does not run.
  void Submit(std::shared_ptr<PlanningTurn> turn, std::function<void()> job);

  // The share of the turns that a namespace's calls have now.
  double ShareOf(absl::string_view where) const;

 private:
  friend class PlanningTurn;
  using State = PlanningTurn::State;

  // A client's calls, or what is done for it in the background, which comes after all calls.
  struct LaneKey {
    bool is_background = false;
    ClientId client;
    friend auto operator<=>(const LaneKey&, const LaneKey&) = default;
  };
  // What was submitted of these and has not ended.
  struct Lane {
    bool is_background = false;
    std::deque<std::shared_ptr<PlanningTurn>> queued;
    std::deque<PlanningTurn*> parked;  // Kept alive by their threads.
    size_t num_at_work = 0;
    size_t num_begun = 0;
    size_t num_short = 0;  // Short calls among the begun ones.
    uint64_t last_turn = 0;
  };

  bool Pause(PlanningTurn& turn);
  bool PauseIn(PlanningTurn& turn, absl::string_view where);
  // Waits for a turn; the call has none.
  bool Park(PlanningTurn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Rest(PlanningTurn& turn);
  void Cancel(PlanningTurn& turn);
  void Hurry(PlanningTurn& turn);

  static LaneKey KeyOf(const PlanningTurn& turn) { return {turn.is_background_, turn.client_}; }
  // Of a turn that was submitted and has not ended.
  Lane& LaneOf(const PlanningTurn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return lanes_.find(KeyOf(turn))->second;
  }
  // The lane for a turn that comes. Throws std::bad_alloc.
  Lane& LaneFor(const PlanningTurn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseIfEmpty(const LaneKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBegin(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether so many calls at work are more than a namespace's share; and whether one more would be.
  bool IsOver(const std::string& where, size_t at_work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFull(const std::string& where) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first parked call whose namespace is not full; null if there is none.
  PlanningTurn* FirstParked(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayGoOn(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return MayBegin(lane) || FirstParked(lane) != nullptr;
  }
  // Of the lanes that a turn gives way to.
  bool AnyMayGoOn(bool is_background) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing has changed if there is no memory (std::bad_alloc).
  void Enqueue(const std::shared_ptr<PlanningTurn>& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dequeue(const PlanningTurn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the free turns to calls. Turns for which there is no memory (std::bad_alloc) stay free.
  void GiveTurns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if there is no memory.
  bool TryGiveTurns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, now or as soon as there is memory.
  void GiveTurnsWhenPossible() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveTurn(Lane& lane, bool begin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndTurn(PlanningTurn& turn, State next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkLong(PlanningTurn& turn, Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a thread will take one more of ready_; starts one if necessary.
  bool HaveThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndJob(PlanningTurn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !ready_.empty() || (stop_ && lanes_.empty());
  }

  Clock* const clock_;
  const size_t num_turns_;
  const QuotasOf quotas_of_;
  const size_t max_begun_by_client_;
  const size_t max_begun_;

  mutable absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Clients without calls leave nothing behind.
  std::map<LaneKey, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  size_t num_at_work_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of each known namespace that has any.
  std::map<std::string, size_t, std::less<>> at_work_in_ ABSL_GUARDED_BY(mutex_);
  size_t num_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_begun_in_background_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_turn_ ABSL_GUARDED_BY(mutex_) = 0;
  // Calls that have their first turn and no thread yet. For each, a thread waits or is about to
  // wait.
  std::deque<std::shared_ptr<PlanningTurn>> ready_ ABSL_GUARDED_BY(mutex_);
  size_t num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_PLANNING_POOL_H_
