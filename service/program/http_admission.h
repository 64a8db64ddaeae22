// Who may read the pages of the HTTP port.
#ifndef PACKHOUSE_SERVICE_PROGRAM_HTTP_ADMISSION_H_
#define PACKHOUSE_SERVICE_PROGRAM_HTTP_ADMISSION_H_

#include "service/access/authorizer.h"
#include "service/access/principal.h"
#include "service/server/http/http_server.h"

namespace packhouse {

struct HttpAdmission {
  const Authenticator* authenticator = nullptr;
  const Authorizer* authorizer = nullptr;  // Null: everybody may do everything.
  // Whether nobody gets in who shows nothing, or may see nothing (--http-auth).
  bool demands_credentials = false;
};

// Decides about one request: 200 with its principal, 401 or 403. What a caller shows must be good
// even where nothing is demanded.
//
// With `demands_credentials`, a page needs the right `view` in some namespace, and "/metrics" in
// all, since it tells of all. Pages that show names of things must still show only those that the
// principal may see (Authorizer::MaySee).
http::Admission Admit(const HttpAdmission& admission, const http::Caller& caller,
                      const http::Request& request);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_HTTP_ADMISSION_H_
