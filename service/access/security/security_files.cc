#include "service/access/security/security_files.h"

#include <utility>

#include "service/base/status_macros.h"

namespace packhouse::security {

absl::StatusOr<std::unique_ptr<SecurityFiles>> SecurityFiles::Open(const SecurityOptions& options,
                                                                   std::function<absl::Time()> now,
                                                                   EventLog* log) {
  auto files = std::unique_ptr<SecurityFiles>(new SecurityFiles(log));
  FileAuthenticator::Options callers = options.callers;
  if (!options.tls.certificate.empty()) {
    PH_ASSIGN_OR_RETURN(files->tls_, TlsFiles::Open(options.tls, now));
    files->reloader_.Add("certificates", files->tls_.get());
    callers.takes_certificates = !options.tls.client_ca.empty();
  }
  PH_ASSIGN_OR_RETURN(files->authenticator_,
                      FileAuthenticator::Open(std::move(callers), std::move(now)));
  if (files->authenticator_->tokens() != nullptr) {
    files->reloader_.Add("tokens", files->authenticator_->tokens());
  }
  if (files->authenticator_->keys() != nullptr) {
    files->reloader_.Add("jwt keys", files->authenticator_->keys());
  }
  if (!options.policy.empty()) {
    PH_ASSIGN_OR_RETURN(files->policy_, PolicyFile::Open(options.policy));
    files->reloader_.Add("policy", files->policy_.get());
  }
  return files;
}

}  // namespace packhouse::security
