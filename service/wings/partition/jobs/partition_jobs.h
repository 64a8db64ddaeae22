// The partitions of a server's source graphs: what is asked for, at work, and done.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_JOBS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_JOBS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/access/fair_bound.h"
#include "service/base/clock.h"
#include "service/base/execution.h"
#include "service/base/memory_budget.h"
#include "service/stores/limits/disk_quota.h"
#include "service/wings/graphs/source_graphs/shared_companions.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/jobs/partition_folder.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition/jobs/partition_report.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "service/wings/partition/jobs/partition_states.h"

namespace packhouse {

enum class PartitionJobState { kWaiting, kRunning, kDone, kFailed, kCancelled };

// The progress is that of work while it runs.
struct PartitionJobInfo : PartitionProgress {
  std::string graph;
  PartitionPlan plan;
  uint64_t graph_version = 0;
  PartitionJobState state = PartitionJobState::kWaiting;
  // Why it failed; otherwise OK.
  absl::Status error = absl::OkStatus();
  // Once it is done. List() leaves the files out.
  std::optional<PartitionReport> report;
  std::vector<PartitionJobFile> files;  // In ascending order of paths.
};

// Each partition is a folder (partition_folder.h): what was asked for is durable before Partition()
// answers, and files are there once the partition is whole. So a crash at any time loses nothing:
// what has neither files nor an end goes on when the jobs are opened again. One at which the
// process has ended kMaxCrashes times, without having got further meanwhile, has failed then: what
// ends the process would end it at every start.
//
// The work is done by threads of its own with a low priority, one for each partition that runs; so
// are METIS's processes. The others wait, and clients take turns (partition_queue.h); one that runs
// gives way between two parts, once it has had Options::slice, and goes on later. A partition whose
// memory is not free now waits, too, and is woken when some is given back.
//
// Where servers share source graphs, each has jobs over the same partitions
// (shared_partition_folder.h): a server works at those that were asked for there. Whoever looks
// sees what that server has told last; if it is gone, that the partition has failed until it is
// back, or until the partition is asked for at another one, which begins anew. What other servers
// have changed is known after kTellPeriod.
//
// Thread-safe. Functions that change something wait for the disk; those that end work wait for its
// end: for METIS some hundredths of a second, for files that are being written as long as one part
// takes, for a graph that is being fetched until it is there. Errors of all: NOT_FOUND if there is
// no such graph or partition, UNAVAILABLE and RESOURCE_EXHAUSTED of the disk, DATA_LOSS naming a
// file that is damaged.
class PartitionJobs {
 public:
  static constexpr uint64_t kMaxCrashes = 2;

  struct Options {
    size_t max_running = 1;
    // In all; a client may have half of them, and at least one.
    size_t max_waiting = 64;
    // Of the files of all partitions, also of those that are not done. A partition that would have
    // more ends with RESOURCE_EXHAUSTED. Each may exceed it by one part, or by one file of the
    // assignment or the mapping.
    uint64_t max_bytes = uint64_t{64} << 30;
    // How long one may run while partitions of other clients wait.
    absl::Duration slice = absl::Minutes(1);
    // Bounds the bytes of a namespace, and counts those of its partitions too, by these jobs: they
    // must outlive every call of it but their own. Null: nothing does.
    DiskQuota* quota = nullptr;
    // The same graphs, where to open one is no use of it; must outlive the jobs. Null: the others.
    SourceGraphStore* unused_graphs = nullptr;
    // Of the graphs, if servers share them; must outlive the jobs. Null: each graph has a folder.
    SharedCompanions* shared = nullptr;
  };
  // Between two looks of a server at what the servers share: while it works, and while it does not.
  static constexpr absl::Duration kTellPeriod = absl::Seconds(2);
  static constexpr absl::Duration kLookPeriod = absl::Minutes(1);

