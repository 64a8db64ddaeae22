// What is in a server's data folder (--data-dir).
#ifndef PACKHOUSE_SERVICE_STORES_LIMITS_DATA_FOLDER_H_
#define PACKHOUSE_SERVICE_STORES_LIMITS_DATA_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

inline std::string DatasetsFolder(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/datasets");
}
// Of the log of delivery: the ledger.
inline std::string DeliveryFolder(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/delivery");
}
inline std::string SourceGraphsFolder(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/source_graphs");
}

// When data sets were last used, if they can expire (stores/datasets/retained_datasets.h).
inline std::string LastUsesFile(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/last_uses");
}

// The same of source graphs (wings/graphs/source_graphs/retained_source_graphs.h).
inline std::string SourceGraphUsesFile(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/source_graph_uses");
}

// Signs cursors, unless the server is given another one.
inline constexpr char kSigningKeyFile[] = "signing.key";

// There as long as a restore is at work, and after one that was stopped.
inline constexpr char kRestoringMark[] = "RESTORING";

// FAILED_PRECONDITION if a restore into the folder was stopped: what it has is not whole.
absl::Status CheckRestored(const std::string& data_dir);

// The same status; DATA_LOSS and a ledger that was not converted also name the command that helps.
absl::Status WithRemedy(const std::string& data_dir, const absl::Status& status);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LIMITS_DATA_FOLDER_H_
