// A snapshot of what servers share: the keys at one moment, and the objects that they name.
//
//   manifest                 written last (program/data_folder/snapshot_manifest.h)
//   cluster/keys             all keys but those of servers, leases and sweeps (value_file.h)
//   cluster/objects/NAME     objects, each with the bytes and the checksum that the keys say
#ifndef PACKHOUSE_SERVICE_PROGRAM_WINGS_CLUSTER_SNAPSHOT_H_
#define PACKHOUSE_SERVICE_PROGRAM_WINGS_CLUSTER_SNAPSHOT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/stores/limits/snapshot_report.h"
#include "service/wings/cluster/datasets/object_engines.h"

namespace packhouse {

inline constexpr char kSnapshotOfCluster[] = "cluster/";

// Servers may run: no sweep deletes objects meanwhile. Source graphs that are not sealed are left
// out. A snapshot that was stopped goes on when it is asked for again, and is then of the new
// moment. `now` is noted in it.
//
// DATA_LOSS naming an object that is missing or damaged: there is no snapshot then. UNAVAILABLE if
// another one is being taken, or was stopped within the last minutes; FAILED_PRECONDITION if the
// stores do not belong together; errors of SnapshotWriter and of the stores. O(bytes) time; memory:
// all keys, and an object.
absl::StatusOr<SnapshotReport> TakeClusterSnapshot(const ObjectEngines& engines,
                                                   const std::string& folder, absl::Time now,
                                                   SnapshotProgress progress);

// Writes a snapshot into two stores that are empty, or into which its restore was stopped. First
// all checksums are verified. No server starts until it is done: the key of the cluster's life has
// no life before; then it is `life`.
//
// DATA_LOSS naming the first file that is damaged, NOT_FOUND if there is no whole snapshot: nothing
// is written. FAILED_PRECONDITION naming what is there; errors of the stores.
absl::StatusOr<SnapshotReport> RestoreClusterSnapshot(const std::string& folder,
                                                      const ObjectEngines& engines,
                                                      absl::string_view life);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WINGS_CLUSTER_SNAPSHOT_H_
