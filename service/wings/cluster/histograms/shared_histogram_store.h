// Named histograms that several servers count together, in the store of a cluster.
//
// Each server has a copy of those that it was asked for. A change is a run (proto/packhouse/
// internal/shared_histogram.proto), which is written to the histogram's log (stores/logs/
// shared_log.h), and names the run before it. So all copies make the same changes in the same
// order, and are equal, those with a half-life too, also after etcd was restored. When the runs
// have become larger than the base, a server writes its copy as the new base, in their place.
//
// A change is answered when its run is in the store: it is durable then, and every server counts
// it. Changes that wait on one server share a run. Every read asks for the head first, so it has
// all changes that were answered before it began.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_SHARED_HISTOGRAM_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_SHARED_HISTOGRAM_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "packhouse/internal/shared_histogram.pb.h"
#include "service/base/execution.h"
#include "service/base/limited_log.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/keys/shared_uses.h"
#include "service/stores/logs/shared_log.h"
#include "service/wings/cluster/histograms/waiting_counts.h"

namespace packhouse {

// Thread-safe. Observe(), Merge(), Subtract(), Get(), SchemaOf(), Names() and Delete() wait for the
// store. Besides their own errors they return UNAVAILABLE if it cannot be reached. If then nobody
// knows whether a change was made, a producer's number makes another try harmless.
class SharedHistogramStore final : public HistogramStore {
 public:
  // What one change may have: a run must fit into a transaction.
  static constexpr uint64_t kMaxRunBytes = WaitingCounts::kMostOfRun;
  // Of each histogram; the store's other users need room, too.
  static constexpr size_t kMostDistinct = size_t{1} << 17;
  // Runs below this are left beside any base.
  static constexpr uint64_t kMinRunBytes = uint64_t{64} << 10;
  // Time between two transactions for changes that nobody waits for (ObserveSoon()).
  static constexpr absl::Duration kFlushPeriod = absl::Milliseconds(250);
  // Copies that nobody used for as long go, or for twice as long at most.
  static constexpr absl::Duration kUnusedPeriod = absl::Minutes(5);
  // Memory of changes that nobody waits for, of all histograms.
  static constexpr uint64_t kMaxSoonBytes = WaitingCounts::kMaxBytes;

  struct Options {
    // Another name each time that the process starts.
    std::string replica;
    Bounds bounds;
    // Is told of changes that nobody waits for and that were refused. May be null.
    LimitedLog* log = nullptr;
    // Histograms that no server has changed or read for as long are deleted by SweepUnused().
    Retention retention = {};
    // SharedUses::Options.
    std::function<absl::Time()> steady_now = nullptr;
    std::function<absl::Status()> agree = nullptr;
  };

  // `keys` and `memory` must outlive it. `memory` may be null.
  SharedHistogramStore(KeyValueStore* keys, const Options& options, MemoryBudget* memory);
  // Makes the changes that wait, or gives them up if the store cannot be reached.
  ~SharedHistogramStore() override;

  // Makes waiting changes now and then, and drops copies, on a thread. May be called once.
  void Start();

  absl::StatusOr<SizeSchema> SchemaOf(absl::string_view name) const override;
  absl::StatusOr<CountedGraphs> Observe(const HistogramKey& key, const SizesView& table,
                                        const std::optional<ProducerSequence>& producer,
                                        absl::Time now) override;
  // Without waiting: counted within kFlushPeriod or so. What is refused then is logged. Waits for
  // the store only if too much waits already, and returns what it says about this histogram then.
  // FAILED_PRECONDITION also if what waits has other components or another half-life.
  absl::Status ObserveSoon(const HistogramKey& key, const SizesView& table,
                           absl::Time now) override;
  absl::StatusOr<CountedGraphs> Merge(const HistogramKey& key, const SizeHistogram& addend,
                                      const std::optional<ProducerSequence>& producer,
                                      absl::Time now) override;
  absl::StatusOr<CountedGraphs> Subtract(const HistogramKey& key, const SizeHistogram& subtrahend,
                                         const std::optional<ProducerSequence>& producer,
                                         absl::Time now) override;
  absl::StatusOr<ProducerHistory> GetProducer(absl::string_view name,
                                              absl::string_view producer) const override;
  absl::StatusOr<HistogramSnapshot> Get(absl::string_view name, absl::Time now) const override;
  absl::Status Delete(absl::string_view name) override;
  // Of all servers.
  absl::StatusOr<std::vector<std::string>> Names() const override;

  // Ends when the store cannot be reached; then the rest waits on. Calls follow each other: what
  // waited when it began has been tried when it returns.
  absl::Status Flush() override;

  // Drops the copies that nobody used since the last call of this. They are read again when they
  // are needed.
  void DropUnused();
  // As HistogramStore::DeleteUnused(), of all servers. Where none expire: does nothing. One thread
  // at a time.
  absl::Status SweepUnused(std::vector<Expired>& expired);
  uint64_t num_expired() const { return uses_ == nullptr ? 0 : uses_->num_expired(); }
  // SharedUses::Options::kind.
  static constexpr absl::string_view kUses = "hist";
  // Changes that wait for another one of this histogram.
  size_t NumWaiting(absl::string_view name) const;

