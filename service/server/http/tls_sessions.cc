#include "service/server/http/tls_sessions.h"

#include <gnutls/x509.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/steady_waits.h"

namespace packhouse::http {
namespace {

// The certificate, and those between it and its CA.
constexpr unsigned kLongestChain = 16;
// A replaced certificate is kept for longer than a handshake may take.
constexpr absl::Duration kKept = absl::Minutes(1);

// gnutls_certificate_retrieve_function2 has no argument of ours.
thread_local TlsSessions* sessions_of_thread = nullptr;

gnutls_datum_t DatumOf(const std::string& text) {
  // GnuTLS does not write to it.
  return {reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
          static_cast<unsigned>(text.size())};
}

absl::Status Refused(absl::string_view what, int error) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", gnutls_strerror(error)));
}

// In the order in which a reader can do something about it.
absl::string_view WhyNot(unsigned verdict) {
  for (const auto& [bit, why] :
       {std::pair(GNUTLS_CERT_SIGNER_NOT_FOUND, "its CA (--tls-client-ca) has not signed it"),
        std::pair(GNUTLS_CERT_EXPIRED, "it, or a certificate between it and its CA, has expired"),
        std::pair(GNUTLS_CERT_NOT_ACTIVATED,
                  "it, or a certificate between it and its CA, is not valid yet"),
        std::pair(GNUTLS_CERT_PURPOSE_MISMATCH, "its extended key usage does not have clientAuth"),
        std::pair(GNUTLS_CERT_SIGNER_NOT_CA, "it is signed by a certificate that is no CA's"),
        std::pair(GNUTLS_CERT_SIGNER_CONSTRAINTS_FAILURE,
                  "the constraints of its CA do not allow it"),
        std::pair(GNUTLS_CERT_INSECURE_ALGORITHM, "its algorithm is not secure")}) {
    if ((verdict & static_cast<unsigned>(bit)) != 0) return why;
  }
  return "its CA (--tls-client-ca) has not signed it";
}

// As OpenSSL, and so gRPC's port, wants it of a client.
bool MaySign(gnutls_x509_crt_t certificate) {
  unsigned usage = 0;
  const int found = gnutls_x509_crt_get_key_usage(certificate, &usage, nullptr);
  return found == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE ||
         (found >= 0 && (usage & (GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_AGREEMENT)) != 0);
}

// However many and however long they are: the first one counts, here as at gRPC's port.
std::vector<std::string> AlternativeNames(gnutls_x509_crt_t certificate) {
  std::vector<std::string> names;
  for (const auto kind : {GNUTLS_SAN_URI, GNUTLS_SAN_DNSNAME, GNUTLS_SAN_RFC822NAME}) {
    for (unsigned i = 0;; ++i) {
      std::string name(256, '\0');
      size_t size = name.size();
      int found = gnutls_x509_crt_get_subject_alt_name(certificate, i, name.data(), &size, nullptr);
      if (found == GNUTLS_E_SHORT_MEMORY_BUFFER) {
        name.resize(size);
        found = gnutls_x509_crt_get_subject_alt_name(certificate, i, name.data(), &size, nullptr);
      }
      // Names of kinds that it does not know stand between others.
      if (found < 0 && found != GNUTLS_E_X509_UNKNOWN_SAN) break;
      if (found == static_cast<int>(kind)) names.push_back(name.substr(0, size));
    }
  }
  return names;
}

}  // namespace

struct TlsSessions::Identity {
  Identity() = default;
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  ~Identity() {
    for (unsigned i = 0; i < length; ++i) gnutls_pcert_deinit(&chain[i]);
    if (key != nullptr) gnutls_privkey_deinit(key);
  }

  std::array<gnutls_pcert_st, kLongestChain> chain = {};
  unsigned length = 0;
  gnutls_privkey_t key = nullptr;
  absl::Time replaced = absl::InfiniteFuture();
};

absl::StatusOr<std::unique_ptr<TlsSessions>> TlsSessions::Open(
    std::function<TlsIdentity()> source) {
  auto sessions = std::unique_ptr<TlsSessions>(new TlsSessions(std::move(source)));
  PH_RETURN_IF_ERROR(sessions->Refresh());
  sessions->client_ca_ = sessions->seen_.client_ca;
  return sessions;
}

TlsSessions::TlsSessions(std::function<TlsIdentity()> source) : source_(std::move(source)) {}

TlsSessions::~TlsSessions() {
  if (sessions_of_thread == this) sessions_of_thread = nullptr;
  if (roots_ != nullptr) gnutls_x509_trust_list_deinit(roots_, /*all=*/1);
}

void TlsSessions::UseOnThisThread() { sessions_of_thread = this; }

absl::Status TlsSessions::Refresh() {
  const TlsIdentity now = source_();
  if (identities_.empty() || now.certificate != seen_.certificate || now.key != seen_.key) {
    seen_.certificate = now.certificate;
    seen_.key = now.key;
    refused_identity_ = TakeIdentity(now);
  }
  if (!now.client_ca.empty() && now.client_ca != seen_.client_ca) {
    seen_.client_ca = now.client_ca;
    refused_ca_ = TakeClientCa(now.client_ca);
  }
  return refused_identity_.ok() ? refused_ca_ : refused_identity_;
}

