// Who is told of every call that has ended.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_JOURNAL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_JOURNAL_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/server/calls/call_record.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse {

struct EndedCall {
  const CallRecord& record;
  Method method;
  const absl::Status& status;
  absl::Duration elapsed;  // Since the call was received.
};

// Thread-safe; must be quick.
class CallJournal {
 public:
  virtual ~CallJournal() = default;
  virtual void OnEnded(const EndedCall& call) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_JOURNAL_H_
