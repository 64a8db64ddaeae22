// A snapshot of a data folder: everything in it at one moment, in files with checksums.
//
// The moment is that of the ledger: what was acknowledged before a snapshot was asked for is in it.
// The data sets and source graphs are those of some milliseconds later, so that each that an epoch
// of the ledger needs is there, unless it was deleted in between. So a server on a restored folder
// goes on as this one would have gone on after a crash at that moment: each batch that was
// acknowledged is done, each other one is sent.
//
//   manifest                                 written last (snapshot_manifest.h)
//   datasets/values                          everything of data sets but the records (value_file.h)
//   datasets/records/NUMBER/FIRST_GRAPH      records, about 64 MiB in a file
//   delivery/records                         logs of jobs: the mark, then records under their job's
//                                            name; measured models under kKeysLog
//   source_graphs/...                        as in the data folder; partitions that are whole
//   files/NAME                               the files in the data folder itself, such as keys
//   files/histograms                         named histograms (histogram_file.h), each of a moment
//                                            after the ledger's
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_H_

#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/stored_damage.h"
#include "service/program/data_folder/graph_folder.h"
#include "service/program/data_folder/snapshot_manifest.h"
#include "service/stores/limits/snapshot_report.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/logs/lmdb_job_logs.h"

namespace packhouse {

inline constexpr char kSnapshotValues[] = "datasets/values";
inline constexpr char kSnapshotRecords[] = "datasets/records/";
inline constexpr char kSnapshotLedger[] = "delivery/records";
inline constexpr char kSnapshotGraphs[] = "source_graphs/";
inline constexpr char kSnapshotFiles[] = "files/";
// One of what servers share has this one, and none of the others.
inline constexpr char kSnapshotKeys[] = "cluster/keys";

// The open stores of a data folder.
struct OpenedFolder {
  std::string data_dir;
  const LmdbDatasetStore* datasets = nullptr;
  const LmdbJobLogs* ledger = nullptr;
  OpenedGraphs source_graphs;
  // The bytes of the file of named histograms, as a server has them in memory. Null: those of the
  // file in the folder, if there is one.
  std::function<absl::Status(absl::FunctionRef<absl::Status(absl::string_view)> append)>
      histograms = nullptr;
};

// Writes a snapshot into `folder`, which is made, while the stores are in use. Blocks as long as it
// takes; appends, epochs and deletions go on meanwhile. A deleted data set or source graph takes
// its space until the end. A snapshot that was stopped, at any moment and in any way, goes on when
// it is asked for again: it is then of the new moment, and bytes that are there already are not
// written again. `now` is noted in it.
//
// Errors: as SnapshotWriter::Begin(); CANCELLED if `progress` ends it; DATA_LOSS if the ledger is
// damaged or a store has lost its file; as CheckHasNoGraphs() if nothing reads them. Damaged data
// sets and source graphs are copied as they are. O(bytes) time; memory: 2 MiB and 100 bytes for
// each file and each record of 64 MiB.
absl::StatusOr<SnapshotReport> TakeSnapshot(const OpenedFolder& stores, const std::string& folder,
                                            absl::Time now, SnapshotProgress progress);

// The same into the folder `name` of `parent`, so that who asks for it writes nowhere else.
// INVALID_ARGUMENT unless the name has 1 to 63 of the characters [A-Za-z0-9_.-], the first of them
// no point.
absl::StatusOr<SnapshotReport> TakeNamedSnapshot(const OpenedFolder& stores,
                                                 const std::string& parent, absl::string_view name,
                                                 absl::Time now, SnapshotProgress progress);

// The same of a data folder that no server has open. FAILED_PRECONDITION if one has.
absl::StatusOr<SnapshotReport> TakeSnapshotOffline(const std::string& data_dir,
                                                   const GraphFolder& graphs,
                                                   const std::string& folder, absl::Time now,
                                                   SnapshotProgress progress);

// Reads the manifest: NOT_FOUND if the folder has no whole snapshot, otherwise as
// DecodeSnapshotManifest().
absl::StatusOr<SnapshotManifest> ReadSnapshotManifest(const std::string& folder);

// Reads each file of a snapshot and compares its checksum. Damage is no error.
absl::StatusOr<SnapshotManifest> CheckSnapshot(const std::string& folder, DamageVisitor found);

// Writes a snapshot into a data folder that is missing or empty, or into which a restore was
// stopped; after that a server can have it. All checksums are verified before anything is written,
// and again of what is written.
// A server does not start in a folder whose restore was stopped.
//
// DATA_LOSS naming the first file that is damaged; FAILED_PRECONDITION if the folder is not empty,
// or the machine has pages of another size; NOT_FOUND if there is no whole snapshot.
absl::Status RestoreSnapshot(const std::string& folder, const std::string& data_dir);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_H_
