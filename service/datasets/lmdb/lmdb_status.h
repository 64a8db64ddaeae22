// What LMDB and the system return, for the caller of the store.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_STATUS_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_STATUS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// OK for 0; else the code's meaning, naming the folder and `what` could not be done: an error of
// LMDB or an errno. `map_bytes`: of the environment, for the one that is full. RESOURCE_EXHAUSTED
// for what has no room, a failed write on a full disk among it; UNAVAILABLE for what may go better;
// DATA_LOSS for what LMDB finds damaged.
absl::Status LmdbStatus(int code, absl::string_view what, const std::string& folder,
                        uint64_t map_bytes = 0);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_STATUS_H_
