// The flags of packhoused that say where its data sets are.
#ifndef PACKHOUSE_SERVICE_PROGRAM_STORE_OPTIONS_H_
#define PACKHOUSE_SERVICE_PROGRAM_STORE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "service/wings/cluster/shared/shared_datasets.h"

namespace CLI {
class App;
}

namespace packhouse {

struct StoreOptions {
  // --store as it was given.
  std::string uri;
  // --sweep-period as it was given.
  std::string sweep_period = "10m";
  // In S3, if its `uri` is set.
  SharedDatasetsOptions shared;

  bool is_shared() const { return !shared.uri.empty(); }
};

// `options` and `app` must outlive the parsing.
void AddStoreOptions(StoreOptions& options, CLI::App& app);

// What else the command line says, of which a store in S3 needs or excludes something.
struct StoreContext {
  std::string* data_dir;
  bool has_ledger = false;
  bool has_retention = false;  // Of data sets.
  bool allows_plain_text = false;
  // --max-store-bytes; 0: not given.
  uint64_t max_store_bytes = 0;
  uint64_t memory_budget = 0;
};

// Sets the data folder for lmdb:DIR, and `shared` for s3://. INVALID_ARGUMENT naming the flag.
absl::Status ResolveStore(StoreOptions& options, const StoreContext& context);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_STORE_OPTIONS_H_