 private:
  using Head = internal::SharedHistogramHead;
  using Run = internal::SharedHistogramRun;

  // Of reading what others change, and of writing where they are faster.
  static constexpr int kTries = 4;
  static constexpr int kRaces = 100;

  // A call that changes something.
  struct Change {
    const HistogramKey* key = nullptr;
    const SizeHistogram* sizes = nullptr;
    bool subtracts = false;
    const std::optional<ProducerSequence>* producer = nullptr;
    absl::Time now;
    absl::StatusOr<CountedGraphs> result = absl::UnknownError("");
    bool is_done = false;
  };
  // What this server knows of a histogram. One thread at a time is busy with it, without the mutex.
  struct Copy {
    absl::Mutex mutex;
    bool is_busy ABSL_GUARDED_BY(mutex) = false;
    std::deque<Change*> queue ABSL_GUARDED_BY(mutex);
    // Grows with each use of any copy.
    uint64_t used ABSL_GUARDED_BY(mutex) = 0;
    // Of the busy thread. The copy has all runs of this log, the last of them head.last_run(). No
    // log: there is no copy.
    SharedLogHead log;
    Head head;

    bool is_there() const { return log.is_there(); }

    bool IsFree() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return !is_busy; }
    bool IsUnused(uint64_t since) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      return !is_busy && queue.empty() && used <= since;
    }
  };
  std::shared_ptr<Copy> CopyOf(absl::string_view name) const;
  // Calls `work` while no other thread is busy with the copy.
  void Alone(absl::string_view name, absl::FunctionRef<void(Copy& copy)> work) const;
  // The busy thread is done.
  void Free(absl::string_view name, const std::shared_ptr<Copy>& copy) const;
  absl::StatusOr<CountedGraphs> Make(Change& change);
  // Drops at most `number` of the copies that nobody is busy with and that were used last at `most`
  // or before: those that were used first. Whether there was any.
  bool DropFree(uint64_t most, size_t number) const;
  // The same where there is no memory. Each time for the same thing more of them.
  bool MakeRoom(size_t& number) const;
  absl::Status Use(absl::string_view name) const {
    return uses_ == nullptr ? absl::OkStatus() : uses_->Use(name);
  }
  // Copy::created of the one that is there; NOT_FOUND.
  absl::StatusOr<uint64_t> CreatedOf(absl::string_view name) const;
  // `created`: as of Copy; 0: whichever there is.
  absl::Status DeleteIf(absl::string_view name, Revision created, StillUnused unused);
  // Makes what waits for one histogram; if the store cannot be reached, it waits on.
  absl::Status FlushOne(absl::string_view name);

  // Below: of the busy thread.

  // Brings the copy up to date. NOT_FOUND if there is no such histogram now; then there is no copy.
  absl::Status Refresh(absl::string_view name, Copy& copy) const;
  // Reads what the copy has not.
  absl::Status ReadRuns(absl::string_view name, const SharedLogHead& now, const Head& head,
                        Copy& copy) const;
  absl::Status ReadBase(absl::string_view name, const std::string& bytes) const;
  absl::Status ApplyRun(absl::string_view name, const Head& head, const Run& run) const;
  // Allocates nothing that could fail.
  void DropCopy(absl::string_view name, Copy& copy) const;
  void MakeAll(absl::string_view name, Copy& copy, absl::Span<Change* const> changes);
  // Makes as many of the first changes as one run can have, or refuses the first. How many are
  // done.
  size_t MakeSome(absl::string_view name, Copy& copy, absl::Span<Change* const> changes);
  struct Gathered;
  // Puts the change into the run, or answers it without one. False: it is for a later run, as all
  // behind it. `first` and `is_new`: the run's first change, and whether that makes the histogram.
  bool Gather(absl::string_view name, const HistogramKey& first, bool is_new, Change& change,
              Gathered& run) const;
  static Run RunOf(const Gathered& gathered, const std::string& previous_run);
  // Commits the run, and answers its changes. False: others were faster, and the copy is fresh.
  bool MakeRun(absl::string_view name, Copy& copy, const HistogramKey& first,
               const Gathered& gathered);
  absl::Status CheckCreation(const HistogramKey& key) const;
  // Writes the copy as the base, if that is due. Of no consequence if it fails.
  void WriteBase(absl::string_view name, Copy& copy);
  std::string NextAttempt() const;

  KeyValueStore* const keys_;
  const std::string replica_;
  const Bounds shared_bounds_;
  LimitedLog* const log_;
  mutable std::atomic<uint64_t> num_attempts_ = 0;
  WaitingCounts waiting_;
  // Null: nothing expires.
  const std::unique_ptr<SharedUses> uses_;

  mutable absl::Mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Copy>, std::less<>> copies_ ABSL_GUARDED_BY(mutex_);
  bool is_flushing_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::atomic<uint64_t> num_uses_ = 0;
  std::atomic<uint64_t> unused_mark_ = 0;
  std::unique_ptr<Repeating> flusher_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_SHARED_HISTOGRAM_STORE_H_
