#include "service/program/server_security.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/access/authorizer.h"
#include "service/access/principal.h"
#include "service/program/version.h"
#include "service/server/http/http_server.h"
#include "service/server/listen/tls_server_credentials.h"
#include "service/stores/limits/data_folder.h"

namespace packhouse {
namespace {

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
                      const http::Request& request) {
  if (!admission.demands_credentials && request.authorization.empty() && !caller.has_certificate) {
    return {};
  }
  CallCredentials credentials;
  credentials.authorization = request.authorization;
  credentials.has_certificate = caller.has_certificate;
  credentials.certificate_names = caller.certificate_names;
  absl::StatusOr<Principal> principal = admission.authenticator->Authenticate(credentials);
  if (!principal.ok()) return {401, "", std::string(principal.status().message())};
  if (admission.demands_credentials && admission.authorizer != nullptr) {
    const auto where =
        request.path == "/metrics" ? Demand::Where::kServer : Demand::Where::kSomewhere;
    const absl::Status allowed =
        admission.authorizer->Check(*principal, {Right::kView, where, "", ""});
    if (!allowed.ok()) return {403, "", std::string(allowed.message())};
  }
  return {200, *std::move(principal), ""};
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const security::SecurityFiles& files,
                                                       const Options& options) {
  if (files.tls() == nullptr) return nullptr;
  auto clients = rpc::ClientCertificates::kNone;
  if (!options.security.tls.client_ca.empty()) {
    clients = options.security.callers.has_token_sources() ? rpc::ClientCertificates::kOptional
                                                           : rpc::ClientCertificates::kRequired;
  }
  return rpc::TlsServerCredentials(files.tls()->identity_path(), files.tls()->roots_path(),
                                   clients);
}

http::HttpSecurity HttpSecurityOf(const security::SecurityFiles& files, const Options& options) {
  http::HttpSecurity http;
  if (options.http_tls) {
    http.tls = [tls = files.tls()] {
      security::TlsMaterial now = tls->material();
      return http::TlsIdentity{std::move(now.certificate), std::move(now.key),
                               std::move(now.client_ca)};
    };
  }
  http.admit = [admission =
                    HttpAdmission{files.authenticator(), files.authorizer(), options.http_auth}](
                   const http::Caller& caller, const http::Request& request) {
    return Admit(admission, caller, request);
  };
  http.names = options.http_names;
  return http;
}

absl::StatusOr<security::HmacSigner> OpenSigner(const Options& options, EventLog& log) {
  if (options.signing_key.empty() && options.data_dir.empty()) {
    return security::HmacSigner::Temporary();
  }
  auto signer = security::HmacSigner::OpenOrMake(
      options.signing_key.empty() ? absl::StrCat(options.data_dir, "/", kSigningKeyFile)
                                  : options.signing_key);
  if (signer.ok()) return signer;
  if (options.signing_key.empty() && !absl::IsInvalidArgument(signer.status())) {
    // Such as a data folder that can only be read.
    log.Log(LogLevel::kWarning, "no key for cursors",
            {LogField::Message(absl::StrCat(signer.status().message(),
                                            "; cursors are good until the server ends"))});
    return security::HmacSigner::Temporary();
  }
  return absl::Status(signer.status().code(),
                      absl::StrCat("--signing-key: ", signer.status().message()));
}

rpc::AdminActions AdminActionsOf(security::SecurityFiles* files, SpdlogLog* log,
                                 absl::Time started) {
  rpc::AdminActions actions;
  actions.version = kVersion;
  actions.started = started;
  actions.log_level = [log] { return log->level(); };
  actions.set_log_level = [log](const std::string& level) {
    log->Log(LogLevel::kInfo, "log level", {{"from", log->level()}, {"to", level}});
    log->set_level(level);
  };
  actions.files = [files] {
    std::vector<FileState> states;
    for (const security::Reloader::Reading& each : files->readings()) {
      states.push_back({each.name, each.failure, each.expires, each.num_reloads});
    }
    return states;
  };
  actions.reload = [files] { files->Reload(); };
  // As whoever runs the process ends it.
  actions.drain = [] { ::kill(::getpid(), SIGTERM); };
  return actions;
}

}  // namespace packhouse
