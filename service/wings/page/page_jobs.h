// Questions of the page that take longer than a moment.
//
// A browser asks, is told that the work has begun, and asks the same again until the answer is
// there. So the thread of the HTTP port never waits. Each view of a browser has one question at a
// time: another one ends the work on the last, and so does a browser that asks no more.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_JOBS_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/execution.h"
#include "service/base/memory_budget.h"
#include "service/server/calls/page_calls.h"

namespace packhouse::page {

struct PageAnswer {
  int status = 200;  // Of HTTP.
  std::string body;  // JSON.
};

// Thread-safe; no call waits for work, except the destructor.
class PageJobs {
 public:
  struct Bounds {
    size_t num_threads = 3;
    // Questions that are asked and not answered, of all viewers and of one.
    size_t most = 64;
    size_t most_of_viewer = 12;
    // Nobody has asked for the answer for this long: nobody wants it, and the work is stopped
    // within another fifth of this.
    absl::Duration patience = absl::Seconds(5);
    // Memory that a question may need while it is worked on, and its answer until it is taken.
    uint64_t bytes_at_work = uint64_t{16} << 20;
  };
  using Work = std::function<PageAnswer(StopSwitch& stop)>;

  // `memory`, from which the bytes are reserved, may be null. The pointees must outlive it.
  PageJobs(const Bounds& bounds, Clock* clock, MemoryBudget* memory);
  // Stops all work and waits for its end.
  ~PageJobs();
  PageJobs(const PageJobs&) = delete;
  PageJobs& operator=(const PageJobs&) = delete;

  // Whose question it is: `view` is a name that the browser has made up for one of its views.
  struct Asker {
    std::string viewer;
    std::string view;

    // NOLINTNEXTLINE(modernize-use-nullptr): of the 0 that what is generated is compared with.
    friend auto operator<=>(const Asker&, const Asker&) = default;
  };
  // The answer to `question`, once; nullopt while there is work on it, which this begins if it is
  // new. Status 503 if there are too many questions, or no memory for one more.
  std::optional<PageAnswer> Ask(const Asker& asker, const std::string& question, Work work);

  // Runs `work` soon; it must be short.
  void RunSoon(std::function<void()> work);

  // Questions that are not answered, or whose answer was not taken.
  size_t num_jobs() const;

 private:
  struct Job {
    std::string question;
    Work work;
    bool is_asked = true;  // By a browser; else for the page itself.
    absl::Time last_asked;
    StopSwitch stop;
    // Guarded by the mutex.
    std::optional<PageAnswer> answer = std::nullopt;
    MemoryHold memory = {};
  };
  using Jobs = std::map<Asker, std::shared_ptr<Job>>;
  // What the clock's callbacks hold.
  struct Alive;

  // The clock itself stops what nobody waits for, so that this happens also when all threads work.
  static void LookLater(Clock* clock, absl::Duration period, const std::shared_ptr<Alive>& alive);
  void Run();
  void RunOne(Job& job);
  void Abandon(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return is_stopped_ || !waiting_.empty();
  }

  const Bounds bounds_;
  Clock* const clock_;
  MemoryBudget* const memory_;
  const std::shared_ptr<Alive> alive_;

  mutable absl::Mutex mutex_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Jobs jobs_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Job>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Job>> running_ ABSL_GUARDED_BY(mutex_);
  std::vector<Thread> threads_;  // End before the others do.
};

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_JOBS_H_
