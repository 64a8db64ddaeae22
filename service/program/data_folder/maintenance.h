// What is done to a data folder that no server has open: checked, repaired, compacted, converted.
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_MAINTENANCE_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_MAINTENANCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/stored_damage.h"
#include "service/program/data_folder/graph_folder.h"
#include "service/stores/datasets/store_check.h"

namespace packhouse {

// Errors of all functions: NOT_FOUND if there is no such folder; FAILED_PRECONDITION if a server
// has it open, naming the process, or a restore into it was stopped, or (except for
// UpgradeDataFolder) a store has another format; of those that neither check nor repair, DATA_LOSS
// if something is missing that the folder must have.

// Reads everything and compares it with its checksums. Changes nothing. Damage is no error. If none
// is found, a server starts with the folder, and everything in it can be read. Source graphs are
// passed over where `graphs` has no functions. O(bytes).
absl::StatusOr<StoredCounts> CheckDataFolder(const std::string& data_dir, DamageVisitor found,
                                             const GraphFolder& graphs = {});

// Repairs the ledger (ledger_repair.h), in one transaction. Nothing else of the folder is touched:
// damaged data sets and source graphs are served as damaged, and can be deleted, or dropped by
// DropDamagedGraph(). Source graphs that are missing are passed over as by CheckDataFolder().
//
// FAILED_PRECONDITION, and nothing changes, if something is missing and not `accept_missing`;
// DATA_LOSS if the trees of the ledger's file are damaged: then only a snapshot helps.
absl::StatusOr<RepairReport> RepairDataFolder(const std::string& data_dir,
                                              const RepairOptions& options,
                                              const GraphFolder& graphs = {});

// Removes a source graph that is damaged, with its partitions. NOT_FOUND; FAILED_PRECONDITION if
// nothing of it is damaged; UNIMPLEMENTED without graphs.drop; errors of the disk.
absl::Status DropDamagedGraph(const std::string& data_dir, const GraphFolder& graphs,
                              absl::string_view name);

struct CompactedStore {
  std::string folder;
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
};

// Erases what is left of deleted data sets and gives all free space of the stores back to the disk.
// Source graphs have none. The disk needs room for the larger store's data once more. A crash at
// any moment leaves each store as it was or compact.
absl::StatusOr<std::vector<CompactedStore>> CompactDataFolder(const std::string& data_dir);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_MAINTENANCE_H_
