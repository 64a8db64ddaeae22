#include "service/algorithms/planning/tuning/candidate_queue.h"

#include <algorithm>
#include <utility>

namespace packhouse {

CandidateQueue::CandidateQueue(const CandidateGrid& grid, uint64_t most_roots, WorkBudget& budget,
                               size_t max_roots)
    : grid_(grid), most_roots_(most_roots), budget_(budget), max_roots_(max_roots) {
  CollectRoots();
}

bool CandidateQueue::Before(const Entry& a, const Entry& b) {
  if (a.bound != b.bound) return a.bound < b.bound;
  if (a.weight != b.weight) return a.weight < b.weight;
  // More packs, smaller capacities.
  if (a.root != b.root) return a.root > b.root;
  return a.positions < b.positions;
}

void CandidateQueue::CollectRoots() {
  std::vector<Entry> roots;
  const std::optional<Entry> beyond = last_root_;
  more_roots_ = false;
  const bool all =
      grid_.VisitBalanced(most_roots_, [&](uint64_t packs, const GridPositions& positions) {
        // There is always one.
        if (!budget_.Spend(kStepsPerRoot) && (beyond || !roots.empty())) return false;
        Entry root;
        root.bound = grid_.ValueOf(positions, grid_.LeastPacks(positions));
        root.weight = grid_.ValueOf(positions, 1);
        root.root = packs;
        if (beyond && !Before(*beyond, root)) return true;
        roots.push_back(std::move(root));
        // Only the best are kept; the chain is looked through again when they are used up.
        if (roots.size() >= 2 * max_roots_) {
          std::nth_element(roots.begin(), roots.begin() + max_roots_, roots.end(), Before);
          roots.resize(max_roots_);
          more_roots_ = true;
        }
        return true;
      });
  complete_ &= all;
  std::sort(roots.begin(), roots.end(), Before);
  if (roots.size() > max_roots_) {
    roots.resize(max_roots_);
    more_roots_ = true;
  }
  if (!roots.empty()) last_root_ = roots.back();
  roots_in_queue_ = roots.size();
  for (Entry& root : roots) Push(std::move(root));
}

void CandidateQueue::Push(Entry entry) {
  constexpr uint64_t kBlock = 16;  // What the allocator needs for a block of its own.
  if (!budget_.HoldMore(3 * sizeof(Entry) + kBlock +
                        sizeof(uint64_t) * entry.positions.capacity())) {
    return;
  }
  entries_.push_back(std::move(entry));
  std::push_heap(entries_.begin(), entries_.end(), After);
}

std::optional<Candidate> CandidateQueue::Next() {
  if (roots_in_queue_ == 0 && more_roots_) CollectRoots();
  if (entries_.empty()) return std::nullopt;
  std::pop_heap(entries_.begin(), entries_.end(), After);
  Entry entry = std::move(entries_.back());
  entries_.pop_back();
  if (entry.positions.empty()) {
    --roots_in_queue_;
    entry.positions = *grid_.Balanced(entry.root);
  }
  // Axes before the last one are not gone along again, so that each candidate is reached once.
  for (size_t axis = entry.axis; axis < grid_.num_axes(); ++axis) {
    Entry larger;
    larger.positions = entry.positions;
    if (!grid_.Enlarge(axis, larger.positions)) continue;
    larger.bound = grid_.ValueOf(larger.positions, grid_.LeastPacks(larger.positions));
    larger.weight = grid_.ValueOf(larger.positions, 1);
    larger.root = entry.root;
    larger.axis = axis;
    Push(std::move(larger));
  }
  return grid_.At(entry.positions);
}

}  // namespace packhouse
