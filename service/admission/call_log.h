// What the log says of calls: those that failed, and those that deleted something.
#ifndef PACKHOUSE_SERVICE_ADMISSION_CALL_LOG_H_
#define PACKHOUSE_SERVICE_ADMISSION_CALL_LOG_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/admission/limited_log.h"
#include "service/admission/rpc_observer.h"

namespace packhouse {

// Where to; what is null is told nothing. Two of them, so that who fails a lot does not keep the
// others' deletions out of the log.
struct CallLog {
  LimitedLog* failures = nullptr;
  LimitedLog* deletions = nullptr;
};

// Enough for whoever clears up, and not for whoever makes things only to delete them.
inline LimitedLog::Bounds BoundsOfDeletions() {
  LimitedLog::Bounds bounds;
  bounds.burst = 1000;
  bounds.interval = absl::Milliseconds(200);
  bounds.total_burst = 2000;
  bounds.total_interval = absl::Milliseconds(100);
  return bounds;
}

// All are thread-safe, and quick if there is nothing to say.

// At most a few lines for each client, method and code; nothing if the call is OK. `elapsed`: since
// it was received. Level: error if it is the service's fault (INTERNAL, UNKNOWN, DATA_LOSS),
// warning if it has no room or may not serve now, else info.
void LogCall(const CallLog& log, absl::string_view client, Method method,
             const absl::Status& status, absl::Duration elapsed);

// `kind`: "data set", "job", "histogram".
void LogDeletion(const CallLog& log, absl::string_view client, absl::string_view kind,
                 absl::string_view name);

// A check found damage in a data set; `first` is the first that it found.
void LogDamage(const CallLog& log, absl::string_view dataset, uint64_t num_damaged,
               const absl::Status& first);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_CALL_LOG_H_
