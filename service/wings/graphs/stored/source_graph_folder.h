// One source graph of a store: its state, its log while it is open, its arrays once it is sealed.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_FOLDER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/base/durable_folder.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/linked_graphs.h"
#include "service/wings/graphs/stored/mapped_source_graph.h"
#include "service/wings/graphs/stored/row_log.h"
#include "service/wings/graphs/stored/seal_work.h"
#include "service/wings/graphs/stored/sealed_graph_store.h"

namespace packhouse {

// Thread-safe. The functions are those of SourceGraphStore, with their errors; after Forget() they
// may also answer NOT_FOUND. If it is not known whether a seal is on the disk, they are UNAVAILABLE
// until it is (DurableFolder).
class SourceGraphFolder {
 public:
  // Where a new graph is written; it is there once this folder has been renamed to `folder`.
  static std::string UnfinishedOf(const std::string& folder);
  // A new graph: writes it to UnfinishedOf(folder). After an error nothing is left.
  static absl::StatusOr<std::shared_ptr<SourceGraphFolder>> Create(
      const std::string& folder, GraphDefinition definition, std::shared_ptr<DiskSpace> store);
  // The graph in `folder`, as it was left. If it is damaged, or missing, its functions answer with
  // DATA_LOSS; its name is that in the manifest, or else `known_name`, if it cannot be read.
  // FAILED_PRECONDITION if another release wrote it; errors of the disk, unless its name could be
  // read.
  static absl::StatusOr<std::shared_ptr<SourceGraphFolder>> Load(const std::string& folder,
                                                                 const std::string& known_name,
                                                                 std::shared_ptr<DiskSpace> store);

  // As Create(), of a sealed graph of another store: `definition` is the new one. Its
  // companions do not come along. DATA_LOSS naming the array that fails a checksum; CANCELLED if
  // `progress` says so; errors of the disk and of `store`. Then nothing is left.
  static absl::StatusOr<std::shared_ptr<SourceGraphFolder>> CopyIn(const std::string& folder,
                                                                   GraphDefinition definition,
                                                                   const SealedSourceGraph& from,
                                                                   std::shared_ptr<DiskSpace> store,
                                                                   SealWork::Progress progress);

  const std::string& name() const { return definition_.name; }
  const std::string& folder() const { return folder_; }

  absl::StatusOr<SourceAppendResult> Append(uint64_t id, const SourceGraphChunk& chunk,
                                            const std::optional<ProducerSequence>& producer);
  // As SourceGraphStore::Target; NOT_FOUND.
  absl::Status CheckId(uint64_t id) const;
  absl::StatusOr<ProducerHistory> GetProducer(absl::string_view producer) const;
  absl::StatusOr<SourceGraphInfo> Seal(const SealOptions& options, SealWork::Progress progress);
  absl::StatusOr<SourceGraphInfo> Get() const;
  // The same; kDamaged for a damaged one.
  SourceGraphInfo Listed() const;
  absl::StatusOr<SourceGraphVerifyReport> Verify(SealWork::Progress progress) const;
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open() const;
  absl::StatusOr<SealedSourceGraph> OpenSealed() const;
  // Links the files that make the graph what it is now; of a damaged one, those that are there.
  absl::Status Link(LinkedGraphs& linked) const;
  // The graph was deleted: a seal that is at work ends.
  void Forget();

 private:
  SourceGraphFolder(std::string folder, GraphDefinition definition,
                    std::shared_ptr<DiskSpace> store);

  // Writes what every new graph has.
  static absl::Status Begin(const std::string& unfinished, const GraphDefinition& definition);
  absl::Status LoadState();
  // What a sealed graph has in memory.
  struct Sealed {
    std::shared_ptr<SealedChecks> checks;
    std::shared_ptr<const GraphManifest> manifest;
  };
  Sealed ToBeSealed(GraphManifest manifest) const;
  // Allocates nothing.
  void BecomeSealed(Sealed sealed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An error if nothing may go on: the graph is damaged, or what it is on the disk is not known.
  absl::Status Usable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> Map() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SourceGraphInfo Info() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Found when the graph was loaded, or when it was read: nothing of it is served then.
  absl::Status Damage() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NotFound() const;
  bool is_forgotten() const;
  // Begins sealing: false if there is nothing to do.
  absl::StatusOr<bool> BeginSeal();
  absl::StatusOr<GraphManifest> MakeManifest(const SealOptions& options,
                                             SealWork::Progress progress);

  const std::string folder_;
  mutable DurableFolder names_;  // In the folder.
  const GraphDefinition definition_;
  const std::shared_ptr<GraphSpace> space_;

  mutable absl::Mutex mutex_;
  SourceGraphState state_ ABSL_GUARDED_BY(mutex_) = SourceGraphState::kOpen;
  absl::Status damage_ ABSL_GUARDED_BY(mutex_);
  bool is_forgotten_ ABSL_GUARDED_BY(mutex_) = false;
  // Open, or being sealed.
  std::shared_ptr<RowLog> log_ ABSL_GUARDED_BY(mutex_);
  // Sealed.
  std::shared_ptr<const GraphManifest> manifest_ ABSL_GUARDED_BY(mutex_);
  // Not null if manifest_ is not; kept when nobody has the graph open.
  std::shared_ptr<SealedChecks> checks_ ABSL_GUARDED_BY(mutex_);
  mutable std::weak_ptr<const MappedSourceGraph> mapped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SOURCE_GRAPH_FOLDER_H_