absl::Status TlsSessions::TakeIdentity(const TlsIdentity& identity) {
  auto made = std::make_unique<Identity>();
  const gnutls_datum_t certificate = DatumOf(identity.certificate);
  unsigned length = kLongestChain;
  if (const int error = gnutls_pcert_list_import_x509_raw(made->chain.data(), &length, &certificate,
                                                          GNUTLS_X509_FMT_PEM, /*flags=*/0);
      error < 0) {
    return Refused("the certificate", error);
  }
  made->length = length;
  const gnutls_datum_t key = DatumOf(identity.key);
  int error = gnutls_privkey_init(&made->key);
  if (error >= 0) {
    error = gnutls_privkey_import_x509_raw(made->key, &key, GNUTLS_X509_FMT_PEM,
                                           /*password=*/nullptr, /*flags=*/0);
  }
  if (error < 0) return Refused("its key", error);
  const absl::Time time = SteadyTime();
  if (!identities_.empty()) identities_.back()->replaced = time;
  while (!identities_.empty() && identities_.front()->replaced < time - kKept) {
    identities_.pop_front();
  }
  identities_.push_back(std::move(made));
  return absl::OkStatus();
}

absl::Status TlsSessions::TakeClientCa(const std::string& client_ca) {
  gnutls_x509_trust_list_t roots = nullptr;
  int error = gnutls_x509_trust_list_init(&roots, 0);
  const gnutls_datum_t pem = DatumOf(client_ca);
  if (error >= 0) {
    error = gnutls_x509_trust_list_add_trust_mem(roots, &pem, /*crls=*/nullptr, GNUTLS_X509_FMT_PEM,
                                                 0, 0);
  }
  if (error <= 0) {
    if (roots != nullptr) gnutls_x509_trust_list_deinit(roots, 1);
    return error == 0 ? absl::InvalidArgumentError("the CAs of clients: there is none")
                      : Refused("the CAs of clients", error);
  }
  if (roots_ != nullptr) gnutls_x509_trust_list_deinit(roots_, 1);
  roots_ = roots;
  return absl::OkStatus();
}

int TlsSessions::ChooseCertificate(gnutls_session_t /*session*/, const gnutls_datum_t* /*cas*/,
                                   int /*num_cas*/, const gnutls_pk_algorithm_t* /*algorithms*/,
                                   int /*num_algorithms*/, gnutls_pcert_st** chain,
                                   unsigned int* length, gnutls_privkey_t* key) {
  TlsSessions* const sessions = sessions_of_thread;
  if (sessions == nullptr) return -1;
  // What cannot be used leaves the last good one in use.
  sessions->Refresh().IgnoreError();
  Identity& identity = *sessions->identities_.back();
  *chain = identity.chain.data();
  *length = identity.length;
  *key = identity.key;
  return 0;
}

absl::StatusOr<std::optional<std::vector<std::string>>> TlsSessions::NamesOf(
    gnutls_session_t session) {
  unsigned length = 0;
  const gnutls_datum_t* const shown = gnutls_certificate_get_peers(session, &length);
  if (roots_ == nullptr || shown == nullptr || length == 0) return std::nullopt;
  const auto bad = [](absl::string_view why) {
    return absl::UnauthenticatedError(
        absl::StrCat("the server refuses the client's certificate: ", why));
  };
  if (length > kLongestChain) return bad("its chain is too long");
  Refresh().IgnoreError();
  std::array<gnutls_x509_crt_t, kLongestChain> chain = {};
  unsigned made = 0;
  absl::Status status = absl::OkStatus();
  for (unsigned i = 0; i < length && status.ok(); ++i) {
    if (gnutls_x509_crt_init(&chain[i]) < 0) {
      status = absl::ResourceExhaustedError("no memory for a certificate");
      break;
    }
    ++made;
    if (gnutls_x509_crt_import(chain[i], &shown[i], GNUTLS_X509_FMT_DER) < 0) {
      status = bad("it is malformed");
    }
  }
  std::vector<std::string> names;
  if (status.ok()) {
    unsigned verdict = 0;
    gnutls_typed_vdata_st purpose = {
        GNUTLS_DT_KEY_PURPOSE_OID,
        reinterpret_cast<unsigned char*>(const_cast<char*>(GNUTLS_KP_TLS_WWW_CLIENT)), 0};
    const int error = gnutls_x509_trust_list_verify_crt2(roots_, chain.data(), length, &purpose, 1,
                                                         /*flags=*/0, &verdict, nullptr);
    if (error < 0 || verdict != 0) {
      status = bad(WhyNot(verdict));
    } else if (!MaySign(chain[0])) {
      status = bad("its key usage has neither digitalSignature nor keyAgreement");
    }
  }
  if (status.ok()) names = AlternativeNames(chain[0]);
  for (unsigned i = 0; i < made; ++i) gnutls_x509_crt_deinit(chain[i]);
  PH_RETURN_IF_ERROR(status);
  return names;
}

}  // namespace packhouse::http
