// The stores of the data folder, as the server opens them.
#ifndef PACKHOUSE_SERVICE_PROGRAM_FOLDER_STORES_H_
#define PACKHOUSE_SERVICE_PROGRAM_FOLDER_STORES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/execution.h"
#include "service/base/limited_log.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/options.h"
#include "service/server/metrics/metrics.h"
#include "service/stores/datasets/store_watch.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "service/stores/logs/logged_keys.h"

namespace packhouse {

// A store, with what watches it.
template <typename Store>
struct WatchedStore {
  std::unique_ptr<StoreWatch> watch;
  std::unique_ptr<Store> store;  // Null: there is none.
  // A server that is not ready gets no calls that would commit, so this tries it. On a thread of
  // its own, since a hanging disk may block it.
  std::unique_ptr<Repeating> prober;

  // Empty if it is. A store that is only read is not expected to commit.
  std::string why_not_ready() const {
    if (store == nullptr) return "";
    if (const absl::Status health = store->health(); !health.ok()) {
      return std::string(health.message());
    }
    if (store->is_read_only()) return "";
    const absl::Status failure = watch->failure();
    return failure.ok() ? "" : absl::StrCat("commits fail: ", failure.message());
  }
};

// Which there are: none without a data folder; where servers share the jobs, no ledger, which is in
// etcd. Wings have theirs (Wing::OpenFolder()).
struct FolderStores {
  WatchedStore<LmdbDatasetStore> datasets;
  WatchedStore<LmdbJobLogs> ledger;
  // Beside the jobs' logs; without a data folder in memory. Null where servers share the jobs.
  std::unique_ptr<LoggedKeys> keys;

  // FAILED_PRECONDITION if the folder is half restored; DATA_LOSS if something is missing that it
  // must have; errors of the stores, and of those of wings. `metrics` and `log`
  // must outlive the result.
  static absl::StatusOr<FolderStores> Open(const Options& options, metrics::Metrics& metrics,
                                           LimitedLog& log, const Clock& clock);

  // For folder_contents.h.
  StoreIdentities identities() const;

  // Empty if they are healthy.
  std::string why_not_healthy() const;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_FOLDER_STORES_H_
