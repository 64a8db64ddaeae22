// The headers of a call, as the connection has them.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_HEADERS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_HEADERS_H_

#include <string>

namespace packhouse {

// Until the call has gone. Called by one thread at a time.
class CallHeaders {
 public:
  virtual ~CallHeaders() = default;

  virtual bool Has(const std::string& key) const = 0;
  // Leaves with the first response.
  virtual void Add(const std::string& key, const std::string& value) = 0;
  // Leaves with the status.
  virtual void AddTrailing(const std::string& key, const std::string& value) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_HEADERS_H_
