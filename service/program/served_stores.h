// The data sets and source graphs that clients see: stores of the data folder or shared ones, with
// what is laid over them.
#ifndef PACKHOUSE_SERVICE_PROGRAM_SERVED_STORES_H_
#define PACKHOUSE_SERVICE_PROGRAM_SERVED_STORES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/clock.h"
#include "service/program/folder_stores.h"
#include "service/program/membership.h"
#include "service/program/options.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/fixed_dataset_store.h"
#include "service/stores/datasets/retained_datasets.h"
#include "service/wings/graphs/source_graphs/retained_source_graphs.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

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
  SourceGraphStore* source_graphs() const { return source_graphs_; }

  // Null: servers share no data sets.
  SharedStores* shared() const { return shared_.get(); }
  // Null: nothing expires.
  RetainedDatasets* retained_datasets() const { return retained_datasets_.get(); }
  RetainedSourceGraphs* retained_source_graphs() const { return retained_source_graphs_.get(); }

  // The store of all data sets, and the folder of this machine in which it, or its cache, lies.
  const DatasetStore* stored_datasets() const { return stored_datasets_; }
  const std::string& disk() const { return disk_; }

  // Whether the server writes into its data folder for itself. A folder that is only read stays as
  // it is, and so does a copy.
  bool may_save() const { return may_save_; }

  // Writes when data sets and source graphs were used last. For the end of the process: without it,
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
  std::unique_ptr<RetainedSourceGraphs> retained_source_graphs_;
  DatasetStore* datasets_ = nullptr;
  SourceGraphStore* source_graphs_ = nullptr;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_SERVED_STORES_H_
