// Source graphs in one folder of a local disk, in files. docs/storage-format.md says what is in it.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_FILE_SOURCE_GRAPH_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_FILE_SOURCE_GRAPH_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/base/disk_file.h"
#include "service/base/durable_folder.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/linked_graphs.h"
#include "service/wings/graphs/stored/sealed_graph_store.h"
#include "service/wings/graphs/stored/source_graph_folder.h"

namespace packhouse {

// For monitoring.
struct SourceGraphStoreCounts {
  uint64_t num_graphs = 0;
  uint64_t num_bytes = 0;  // On the disk, with deleted graphs that are read.
  uint64_t max_bytes = 0;
  // Since the store was opened.
  uint64_t appended_nodes = 0;
  uint64_t appended_edges = 0;
};

// One process at a time has the folder. The file system must be local: files are mapped.
//
// Blocking: an append waits for the disk, together with the other waiting appends to its graph.
// Creating and deleting wait for the disk, and for each other. Everything else waits for nobody.
// A graph is acknowledged once the list of graphs has it. If the list cannot be written, creating
// has an unknown outcome; each later call tries again, and until then nothing is appended or
// sealed.
class FileSourceGraphStore final : public SealedGraphStore {
 public:
  struct Options {
    std::string folder;
    // The most bytes on disk of all graphs together.
    uint64_t max_bytes = uint64_t{64} << 30;
    size_t max_graphs = 1024;
    // Left to others on the disk.
    uint64_t min_free_bytes = uint64_t{64} << 20;
  };

  // Opens a folder, or makes it. Removes what is left of graphs that were being created, sealed or
  // deleted. A graph that is damaged does not keep the others from being served.
  //
  // FAILED_PRECONDITION if the folder is open already, naming the process, or if another release
  // wrote a graph; DATA_LOSS if the list of graphs is damaged; RESOURCE_EXHAUSTED; UNAVAILABLE.
  // O(graphs + appends to open graphs).
  static absl::StatusOr<std::unique_ptr<FileSourceGraphStore>> Open(const Options& options);

  absl::StatusOr<SourceGraphInfo> Create(absl::string_view name, const SourceGraphSchema& schema,
                                         const SourceGraphOptions& options) override;
  absl::StatusOr<SourceAppendResult> Append(
      const Target& target, const SourceGraphChunk& chunk,
      const std::optional<ProducerSequence>& producer) override;
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override;
  absl::StatusOr<SourceGraphInfo> Seal(
      const Target& target, const SealOptions& options,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) override;
  absl::StatusOr<SourceGraphInfo> Get(absl::string_view name) const override;
  absl::StatusOr<SourceGraphList> List(size_t page_size,
                                       absl::string_view page_token) const override;
  absl::Status Delete(const Target& target) override;
  absl::StatusOr<SourceGraphVerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) const override;
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const override;

  absl::StatusOr<SealedSourceGraph> OpenSealed(absl::string_view name) const override;
  absl::StatusOr<SourceGraphCopy> CopyIn(
      const SealedSourceGraph& from,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) override;

  // All graphs as they are now, for a snapshot. UNAVAILABLE if the file system has no hard links.
  // O(files).
  absl::StatusOr<LinkedGraphs> LinkAll() const;

  SourceGraphStoreCounts counts() const;

 private:
  explicit FileSourceGraphStore(const Options& options);

  absl::Status Load() ABSL_LOCKS_EXCLUDED(changes_);
  // Notes which graphs there must be, but for the one in the folder `except`. The three outcomes of
  // disk_file.h. O(graphs).
  absl::Status NoteGraphs(absl::string_view except) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);
  // Before a new graph is acknowledged: whoever knows of it would miss it.
  absl::Status NotePlaced() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);
  // Notes them if an earlier try has failed. The first waits for the disk and for changes; the
  // second for no changes, and is for calls that change nothing.
  absl::Status NoteLate() const ABSL_LOCKS_EXCLUDED(changes_);
  void TryNoteLate() const;
  // A new graph may have the name.
  absl::Status CheckNew(absl::string_view name) const;
  // Gives a new graph its name, and the store the graph.
  absl::Status Place(const std::shared_ptr<SourceGraphFolder>& graph);
  std::string PathOf(uint64_t id) const;
  absl::StatusOr<std::shared_ptr<SourceGraphFolder>> Find(absl::string_view name) const;

  const Options options_;
  const std::shared_ptr<DiskSpace> space_;
  DiskFile lock_;
  mutable DurableFolder names_;  // Those of graphs.
  // Held while graphs are created and deleted.
  mutable absl::Mutex changes_;
  // The list of graphs as it is on the disk; empty if that is not known.
  mutable std::string noted_ ABSL_GUARDED_BY(changes_);
  // Whether it has all graphs. Changed with changes_ held.
  mutable std::atomic<bool> are_noted_ = false;
  mutable absl::Mutex mutex_;
  absl::btree_map<std::string, std::shared_ptr<SourceGraphFolder>> graphs_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> appended_nodes_ = 0;
  std::atomic<uint64_t> appended_edges_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_FILE_SOURCE_GRAPH_STORE_H_
