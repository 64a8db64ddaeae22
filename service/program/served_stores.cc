#include "service/program/served_stores.h"

#include <utility>

#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/stores/limits/data_folder.h"

namespace packhouse {
namespace {

// The store of which a retention deletes what nobody uses; null if nothing is to expire.
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

}  // namespace

absl::StatusOr<std::unique_ptr<ServedStores>> ServedStores::Open(const Options& options,
                                                                 const FolderStores& folder,
                                                                 const Membership* membership,
                                                                 Clock& clock) {
  auto stores = std::unique_ptr<ServedStores>(new ServedStores());
  stores->disk_ = options.data_dir;
  stores->stored_datasets_ = folder.datasets.store.get();
  stores->datasets_ = folder.datasets.store.get();
  stores->source_graphs_ = folder.source_graphs.get();
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
      stores->source_graphs_ = stores->shared_->source_graphs();
      stores->stored_datasets_ = stores->shared_->datasets();
      stores->disk_ = stores->shared_->disk();
    }
    return stores;
  }
  stores->may_save_ = folder.datasets.store != nullptr && !folder.datasets.store->is_read_only();
  if (!stores->may_save_) return stores;
  PH_ASSIGN_OR_RETURN(stores->retained_datasets_,
                      Retain<RetainedDatasets>(stores->datasets_, LastUsesFile(options.data_dir),
                                               options.dataset_retention, clock));
  PH_ASSIGN_OR_RETURN(
      stores->retained_source_graphs_,
      Retain<RetainedSourceGraphs>(stores->source_graphs_, SourceGraphUsesFile(options.data_dir),
                                   options.source_graph_retention, clock));
  if (stores->retained_datasets_ != nullptr) stores->datasets_ = stores->retained_datasets_.get();
  if (stores->retained_source_graphs_ != nullptr) {
    stores->source_graphs_ = stores->retained_source_graphs_.get();
  }
  return stores;
}

void ServedStores::SaveUses() {
  if (retained_datasets_ != nullptr) retained_datasets_->Save().IgnoreError();
  if (retained_source_graphs_ != nullptr) retained_source_graphs_->Save().IgnoreError();
}

}  // namespace packhouse
