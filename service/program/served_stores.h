// The data sets that clients see: the store of the data folder or a shared one, with what is laid
// over it.
#ifndef PACKHOUSE_SERVICE_PROGRAM_SERVED_STORES_H_
#define PACKHOUSE_SERVICE_PROGRAM_SERVED_STORES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/clock.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/program/folder_stores.h"
#include "service/program/membership.h"
#include "service/program/options.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/fixed_dataset_store.h"
#include "service/stores/datasets/retained_datasets.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

// The store of which a retention deletes what nobody uses, with its file of uses; null if there is
// no store, or nothing is to expire. Errors of the disk.
template <typename Retained, typename Store>
absl::StatusOr<std::unique_ptr<Retained>> Retain(Store* store, const std::string& file,
                                                 const Retention& retention, Clock& clock) {
  if (store == nullptr) return nullptr;
  // Uses are not noted now. What was noted before would be too old when they are noted again.
  if (retention.is_for_ever()) {
    PH_RETURN_IF_ERROR(RemoveAll(file));
    return nullptr;
  }
  return std::make_unique<Retained>(store, file, retention, [&clock] { return clock.Now(); });
}

class ServedStores {
 public:
  // `folder`, `membership` (null: the server is alone) and `clock` must outlive the result. Errors
  // name the flag.
  static absl::StatusOr<std::unique_ptr<ServedStores>> Open(const Options& options,
                                                            const FolderStores& folder,
                                                            const Membership* membership,
                                                            Clock& clock);

  // Null: clients have none.
  DatasetStore* datasets() const { return datasets_; }

  // Null: servers share no data sets, nor anything else.
  SharedStores* shared() const { return shared_.get(); }
  // Null: nothing expires.
  RetainedDatasets* retained_datasets() const { return retained_datasets_.get(); }

  // The store of all data sets, and the folder of this machine in which it, or its cache, lies.
  const DatasetStore* stored_datasets() const { return stored_datasets_; }
  const std::string& disk() const { return disk_; }

  // Whether the server writes into its data folder for itself. A folder that is only read stays as
  // it is, and so does a copy.
  bool may_save() const { return may_save_; }

  // Writes when data sets were used last. For the end of the process: without it,
  // some uses count as a little later than they were.
  void SaveUses();

 private:
  ServedStores() = default;

  std::string disk_;
  bool may_save_ = false;
  std::unique_ptr<SharedStores> shared_;
  const DatasetStore* stored_datasets_ = nullptr;
  std::unique_ptr<FixedDatasetStore> copy_;
  std::unique_ptr<RetainedDatasets> retained_datasets_;
  DatasetStore* datasets_ = nullptr;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_SERVED_STORES_H_