  // The pointees must outlive the jobs. `engine` may be null: then METIS cannot be called. From
  // `memory` (null: it is not counted) the memory of each partition is held while it runs.
  PartitionJobs(SourceGraphStore* graphs, AssignmentEngine* engine, Clock* clock,
                MemoryBudget* memory, const Options& options);
  PartitionJobs(const PartitionJobs&) = delete;
  PartitionJobs& operator=(const PartitionJobs&) = delete;
  // Stops the work; it goes on when the jobs are opened again.
  ~PartitionJobs();

  // Begins a partition. The same plan finds the one that is there; if it was cancelled or has
  // failed, it goes on. INVALID_ARGUMENT naming the field, the value and the bound; ALREADY_EXISTS
  // if the name is taken by another plan; FAILED_PRECONDITION if the graph is not sealed, or
  // without one direction of an edge set; RESOURCE_EXHAUSTED if too many wait, in all or of this
  // client, if it needs more memory than there is, or if partitions have max_bytes already.
  absl::StatusOr<PartitionJobInfo> Partition(absl::string_view graph, const PartitionPlan& plan,
                                             const ClientId& client = "");

  absl::StatusOr<PartitionJobInfo> Get(absl::string_view graph, absl::string_view name) const;
  // In ascending order of names.
  absl::StatusOr<std::vector<PartitionJobInfo>> List(absl::string_view graph) const;
  // A partition that is done stays so.
  absl::StatusOr<PartitionJobInfo> Cancel(absl::string_view graph, absl::string_view name);
  absl::Status Delete(absl::string_view graph, absl::string_view name);

  using FileBytes = PartitionBytes;
  // Bytes [offset, offset + max_bytes) of a file, as far as it has them. FAILED_PRECONDITION if the
  // partition is not done; OUT_OF_RANGE if the offset is beyond the end.
  absl::StatusOr<FileBytes> ReadFile(absl::string_view graph, absl::string_view name,
                                     absl::string_view path, uint64_t offset,
                                     uint64_t max_bytes) const;

  // The parts of the nodes of a partition that is done.
  struct Parts {
    std::shared_ptr<const StoredSourceGraph> graph;
    uint32_t num_parts = 0;
    // By homogeneous node (homogeneous_graph.h); and its memory.
    std::vector<uint32_t> part;
    MemoryHold memory;
  };
  // FAILED_PRECONDITION if the partition is not done; RESOURCE_EXHAUSTED of the memory. O(nodes).
  absl::StatusOr<Parts> PartsOf(absl::string_view graph, absl::string_view name) const;

  // Ends the work at the graph's partitions, and deletes the graph with them. Graphs that have
  // partitions must be deleted here only, or be forgotten here. Errors: as
  // SourceGraphStore::Delete.
  absl::Status DeleteGraph(absl::string_view graph);
  // Gives back what is known of a graph that was deleted elsewhere, without work at it.
  void ForgetGraph(absl::string_view graph);

  // On the disk, and in what servers share, of all graphs, by namespace, as far as the jobs have
  // been found. O(partitions).
  absl::StatusOr<std::map<std::string, uint64_t>> BytesByNamespace() const;

  // Blocks until nothing runs or waits.
  void AwaitIdle() const;

 private:
  using Key = PartitionStates::Key;
  using Turn = PartitionStates::Turn;

