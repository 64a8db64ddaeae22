// The log of rows of one open graph: appends that wait at the same time share a flush of the disk.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ROW_LOG_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ROW_LOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/base/disk_file.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/row_records.h"

namespace packhouse {

// A record of the log.
struct RowRecord {
  uint64_t offset = 0;
  RowHeader header;
  RowIndex index;
};

struct RowCounts {
  std::vector<uint64_t> num_nodes;  // Of each set.
  std::vector<uint64_t> num_edges;

  uint64_t all_nodes() const;
  uint64_t all_edges() const;
};

// A log begins with a record that has no rows, which is durable before anything says that the log
// is there: so a log that was emptied or removed is no empty log.
std::string BeginningOfRowLog(uint64_t graph);

// Reads a log from its beginning. The last records may be there in part, if the machine or the
// process ended while they were written: nobody was answered then. They are no error: the log ends
// before them. DATA_LOSS naming the file and the place if a record is damaged that was durable,
// such as the beginning, which `visit` is not given. `visit` may be given records whose data is
// damaged, except at the end of the log. Returns the bytes of the log. Reads headers and indices
// only; and the data at the end.
absl::StatusOr<uint64_t> ScanRowLog(const DiskFile& file, uint64_t graph,
                                    absl::FunctionRef<absl::Status(const RowRecord&)> visit);

// Thread-safe.
class RowLog {
 public:
  // `definition` and `space`, which counts the log's bytes, must outlive the log.
  //
  // The log at `path`, where a file with the beginning alone is, or will be before an append.
  static std::unique_ptr<RowLog> New(const std::string& path, const GraphDefinition* definition,
                                     GraphSpace* space);
  // Continues the log at `path`. Cuts off what was not written to its end. Errors as ScanRowLog();
  // DATA_LOSS if there is no file.
  static absl::StatusOr<std::unique_ptr<RowLog>> Open(const std::string& path,
                                                      const GraphDefinition* definition,
                                                      GraphSpace* space);

  // Returns when the rows are durable. Errors as SourceGraphStore::Append(), which has checked the
  // chunk. After an error of the disk while it flushes, the outcome of appends that waited is
  // unknown (disk_file.h), and every later one is UNAVAILABLE until the store is opened anew.
  absl::StatusOr<SourceAppendResult> Append(const SourceGraphChunk& chunk,
                                            const std::optional<ProducerSequence>& producer);

  // From now on appends are UNAVAILABLE; except repetitions. Returns when all earlier ones are
  // durable. FAILED if one could not be written.
  absl::Status Stop();
  void Resume();

  RowCounts counts() const;
  // Named ones, and of the others those that are forgotten last: kMaxProducers together, if there
  // are as many.
  ProducerHistories producers() const;
  ProducerHistory GetProducer(absl::string_view producer) const;
  // Bytes of the appends.
  uint64_t bytes() const;
  // The first bytes of the file that are known to be on the disk, and never change.
  uint64_t durable_bytes() const;

 private:
  RowLog(const std::string& path, const GraphDefinition* definition, GraphSpace* space);

  absl::Status AwaitDurable(uint64_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const std::string& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SourceAppendResult Totals() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const GraphDefinition* const definition_;
  GraphSpace* const space_;
  const uint64_t beginning_bytes_;

  mutable absl::Mutex mutex_;
  DiskFile file_ ABSL_GUARDED_BY(mutex_);  // Open once there was an append.
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_flushing_ ABSL_GUARDED_BY(mutex_) = false;
  // [0, durable_) is on the disk, [durable_, end_) is written.
  uint64_t durable_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t end_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  RowCounts counts_ ABSL_GUARDED_BY(mutex_);
  struct Producer {
    ProducerHistory history;
    uint64_t end = 0;  // Of its last record in the log.
  };
  absl::Status CheckNumProducers(const ProducerSequence& added)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(const ProducerSequence& producer, uint32_t digest, uint64_t end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets all but `most` of the producers whose names were made up: those that are over first.
  void ForgetMadeUp(size_t most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::btree_map<std::string, Producer> producers_ ABSL_GUARDED_BY(mutex_);
  size_t num_made_up_ ABSL_GUARDED_BY(mutex_) = 0;
  // The number of them at which those whose time is over are looked for.
  size_t sweep_made_up_at_ ABSL_GUARDED_BY(mutex_) = 1024;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_ROW_LOG_H_
