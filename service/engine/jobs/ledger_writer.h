// The access of all jobs to the ledger's log: who may append when, and when the log is shortened.
//
// Why nothing is lost when a snapshot replaces the log. A record is *at sea* from before it is
// appended until its job has applied it. Replace() runs while nothing is at sea. Then every record
// in the log is applied, so the jobs, from which the snapshot is taken, have everything that the
// log has. No record is appended until the snapshot is the log. A change that a job has decided on,
// and that is not at sea yet, is in neither; it is appended after the snapshot. The snapshot need
// not be of one moment: while nothing is at sea, no durable state changes.
//
// A thread with a record at sea holds no job's mutex while it waits for the disk, and waits only
// for the disk and for the mutex of its own job. So compaction waits for at most one commit, and
// delays only new appends.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_WRITER_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/engine/jobs/gathering_places.h"
#include "service/stores/logs/record_log.h"

namespace packhouse {

// Thread-safe. Waits for the disk; must not be called with a job's mutex.
class LedgerWriter {
 public:
  // A cursor may name any generation up to this one, or up to the last that was drawn, so that
  // invented cursors cannot use up the numbers.
  static constexpr uint64_t kMaxNamedGeneration = uint64_t{1} << 62;

  // `log` must outlive it. It must have `num_records` records, with generations up to
  // `last_generation`. `gathering`: places that it shares with others; null: it has kOwnPlaces.
  static constexpr size_t kOwnPlaces = 2;
  LedgerWriter(RecordLog* log, size_t max_records, size_t num_records, uint64_t last_generation,
               std::shared_ptr<GatheringPlaces> gathering = nullptr)
      : log_(log),
        max_records_(max_records),
        gathering_(gathering != nullptr ? std::move(gathering)
                                        : std::make_shared<GatheringPlaces>(kOwnPlaces)),
        num_records_(num_records),
        last_generation_(last_generation) {}

  // Appends all of the records or none, and calls `apply` when they are durable. Errors are those
  // of the log; then `apply` is not called.
  absl::Status Write(absl::Span<const std::string> records, absl::FunctionRef<void()> apply);

  // Whether a committer may wait for more operations before it writes; then EndGathering() must
  // follow.
  bool BeginGathering() { return gathering_->Take(); }
  void EndGathering() { gathering_->GiveBack(); }

  // Whether the log is so long that Compact() should be called. True once, until Compact() is
  // called.
  bool TakeDue();
  // Replaces the log by the result of `snapshot`, which is called when nothing is at sea, and the
  // last generation. If the log refuses, or there is no memory, the log stays as it was, and is due
  // again after as many records.
  void Compact(absl::FunctionRef<std::vector<std::string>()> snapshot);

  // A number above all that were drawn, and above `named`, the generation of a cursor. `named` is
  // at most kMaxNamedGeneration, or was drawn.
  uint64_t DrawGeneration(uint64_t named);
  uint64_t last_generation() const { return last_generation_.load(std::memory_order_relaxed); }

 private:
  bool IsOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !compacting_; }
  bool IsCalm() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_at_sea_ == 0; }

  RecordLog* const log_;
  const size_t max_records_;
  const std::shared_ptr<GatheringPlaces> gathering_;

  absl::Mutex mutex_;
  size_t num_at_sea_ ABSL_GUARDED_BY(mutex_) = 0;
  bool compacting_ ABSL_GUARDED_BY(mutex_) = false;
  bool due_ ABSL_GUARDED_BY(mutex_) = false;
  // Approximate.
  size_t num_records_ ABSL_GUARDED_BY(mutex_);

  std::atomic<uint64_t> last_generation_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_WRITER_H_
