// Seals of source graphs that go on when nobody waits for them any more.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SEAL_RUNS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SEAL_RUNS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/client_identity.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// A graph is sealed once, however many ask for it, come later, or go away. If the process ends
// meanwhile, the graph is open, as SourceGraphStore::Seal() says. Thread-safe.
class SealRuns {
 private:
  struct Run;

 public:
  // `work` asks `is_cancelled` now and then, where it may have to wait for its turn.
  using Work = std::function<void(const std::function<bool()>& is_cancelled)>;
  // Runs `work` on a graph once, soon, on another thread. May throw std::bad_alloc; then it does
  // not run.
  using Executor = std::function<void(const ClientId& client, const std::string& graph, Work work)>;

  struct State {
    SourceGraphProgress progress;
    // Set once the run is over.
    std::optional<absl::StatusOr<SourceGraphInfo>> result;
  };

  // One that waits for a run. Thread-safe.
  class Watch {
   public:
    // The run goes on.
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    State state() const;

   private:
    friend class SealRuns;
    Watch(std::shared_ptr<Run> run, std::shared_ptr<const std::function<void()>> wake)
        : run_(std::move(run)), wake_(std::move(wake)) {}

    const std::shared_ptr<Run> run_;
    const std::shared_ptr<const std::function<void()>> wake_;
  };

  // The store must outlive the runs.
  SealRuns(SourceGraphStore* graphs, Executor executor)
      : graphs_(graphs), executor_(std::move(executor)) {}
  // Gives up the runs, whose graphs are open again, and waits for them.
  ~SealRuns();
  SealRuns(const SealRuns&) = delete;
  SealRuns& operator=(const SealRuns&) = delete;

  // Seals a graph, or joins those who do. `wake` is called about a hundred times on the way, and
  // when the run is over. Any thread may call it, and it may be called once more after the watch
  // has gone; it must not block. Nothing is waited for.
  //
  // NOT_FOUND; FAILED_PRECONDITION if the graph is being sealed with another rule for nodes that
  // are there twice; RESOURCE_EXHAUSTED. The result is as SourceGraphStore::Seal(); UNAVAILABLE if
  // the process ends.
  absl::StatusOr<std::unique_ptr<Watch>> Start(const ClientId& client, absl::string_view name,
                                               const SealOptions& options,
                                               std::function<void()> wake);

 private:
  struct Run {
    std::string name;
    uint64_t id = 0;
    SealOptions options;
    mutable absl::Mutex mutex;
    State state ABSL_GUARDED_BY(mutex);
    std::vector<std::shared_ptr<const std::function<void()>>> wakes ABSL_GUARDED_BY(mutex);
  };

  void Seal(Run& run, const std::function<bool()>& is_cancelled);
  static void Tell(Run& run, const SourceGraphProgress& now);
  void End(Run& run, absl::StatusOr<SourceGraphInfo> result);

  SourceGraphStore* const graphs_;
  const Executor executor_;
  std::atomic<bool> stops_ = false;
  absl::Mutex mutex_;
  // By the ids of graphs. Runs that are not over.
  std::map<uint64_t, std::shared_ptr<Run>> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SEAL_RUNS_H_
