#include "service/stores/limits/data_folder.h"

#include <filesystem>
#include <system_error>

namespace packhouse {

absl::Status CheckRestored(const std::string& data_dir) {
  std::error_code error;
  const std::string mark = absl::StrCat(data_dir, "/", kRestoringMark);
  if (!std::filesystem::exists(mark, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("a restore into '", data_dir,
                                                    "' was stopped, there is '", mark,
                                                    "'; run packhoused store restore again"));
}

absl::Status WithRemedy(const std::string& data_dir, const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return status;
  return absl::DataLossError(absl::StrCat(
      status.message(), "; packhoused store check '", data_dir,
      "' says what is damaged, packhoused store repair '", data_dir,
      "' gives up the jobs that damaged records of the ledger belong to; otherwise restore a "
      "snapshot"));
}

}  // namespace packhouse