  void Work();
  // Enqueues what an earlier process has left.
  void FindUnfinished();
  void FindUnfinishedOf(const std::string& graph);
  // The same of what servers share: what this one has claimed, and nobody works at. Removes what it
  // has on the disk of others.
  void FindClaimed();
  void RunNext(const Turn& turn);
  // ABORTED if there is no memory now, and if it `gave_way`.
  absl::Status RunJob(const Turn& turn, bool& gave_way);
  // Runs it as soon as there is memory.
  absl::Status RunWithMemory(const Turn& turn, bool& gave_way);
  void Ask(const Key& key, const ClientId& client, FairBound::Place place,
           std::shared_ptr<const StoredSourceGraph> graph,
           std::shared_ptr<const PartitionFolder> folder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How far work is that runs.
  PartitionProgress ProgressOf(const PartitionWork& work) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether work is to end; tells, now and then, how far it is.
  bool IsOver(PartitionWork& work, absl::Time& next_tell) const;
  // Waits until work that was cancelled, at partitions for which it holds, is over.
  void AwaitEnd(absl::FunctionRef<bool(const Key&)> holds) const ABSL_LOCKS_EXCLUDED(changes_);
  // Ends the work at the partitions for which it holds, and makes the change while there is none.
  absl::Status WithoutWork(absl::FunctionRef<bool(const Key&)> holds,
                           absl::FunctionRef<absl::Status()> change) ABSL_LOCKS_EXCLUDED(changes_);
  bool HasWorkOrStops() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A partition, and its graph, open: unset if servers share graphs, which would have to be
  // fetched.
  struct Opened {
    std::shared_ptr<const StoredSourceGraph> graph;
    std::shared_ptr<const PartitionFolder> folder;
  };
  // Notes a use of a graph that servers share, without fetching it.
  absl::Status Use(absl::string_view graph) const;
  // FAILED_PRECONDITION for a graph that is not sealed.
  absl::StatusOr<Opened> Open(const SourceGraphStore& graphs, absl::string_view graph,
                              absl::string_view name) const;
  // The same of one that may be there: NOT_FOUND. `is_done`: FAILED_PRECONDITION unless it is.
  absl::StatusOr<Opened> OpenFor(const SourceGraphStore& graphs, absl::string_view graph,
                                 absl::string_view name) const;
  absl::StatusOr<Opened> OpenDone(absl::string_view graph, absl::string_view name) const;
  absl::StatusOr<PartitionJobInfo> Read(const PartitionFolder& folder, const std::string& name,
                                        bool with_files) const;
  // The same without the report and the files, which may have to be fetched.
  absl::StatusOr<PartitionJobInfo> ReadState(const PartitionFolder& folder,
                                             const std::string& name) const;
  // What came of one try of Partition(); the last two are waited for without the lock.
  enum class Asked { kThere, kNew, kNeedsGraph, kNeedsEnd };
  // Of Partition(), Cancel(): ABORTED if another server was faster. `fetched` becomes the graph if
  // it is here.
  absl::StatusOr<Asked> TryPartition(absl::string_view graph, const PartitionPlan& plan,
                                     const ClientId& client,
                                     std::shared_ptr<const StoredSourceGraph>& fetched)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);
  // `before` becomes what it was.
  absl::Status TryCancel(absl::string_view graph, absl::string_view name, PartitionJobInfo& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);
  void ReadProgress(PartitionJobInfo& info, const Key& key) const;
  // The bytes that a partition has on the disk now. RESOURCE_EXHAUSTED beyond max_bytes, or beyond
  // the namespace's quota; they are counted all the same.
  absl::Status CountBytes(const Key& key, uint64_t bytes);

  SourceGraphStore* const graphs_;
  SourceGraphStore* const unused_graphs_;
  AssignmentEngine* const engine_;
  Clock* const clock_;
  MemoryBudget* const memory_;
  const Options options_;
  // Outlives the jobs, which have places.
  FairBound waiting_bound_;

  // Held over each change of the folders, so that changes come one after the other. Threads that
  // work do not take it; nobody waits under it for them, or for what servers keep in objects.
  absl::Mutex changes_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_searched_ ABSL_GUARDED_BY(mutex_) = false;
  PartitionStates states_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<Key, uint64_t> bytes_ ABSL_GUARDED_BY(mutex_);
  uint64_t all_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Counts how often memory was given back while somebody waited for it.
  uint64_t room_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> has_begun_ = false;  // A thread has.
  std::vector<Thread> threads_;          // End before the others do.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_JOBS_H_
