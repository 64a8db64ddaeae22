// What the security of the flags means for each port, and for administrators.
#ifndef PACKHOUSE_SERVICE_PROGRAM_SERVER_SECURITY_H_
#define PACKHOUSE_SERVICE_PROGRAM_SERVER_SECURITY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "service/access/security/hmac_signer.h"
#include "service/access/security/security_files.h"
#include "service/base/event_log.h"
#include "service/program/options.h"
#include "service/program/spdlog_log.h"
#include "service/server/http/http_server.h"
#include "service/server/services/admin_actions.h"

namespace packhouse {

// Null: plain text.
std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const security::SecurityFiles& files,
                                                       const Options& options);

// `files` must outlive the result.
http::HttpSecurity HttpSecurityOf(const security::SecurityFiles& files, const Options& options);

// The key that signs cursors: of the flag, or of the data folder, where one is made. Where the
// folder can only be read, or there is none, cursors are good until the server ends.
absl::StatusOr<security::HmacSigner> OpenSigner(const Options& options, EventLog& log);

// What administrators may ask for, without snapshots. The pointees must outlive the result.
rpc::AdminActions AdminActionsOf(security::SecurityFiles* files, SpdlogLog* log,
                                 absl::Time started);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_SERVER_SECURITY_H_
