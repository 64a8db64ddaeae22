// Candidates for limits by ascending bound, made only as they are asked for.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_CANDIDATE_QUEUE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_CANDIDATE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "service/algorithms/planning/tuning/candidate_grid.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// Best-first enumeration of a CandidateGrid. Each balanced candidate is the root of the candidates
// that have its volume bound. Each of these is reached on exactly one path, axis after axis, and
// bounds only grow along it. Thread-compatible.
class CandidateQueue {
 public:
  // The most roots in memory. When they are used up, the chain is searched again for the next ones.
  static constexpr size_t kMaxRoots = size_t{1} << 16;
  // Steps of a budget for one candidate of the chain.
  static constexpr uint64_t kStepsPerRoot = 50;

  // Looks at no more than about `most_roots` balanced candidates; `max_roots` is for tests. The
  // grid and the budget must outlive the queue.
  CandidateQueue(const CandidateGrid& grid, uint64_t most_roots, WorkBudget& budget,
                 size_t max_roots = kMaxRoots);

  // The next candidate: by bound, then by weighted sum of capacities, then the smaller one. nullopt
  // when there are no more, or no more were found within the budget. There is always a first.
  std::optional<Candidate> Next();

  // Whether all candidates have been returned when Next() has no more: the chain was not too long,
  // and the budget was not used up.
  bool complete() const { return complete_; }

 private:
  struct Entry {
    double bound = 0;
    double weight = 0;  // Of the capacities.
    uint64_t root = 0;  // The root's LeastCostedPacks.
    // The last axis on which it was enlarged; empty positions for a root.
    size_t axis = 0;
    GridPositions positions;
  };

  static bool Before(const Entry& a, const Entry& b);
  static bool After(const Entry& a, const Entry& b) { return Before(b, a); }
  void CollectRoots();
  void Push(Entry entry);

  const CandidateGrid& grid_;
  const uint64_t most_roots_;
  WorkBudget& budget_;
  const size_t max_roots_;
  bool complete_ = true;
  // The last root that was collected so far, and whether there are more after it.
  std::optional<Entry> last_root_;
  bool more_roots_ = true;
  size_t roots_in_queue_ = 0;
  std::vector<Entry> entries_;  // A heap.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_CANDIDATE_QUEUE_H_
