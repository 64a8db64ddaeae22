// What logs say of a call.
#ifndef PACKHOUSE_SERVICE_ADMISSION_CALL_RECORD_H_
#define PACKHOUSE_SERVICE_ADMISSION_CALL_RECORD_H_

#include <string>

#include "service/admission/principal.h"

namespace packhouse {

// Filled by one thread after another while the call is at work, and read when it has ended.
struct CallRecord {
  Principal principal;  // Empty: none was needed.
  std::string peer;     // The address with its port, as gRPC gives it.
  std::string request_id;
  std::string trace;
  // What the call's first request names, such as a data set; empty if it names nothing.
  std::string resource;
  // Whether the service has begun to work on a request that may change something.
  bool may_change = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_CALL_RECORD_H_
