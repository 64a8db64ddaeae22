// Statuses for the return codes of LMDB and the system.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_STATUS_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_STATUS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// OK for 0. Otherwise the meaning of the code (an error of LMDB or an errno), with the folder and
// `what` could not be done. `map_bytes`: the environment's, for the message that it is full.
// RESOURCE_EXHAUSTED if there is no room, also for a failed write on a full disk; UNAVAILABLE if a
// retry may succeed; DATA_LOSS for damage that LMDB finds.
absl::Status LmdbStatus(int code, absl::string_view what, const std::string& folder,
                        uint64_t map_bytes = 0);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_STATUS_H_
