#include "service/program/served_stores.h"

#include <utility>

#include "service/base/status_macros.h"
#include "service/stores/limits/data_folder.h"

namespace packhouse {

absl::StatusOr<std::unique_ptr<ServedStores>> ServedStores::Open(const Options& options,
                                                                 const FolderStores& folder,
                                                                 const Membership* membership,
                                                                 Clock& clock) {
  auto stores = std::unique_ptr<ServedStores>(new ServedStores());
  stores->disk_ = options.data_dir;
  stores->stored_datasets_ = folder.datasets.store.get();
  stores->datasets_ = folder.datasets.store.get();
  if (membership != nullptr) {
    if (stores->datasets_ != nullptr) {
      stores->copy_ = std::make_unique<FixedDatasetStore>(
          stores->datasets_,
          "this server has a copy of the data sets, and shares its jobs with others (--ledger)");
      stores->datasets_ = stores->copy_.get();
    }
    if (options.store.is_shared) {
      PH_ASSIGN_OR_RETURN(stores->shared_, membership->OpenStores(options, clock));
      stores->datasets_ = stores->shared_->datasets();
      stores->stored_datasets_ = stores->shared_->datasets();
      stores->disk_ = stores->shared_->disk();
      PH_ASSIGN_OR_RETURN(const MakeUses uses,
                          stores->shared_->DatasetUses(options.dataset_retention));
      if (uses != nullptr) {
        stores->retained_datasets_ = std::make_unique<RetainedDatasets>(stores->datasets_, uses);
        stores->datasets_ = stores->retained_datasets_.get();
      }
    }
    return stores;
  }
  stores->may_save_ = folder.datasets.store != nullptr && !folder.datasets.store->is_read_only();
  if (!stores->may_save_) return stores;
  PH_ASSIGN_OR_RETURN(stores->retained_datasets_,
                      Retain<RetainedDatasets>(stores->datasets_, LastUsesFile(options.data_dir),
                                               options.dataset_retention, clock));
  if (stores->retained_datasets_ != nullptr) stores->datasets_ = stores->retained_datasets_.get();
  return stores;
}

void ServedStores::SaveUses() {
  if (retained_datasets_ != nullptr) retained_datasets_->Save().IgnoreError();
}

}  // namespace packhouse
