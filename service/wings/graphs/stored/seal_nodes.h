// Sealing a node set: its ids in order, and its columns.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_NODES_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_NODES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "service/wings/graphs/stored/array_file.h"
#include "service/wings/graphs/stored/node_ids.h"
#include "service/wings/graphs/stored/seal_task.h"

namespace packhouse {

// The ids of a sealed node set, mapped.
class SealedIds {
 public:
  static absl::StatusOr<SealedIds> Open(const SealTask& task, size_t node_set, uint64_t num_nodes);
  // Views the map. `table_bytes` as in NodeLookup.
  NodeLookup Lookup(uint64_t table_bytes) const;

 private:
  bool integers_ = true;
  uint64_t num_nodes_ = 0;
  FileMap ids_;
  FileMap offsets_;
};

// Writes the arrays of a node set; returns the number of its nodes. Errors as
// SourceGraphStore::Seal().
absl::StatusOr<uint64_t> SealNodes(SealTask& task, size_t node_set);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_NODES_H_
