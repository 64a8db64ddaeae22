#include "service/program/folder_stores.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/job.h"
#include "service/program/wing.h"
#include "service/stores/limits/data_folder.h"

namespace packhouse {
namespace {

absl::Status OfDataFolder(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("--data-dir: ", status.message()));
}

constexpr absl::Duration kProbePeriod = absl::Seconds(1);

// Names that can be seen, such as of a file that an earlier process could not sync, are durable
// before anything is built on them.
absl::Status SettleFolder(const std::string& data_dir) {
  const absl::Status synced = SyncFolder(data_dir);
  return synced.ok() || absl::IsNotFound(synced) ? absl::OkStatus() : OfDataFolder(synced);
}

template <typename Store>
absl::StatusOr<WatchedStore<Store>> OpenWatched(const char* name, typename Store::Options options,
                                                CommitObserver* observer, LimitedLog& log) {
  WatchedStore<Store> watched;
  watched.watch = std::make_unique<StoreWatch>(name, observer, &log);
  options.observer = watched.watch.get();
  auto store = Store::Open(options);
  if (!store.ok()) return OfDataFolder(store.status());
  watched.store = *std::move(store);
  watched.prober = std::make_unique<Repeating>(
      kProbePeriod, [watch = watched.watch.get(), tried = watched.store.get()] {
        if (tried->is_read_only() || watch->failure().ok()) return;
        // The watch is told of the result.
        tried->TryCommit(watch->failed_bytes()).IgnoreError();
      });
  return watched;
}

absl::StatusOr<WatchedStore<LmdbDatasetStore>> OpenDatasets(const Options& options,
                                                            metrics::Metrics& metrics,
                                                            LimitedLog& log) {
  LmdbDatasetStore::Options store;
  store.folder = DatasetsFolder(options.data_dir);
  store.max_bytes = options.max_store_bytes;
  auto watched = OpenWatched<LmdbDatasetStore>("datasets", store,
                                               metrics.AddStore("datasets", store.max_bytes), log);
  if (watched.ok() && watched->store->is_read_only()) {
    log.Log("read-only", LogLevel::kWarning, "data sets are read-only", {{"folder", store.folder}});
  }
  return watched;
}

absl::StatusOr<WatchedStore<LmdbJobLogs>> OpenLedger(const Options& options,
                                                     metrics::Metrics& metrics, LimitedLog& log,
                                                     const Clock& clock) {
  LmdbJobLogs::Options ledger;
  ledger.folder = DeliveryFolder(options.data_dir);
  // Some 10^6 sessions a millisecond are more than there are: numbers of earlier runs are lower.
  ledger.first_revision =
      static_cast<uint64_t>(absl::ToUnixNanos(clock.Now())) >> Job::kSessionBits;
  return OpenWatched<LmdbJobLogs>("delivery", ledger,
                                  metrics.AddStore("delivery", ledger.max_bytes), log);
}

}  // namespace

absl::StatusOr<FolderStores> FolderStores::Open(const Options& options, metrics::Metrics& metrics,
                                                LimitedLog& log, const Clock& clock) {
  FolderStores stores;
  if (options.data_dir.empty()) {
    if (options.membership.ledger.empty()) stores.keys = LoggedKeys::InMemory();
    return stores;
  }
  PH_RETURN_IF_ERROR(CheckRestored(options.data_dir));
  // Before a store that is not there is made.
  PH_RETURN_IF_ERROR(SettleFolder(options.data_dir));
  PH_RETURN_IF_ERROR(VerifyFolderContents(options.data_dir, {}));
  PH_ASSIGN_OR_RETURN(stores.datasets, OpenDatasets(options, metrics, log));
  if (options.membership.ledger.empty()) {
    PH_ASSIGN_OR_RETURN(stores.ledger, OpenLedger(options, metrics, log, clock));
    PH_ASSIGN_OR_RETURN(JobPlace place, stores.ledger.store->Open(kKeysLog));
    auto keys = LoggedKeys::Open(std::move(place.log));
    if (!keys.ok()) return OfDataFolder(keys.status());
    stores.keys = *std::move(keys);
    for (const auto& wing : options.wings) {
      if (const absl::Status opened = wing->OpenFolder(options); !opened.ok()) {
        return OfDataFolder(opened);
      }
    }
  }
  PH_RETURN_IF_ERROR(VerifyFolderContents(options.data_dir, stores.identities()));
  return stores;
}

StoreIdentities FolderStores::identities() const {
  StoreIdentities identities;
  if (datasets.store != nullptr) identities["datasets"] = datasets.store->identity();
  if (ledger.store != nullptr) identities["delivery"] = ledger.store->identity();
  return identities;
}

std::string FolderStores::why_not_healthy() const {
  return ledger.store == nullptr ? "" : std::string(ledger.store->failure().message());
}

}  // namespace packhouse
