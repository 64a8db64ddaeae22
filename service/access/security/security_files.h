// All files that say who may do what, opened and kept up to date.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_SECURITY_FILES_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_SECURITY_FILES_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/access/authorizer.h"
#include "service/access/security/file_authenticator.h"
#include "service/access/security/policy_file.h"
#include "service/access/security/reloader.h"
#include "service/access/security/tls_files.h"
#include "service/base/event_log.h"
#include "service/base/execution.h"

namespace packhouse::security {

struct SecurityOptions {
  TlsPaths tls;  // Without a certificate: plain text.
  FileAuthenticator::Options callers;
  std::string policy;  // Empty: everybody may do everything.
};

// Thread-safe.
class SecurityFiles {
 public:
  // Errors name the file. The log must outlive this.
  static absl::StatusOr<std::unique_ptr<SecurityFiles>> Open(const SecurityOptions& options,
                                                             std::function<absl::Time()> now,
                                                             EventLog* log);

  // `what` must outlive this. Before Watch().
  void Add(std::string name, Reloadable* what) { reloader_.Add(std::move(name), what); }

  // From now on looks at the files every second, on a thread of its own.
  void Watch() {
    watch_ = std::make_unique<Repeating>(Reloader::kInterval, [this] { reloader_.Tick(); });
  }
  // Reads them now.
  void Reload() { reloader_.Reload(); }

  const TlsFiles* tls() const { return tls_.get(); }  // Null: plain text.
  const FileAuthenticator* authenticator() const { return authenticator_.get(); }
  // Null: everybody may do everything.
  const Authorizer* authorizer() const {
    return policy_ == nullptr ? nullptr : policy_->authorizer();
  }
  std::vector<Reloader::Reading> readings() const { return reloader_.readings(); }

 private:
  explicit SecurityFiles(EventLog* log) : reloader_(log) {}

  std::unique_ptr<TlsFiles> tls_;
  std::unique_ptr<FileAuthenticator> authenticator_;
  std::unique_ptr<PolicyFile> policy_;
  Reloader reloader_;
  std::unique_ptr<Repeating> watch_;
};

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_SECURITY_FILES_H_
