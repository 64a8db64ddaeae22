// What AdminService does that is not gRPC's business; main.cc says how.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_ADMIN_ACTIONS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_ADMIN_ACTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/file_state.h"
#include "service/stores/limits/snapshot_report.h"

namespace packhouse::rpc {

// Copies what is stored, and the named histograms, into a folder of the name, while it is used.
// Blocks; the progress says whether to go on. Errors as AdminService.TakeSnapshot.
using SnapshotTaker = std::function<absl::StatusOr<SnapshotReport>(
    absl::string_view name, FileGiver histograms, SnapshotProgress progress)>;

// Thread-safe functions, each of which may be null: then its call is FAILED_PRECONDITION. All but
// `snapshot` are quick.
struct AdminActions {
  std::string version;
  absl::Time started = absl::UnixEpoch();
  // "trace", "debug", "info", "warning", "error" or "off".
  std::function<std::string()> log_level = nullptr;
  std::function<void(const std::string& level)> set_log_level = nullptr;
  std::function<std::vector<FileState>()> files = nullptr;
  std::function<void()> reload = nullptr;
  // Begins the end of the process, and returns.
  std::function<void()> drain = nullptr;
  SnapshotTaker snapshot = nullptr;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_ADMIN_ACTIONS_H_
