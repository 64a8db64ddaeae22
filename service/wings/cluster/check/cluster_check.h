// Whether everything that servers share in a key-value store and an object store is as it was
// written.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_CLUSTER_CHECK_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_CLUSTER_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "service/base/stored_damage.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/store_check.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/graphs/stored/sealed_graph_store.h"

namespace packhouse {

// What is checked. The pointees must outlive the check.
struct CheckedCluster {
  // Without an object store, the servers have copies of a data folder, and no more is null.
  ObjectEngines engines;
  const DatasetStore* datasets = nullptr;
  const SourceGraphStore* source_graphs = nullptr;
  const ObjectCompanions* companions = nullptr;
  // The two, in words: StoredDamage::file.
  std::string keys_name;
  std::string objects_name;
};

// Reads everything, as DatasetStore::Verify() and the like do, and adds it to `counts`; looks for
// keys and objects that are missing, and for those that belong to nothing. Changes nothing. Damage
// is no error. Servers may run: what they are about to write or to delete is no damage. Objects
// that nothing names are counted if they are as old as those that a sweep deletes, and are no
// damage. Source graphs that are not sealed are on the disk of one server, and only counted.
//
// NOT_FOUND if no server has used the two stores; FAILED_PRECONDITION if they do not belong
// together, or another release wrote something; errors of the stores. O(bytes) time, O(names) and
// what Verify() takes of memory.
absl::Status CheckCluster(const CheckedCluster& cluster, DamageVisitor found, StoredCounts& counts);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_CLUSTER_CHECK_H_
