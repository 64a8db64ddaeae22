// What the check of a store tells, whichever engines keep it.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_STORE_CHECK_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_STORE_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "service/base/stored_damage.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// What has been read.
struct StoredCounts {
  uint64_t num_datasets = 0;
  uint64_t num_ledger_records = 0;
  uint64_t num_source_graphs = 0;
  uint64_t num_histograms = 0;
  // Where servers share objects: those that nothing names, and that a sweep would delete.
  uint64_t num_unnamed_objects = 0;
  uint64_t num_unnamed_bytes = 0;
};

// "data set 'NAME'".
std::string NamedDataset(absl::string_view name);

// Tells what DatasetStore::Verify() has found of a data set that is kept in `file`.
void TellDamage(const std::string& file, absl::string_view name, const VerifyReport& report,
                DamageVisitor found);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_STORE_CHECK_H_
