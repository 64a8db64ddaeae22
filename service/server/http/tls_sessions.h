// TLS of the HTTP port: which certificate the server shows, and whose the client's is. By GnuTLS,
// which libmicrohttpd is built on.
#ifndef PACKHOUSE_SERVICE_SERVER_HTTP_TLS_SESSIONS_H_
#define PACKHOUSE_SERVICE_SERVER_HTTP_TLS_SESSIONS_H_

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/server/http/http_server.h"

namespace packhouse::http {

// Thread-compatible: the server's thread alone uses it.
class TlsSessions {
 public:
  // INVALID_ARGUMENT with GnuTLS's words if it does not take what there is now.
  static absl::StatusOr<std::unique_ptr<TlsSessions>> Open(std::function<TlsIdentity()> source);

  const std::string& client_ca() const { return client_ca_; }  // At the start.

  // From now until this is gone, handshakes on the calling thread use it.
  void UseOnThisThread();
  // To be given to libmicrohttpd.
  static gnutls_certificate_retrieve_function2 ChooseCertificate;

  // The alternative names of the certificate that the client has shown and that the present CA has
  // signed: URIs first, then hosts, then e-mail addresses. nullopt if it has shown none.
  // UNAUTHENTICATED if it is not good, with the reason.
  absl::StatusOr<std::optional<std::vector<std::string>>> NamesOf(gnutls_session_t session);

  // Looks whether there is something new. What is refused leaves the last good one in use, and is
  // not tried again until it changes; INVALID_ARGUMENT as Open() until then.
  absl::Status Refresh();

  // Certificates that handshakes may use: the last, and for a while those that it replaced.
  size_t num_kept() const { return identities_.size(); }

  ~TlsSessions();

 private:
  struct Identity;

  explicit TlsSessions(std::function<TlsIdentity()> source);

  absl::Status TakeIdentity(const TlsIdentity& identity);
  absl::Status TakeClientCa(const std::string& client_ca);

  const std::function<TlsIdentity()> source_;
  std::string client_ca_;
  TlsIdentity seen_;
  absl::Status refused_identity_;
  absl::Status refused_ca_;
  // The last is in use. Handshakes that began earlier still use the others.
  std::deque<std::unique_ptr<Identity>> identities_;
  gnutls_x509_trust_list_t roots_ = nullptr;
};

}  // namespace packhouse::http

#endif  // PACKHOUSE_SERVICE_SERVER_HTTP_TLS_SESSIONS_H_
