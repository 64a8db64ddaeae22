// Log lines about calls that failed, and calls that deleted something.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_LOG_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_LOG_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/limited_log.h"
#include "service/server/calls/call_journal.h"
#include "service/server/calls/call_record.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse {

// The logs; each may be null. There are two limited ones, so that a client with many failed calls
// does not keep other clients' deletions out of the log.
struct CallLog {
  LimitedLog* failures = nullptr;
  LimitedLog* deletions = nullptr;
  CallJournal* journal = nullptr;
};

// Enough for a client that clears up, and too few for one that creates things only to delete them.
inline LimitedLog::Bounds BoundsOfDeletions() {
  LimitedLog::Bounds bounds;
  bounds.burst = 1000;
  bounds.interval = absl::Milliseconds(200);
  bounds.total_burst = 2000;
  bounds.total_interval = absl::Milliseconds(100);
  return bounds;
}

// All are thread-safe, and quick if there is nothing to log.

// Logs a call that failed, with at most a few lines for each client, method and code. `elapsed`:
// since the call was received. Level: error for a fault of the service (INTERNAL, UNKNOWN,
// DATA_LOSS), warning if the service has no room or may not serve now, else info.
void LogCall(const CallLog& log, absl::string_view client, Method method,
             const absl::Status& status, absl::Duration elapsed);

// The same for a call with a record (null: none): the line has its request id and its trace. The
// journal hears of it, however it ended.
void LogCall(const CallLog& log, absl::string_view client, const CallRecord* record, Method method,
             const absl::Status& status, absl::Duration elapsed);

// `kind`: "data set", "job", "histogram".
void LogDeletion(const CallLog& log, absl::string_view client, absl::string_view kind,
                 absl::string_view name);

// A check found damage in a data set; `first` is the first that it found.
void LogDamage(const CallLog& log, absl::string_view dataset, uint64_t num_damaged,
               const absl::Status& first);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_LOG_H_
