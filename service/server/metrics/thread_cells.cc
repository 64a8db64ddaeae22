#include "service/server/metrics/thread_cells.h"

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace packhouse::metrics {
namespace {

uint64_t NewId() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

struct ThreadCells::Shared {
  // Two cache lines: processors fetch them in pairs.
  struct alignas(128) Sheet {
    Cells cells = {};
  };

  Cells* Take() {
    absl::MutexLock lock(&mutex);
    if (free.empty()) {
      sheets.push_back(std::make_unique<Sheet>());
      return &sheets.back()->cells;
    }
    Cells* const cells = free.back();
    free.pop_back();
    return cells;
  }

  void GiveBack(Cells* cells) {
    absl::MutexLock lock(&mutex);
    free.push_back(cells);
  }

  template <typename Visit>
  void ForEach(Visit visit) {
    absl::MutexLock lock(&mutex);
    for (const std::unique_ptr<Sheet>& sheet : sheets) visit(sheet->cells);
  }

  absl::Mutex mutex;
  std::vector<std::unique_ptr<Sheet>> sheets ABSL_GUARDED_BY(mutex);
  std::vector<Cells*> free ABSL_GUARDED_BY(mutex);  // Of ended threads.
};

// All cells of a thread, given back when it ends.
struct ThreadCells::ThreadEnd {
  struct Held {
    std::weak_ptr<Shared> shared;
    Cells* cells;
  };

  ~ThreadEnd() {
    has_passed = true;
    known_ = {};
    for (const auto& [id, one] : held) {
      if (const auto shared = one.shared.lock()) shared->GiveBack(one.cells);
    }
  }

  // Forgets the cells of ThreadCells that are gone.
  void Sweep() {
    absl::erase_if(held, [](const auto& entry) { return entry.second.shared.expired(); });
  }

  absl::flat_hash_map<uint64_t, Held> held;
  // An addition that comes still later, from the destructor of another thread-local, takes cells
  // for good.
  static inline constinit thread_local bool has_passed = false;
};

ThreadCells::ThreadCells() : id_(NewId()), shared_(std::make_shared<Shared>()) {}
ThreadCells::~ThreadCells() = default;

ThreadCells::Cells& ThreadCells::FindOwnCells() {
  thread_local ThreadEnd end;
  Known& known = known_[id_ % kNumKnown];
  if (ThreadEnd::has_passed) {
    known = {id_, shared_->Take()};
    return *known.cells;
  }
  auto found = end.held.find(id_);
  if (found == end.held.end()) {
    end.Sweep();
    found = end.held.emplace(id_, ThreadEnd::Held{shared_, shared_->Take()}).first;
  }
  known = {id_, found->second.cells};
  return *known.cells;
}

uint64_t ThreadCells::Sum(size_t cell) const {
  uint64_t sum = 0;
  shared_->ForEach([&](const Cells& cells) { sum += cells[cell].load(std::memory_order_relaxed); });
  return sum;
}

double ThreadCells::SumReal(size_t cell) const {
  double sum = 0;
  shared_->ForEach([&](const Cells& cells) {
    sum += std::bit_cast<double>(cells[cell].load(std::memory_order_relaxed));
  });
  return sum;
}

}  // namespace packhouse::metrics
