// What logs say of a call.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_RECORD_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_RECORD_H_

#include <memory>
#include <string>
#include <vector>

#include "service/access/principal.h"
#include "service/server/calls/open_calls.h"

namespace packhouse {

// Filled by one thread after another while the call is at work, and read when it has ended.
struct CallRecord {
  Principal principal;  // Empty: none was needed.
  std::string peer;     // The address with its port, as gRPC gives it.
  std::string request_id;
  std::string trace;
  // What the call's first request names, such as a data set; empty if it names nothing.
  std::string resource;
  // Whether a request was received that may change something.
  bool may_change = false;
  // Its places among the streams of namespaces, until its status is sent.
  std::vector<std::shared_ptr<const void>> places = {};
  // Its entry among the open calls; null if it has none.
  std::shared_ptr<OpenCalls::Entry> entry = nullptr;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_RECORD_H_
