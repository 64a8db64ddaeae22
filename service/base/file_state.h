// A file, or some that belong together, that is read again while the server runs; for people.
#ifndef PACKHOUSE_SERVICE_BASE_FILE_STATE_H_
#define PACKHOUSE_SERVICE_BASE_FILE_STATE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace packhouse {

struct FileState {
  std::string name;     // "certificates"
  std::string failure;  // Why its present content is not in use; empty: it is.
  absl::Time expires = absl::InfiniteFuture();
  uint64_t num_reloads = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_FILE_STATE_H_
