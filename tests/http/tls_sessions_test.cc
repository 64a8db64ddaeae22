// What an operator puts in place of a certificate is read once, whether it is good or not; and what
// is said of the certificates that clients show.
#include "service/server/http/tls_sessions.h"

#include <gnutls/x509.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Names = std::vector<std::string>;
using Named = std::optional<Names>;

// GnuTLS calls must not fail here.
void Must(int result) { ASSERT_GE(result, 0) << gnutls_strerror(result); }

struct Certificate {
  std::shared_ptr<gnutls_x509_crt_int> certificate;
  std::shared_ptr<gnutls_x509_privkey_int> key;

  std::string Export(gnutls_x509_crt_fmt_t format) const {
    std::string bytes(4096, '\0');
    size_t size = bytes.size();
    Must(gnutls_x509_crt_export(certificate.get(), format, bytes.data(), &size));
    return bytes.substr(0, size);
  }
  TlsIdentity Identity() const {
    std::string bytes(4096, '\0');
    size_t size = bytes.size();
    Must(gnutls_x509_privkey_export(key.get(), GNUTLS_X509_FMT_PEM, bytes.data(), &size));
    return {Export(GNUTLS_X509_FMT_PEM), bytes.substr(0, size), ""};
  }
};

struct Terms {
  bool is_ca = false;
  int below = -1;                 // So many CAs may lie below it; any number.
  unsigned usage = 0;             // Not told.
  const char* purpose = nullptr;  // Not told.
  int begins_in_hours = -1;
  int ends_in_hours = 1;
  gnutls_digest_algorithm_t digest = GNUTLS_DIG_SHA256;
  std::function<void(gnutls_x509_crt_t)> further = [](gnutls_x509_crt_t) {};
};

// Without an issuer it signs itself.
Certificate Issue(const std::string& name, const Terms& terms,
                  const Certificate* issuer = nullptr) {
  gnutls_x509_crt_t crt = nullptr;
  gnutls_x509_privkey_t key = nullptr;
  Must(gnutls_x509_crt_init(&crt));
  Must(gnutls_x509_privkey_init(&key));
  Certificate made{{crt, gnutls_x509_crt_deinit}, {key, gnutls_x509_privkey_deinit}};
  Must(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
  Must(gnutls_x509_crt_set_version(crt, 3));
  Must(gnutls_x509_crt_set_serial(crt, "1", 1));
  Must(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name.data(),
                                     static_cast<unsigned>(name.size())));
  Must(gnutls_x509_crt_set_key(crt, key));
  const time_t now = std::time(nullptr);
  Must(gnutls_x509_crt_set_activation_time(crt, now + terms.begins_in_hours * 3600));
  Must(gnutls_x509_crt_set_expiration_time(crt, now + terms.ends_in_hours * 3600));
  if (terms.is_ca) Must(gnutls_x509_crt_set_basic_constraints(crt, 1, terms.below));
  if (terms.usage != 0) Must(gnutls_x509_crt_set_key_usage(crt, terms.usage));
  if (terms.purpose != nullptr) Must(gnutls_x509_crt_set_key_purpose_oid(crt, terms.purpose, 0));
  terms.further(crt);
  Must(gnutls_x509_crt_sign2(crt, issuer == nullptr ? crt : issuer->certificate.get(),
                             issuer == nullptr ? key : issuer->key.get(), terms.digest, 0));
  return made;
}

// One side of a connection within this thread.
class Side {
 public:
  Side(unsigned role, std::string* in, std::string* out) : in_(in), out_(out) {
    Must(gnutls_certificate_allocate_credentials(&credentials_));
    Must(gnutls_init(&session_, role | GNUTLS_NONBLOCK));
    // Also a certificate that may not sign is shown.
    Must(gnutls_priority_set_direct(session_, "NORMAL:%COMPAT:%DEBUG_ALLOW_KEY_USAGE_VIOLATIONS",
                                    nullptr));
    Must(gnutls_credentials_set(session_, GNUTLS_CRD_CERTIFICATE, credentials_));
    gnutls_transport_set_ptr(session_, this);
    gnutls_transport_set_push_function(
        session_, [](gnutls_transport_ptr_t side, const void* bytes, size_t size) -> ssize_t {
          static_cast<Side*>(side)->out_->append(static_cast<const char*>(bytes), size);
          return static_cast<ssize_t>(size);
        });
    gnutls_transport_set_pull_function(
        session_, [](gnutls_transport_ptr_t side, void* bytes, size_t size) -> ssize_t {
          return static_cast<Side*>(side)->Pull(static_cast<char*>(bytes), size);
        });
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    gnutls_deinit(session_);
    gnutls_certificate_free_credentials(credentials_);
  }

  gnutls_session_t session() const { return session_; }
  gnutls_certificate_credentials_t credentials() const { return credentials_; }

  void Show(const std::vector<Certificate>& chain) {
    if (chain.empty()) return;
    std::vector<gnutls_pcert_st> shown(chain.size());
    for (size_t i = 0; i < chain.size(); ++i) {
      Must(gnutls_pcert_import_x509(&shown[i], chain[i].certificate.get(), 0));
    }
    gnutls_privkey_t key = nullptr;
    Must(gnutls_privkey_init(&key));
    Must(gnutls_privkey_import_x509(key, chain[0].key.get(), GNUTLS_PRIVKEY_IMPORT_COPY));
    Must(gnutls_certificate_set_key(credentials_, nullptr, 0, shown.data(),
                                    static_cast<int>(shown.size()), key));
  }

 private:
  ssize_t Pull(char* bytes, size_t size) {
    if (in_->empty()) {
      gnutls_transport_set_errno(session_, EAGAIN);
      return -1;
    }
    size = std::min(size, in_->size());
    in_->copy(bytes, size);
    in_->erase(0, size);
    return static_cast<ssize_t>(size);
  }

  std::string* const in_;
  std::string* const out_;
  gnutls_certificate_credentials_t credentials_ = nullptr;
  gnutls_session_t session_ = nullptr;
};

class HandshakeTest : public ::testing::Test {
 protected:
  HandshakeTest() {
    now_ = server_.Identity();
    now_.client_ca = ca_.Export(GNUTLS_X509_FMT_PEM);
    auto opened = TlsSessions::Open([this] { return now_; });
    EXPECT_THAT(opened, IsOk());
    sessions_ = *std::move(opened);
    sessions_->UseOnThisThread();
  }

  // Whether the handshake ends well. `then` is given the server's side of it.
  bool Meet(const std::vector<Certificate>& shown,
            const std::function<void(gnutls_session_t)>& then) {
    std::string to_server;
    std::string to_client;
    Side server(GNUTLS_SERVER, &to_server, &to_client);
    Side client(GNUTLS_CLIENT, &to_client, &to_server);
    gnutls_certificate_set_retrieve_function2(server.credentials(),
                                              &TlsSessions::ChooseCertificate);
    gnutls_certificate_server_set_request(server.session(), GNUTLS_CERT_REQUEST);
    client.Show(shown);
    int of_client = GNUTLS_E_AGAIN;
    int of_server = GNUTLS_E_AGAIN;
    for (int i = 0; i < 10; ++i) {
      if (of_client != 0) of_client = gnutls_handshake(client.session());
      if (of_server != 0) of_server = gnutls_handshake(server.session());
    }
    if (of_client != 0 || of_server != 0) return false;
    unsigned length = 0;
    const gnutls_datum_t* const seen = gnutls_certificate_get_peers(client.session(), &length);
    EXPECT_EQ(length, 1U);
    seen_.assign(reinterpret_cast<const char*>(seen->data), seen->size);
    then(server.session());
    return true;
  }

  // Of a client that shows these.
  absl::StatusOr<Named> NamesOf(const std::vector<Certificate>& shown) {
    absl::StatusOr<Named> names;
    EXPECT_TRUE(
        Meet(shown, [&](gnutls_session_t session) { names = sessions_->NamesOf(session); }));
    return names;
  }

  // Why it refuses it.
  std::string WhyNot(const std::vector<Certificate>& shown) {
    const absl::Status status = NamesOf(shown).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
    return std::string(status.message());
  }

  const Certificate ca_ = Issue("ca", {.is_ca = true});
  const Certificate server_ = Issue("server", {});
  const Certificate next_ = Issue("next", {});
  TlsIdentity now_;
  std::unique_ptr<TlsSessions> sessions_;
  std::string seen_;  // What the client has last seen.
};

void AddName(gnutls_x509_crt_t crt, gnutls_x509_subject_alt_name_t kind, const std::string& name) {
  Must(gnutls_x509_crt_set_subject_alt_name(
      crt, kind, name.data(), static_cast<unsigned>(name.size()), GNUTLS_FSAN_APPEND));
}

TEST_F(HandshakeTest, NamesAreToldByTheirKinds) {
  EXPECT_THAT(NamesOf({}), IsOkAndHolds(Named()));
  EXPECT_THAT(NamesOf({Issue("me", {}, &ca_)}), IsOkAndHolds(Names{}));
  const std::string at_bound = absl::StrCat("spiffe://", std::string(256 - 9, 'a'));
  const std::string beyond = absl::StrCat("spiffe://", std::string(300, 'b'));
  const Certificate client = Issue("me",
                                   {.further =
                                        [&](gnutls_x509_crt_t crt) {
                                          AddName(crt, GNUTLS_SAN_RFC822NAME, "me@one");
                                          AddName(crt, GNUTLS_SAN_IPADDRESS, "\x7f\1\1\1");
                                          AddName(crt, GNUTLS_SAN_DNSNAME, "one");
                                          AddName(crt, GNUTLS_SAN_URI, at_bound);
                                          AddName(crt, GNUTLS_SAN_DNSNAME, "two");
                                          AddName(crt, GNUTLS_SAN_URI, beyond);
                                          AddName(crt, GNUTLS_SAN_RFC822NAME, "me@two");
                                        }},
                                   &ca_);
  EXPECT_THAT(NamesOf({client}),
              IsOkAndHolds(Names{at_bound, beyond, "one", "two", "me@one", "me@two"}));
}

TEST_F(HandshakeTest, WhatIsGoodIsTaken) {
  const Certificate mid = Issue("mid", {.is_ca = true, .below = 0}, &ca_);
  const auto name = [](gnutls_x509_crt_t crt) { AddName(crt, GNUTLS_SAN_DNSNAME, "me"); };
  const auto me = IsOkAndHolds(Names{"me"});
  for (const unsigned usage : {0, GNUTLS_KEY_DIGITAL_SIGNATURE, GNUTLS_KEY_KEY_AGREEMENT,
                               GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_ENCIPHERMENT}) {
    EXPECT_THAT(NamesOf({Issue("me", {.usage = usage, .further = name}, &ca_)}), me) << usage;
  }
  EXPECT_THAT(NamesOf({Issue("me", {.purpose = GNUTLS_KP_TLS_WWW_CLIENT, .further = name}, &ca_)}),
              me);
  EXPECT_THAT(NamesOf({Issue("me", {.further = name}, &mid), mid}), me);
  // As many as may be.
  std::vector<Certificate> chain = {Issue("me", {.further = name}, &mid), mid};
  chain.resize(16, mid);
  EXPECT_THAT(NamesOf(chain).status().message(), Not(HasSubstr("too long")));
}

TEST_F(HandshakeTest, WhatIsRefusedIsToldWhy) {
  const auto why = [](const char* reason) {
    return absl::StrCat("the server refuses the client's certificate: ", reason);
  };
  const std::string not_signed = why("its CA (--tls-client-ca) has not signed it");
  const std::string expired = why("it, or a certificate between it and its CA, has expired");
  const std::string early = why("it, or a certificate between it and its CA, is not valid yet");
  const char* const of_servers = GNUTLS_KP_TLS_WWW_SERVER;
  const Certificate other = Issue("other", {.is_ca = true});
  const Certificate mid = Issue("mid", {.is_ca = true, .below = 0}, &ca_);
  const Certificate old = Issue("old", {.is_ca = true, .ends_in_hours = -1}, &ca_);
  const Certificate no_ca = Issue("no", {}, &ca_);
  const Certificate below = Issue("below", {.is_ca = true}, &mid);
  EXPECT_EQ(WhyNot({Issue("me", {}, &other)}), not_signed);
  EXPECT_EQ(WhyNot({Issue("me", {})}), not_signed);
  EXPECT_EQ(WhyNot({Issue("me", {}, &mid)}), not_signed);
  EXPECT_EQ(WhyNot({Issue("me", {.ends_in_hours = -1}, &other)}), not_signed);
  EXPECT_EQ(WhyNot({Issue("me", {.begins_in_hours = -2, .ends_in_hours = -1}, &ca_)}), expired);
  EXPECT_EQ(WhyNot({Issue("me", {}, &old), old}), expired);
  EXPECT_EQ(WhyNot({Issue("me", {.begins_in_hours = 1, .ends_in_hours = 2}, &ca_)}), early);
  EXPECT_EQ(WhyNot({Issue("me", {.purpose = of_servers}, &ca_)}),
            why("its extended key usage does not have clientAuth"));
  EXPECT_EQ(WhyNot({Issue("me", {}, &no_ca), no_ca}),
            why("it is signed by a certificate that is no CA's"));
  EXPECT_EQ(WhyNot({Issue("me", {}, &below), below, mid}),
            why("the constraints of its CA do not allow it"));
  EXPECT_EQ(WhyNot({Issue("me", {.digest = GNUTLS_DIG_SHA1}, &ca_)}),
            why("its algorithm is not secure"));
  EXPECT_EQ(WhyNot({Issue("me", {.usage = GNUTLS_KEY_KEY_ENCIPHERMENT}, &ca_)}),
            why("its key usage has neither digitalSignature nor keyAgreement"));
  std::vector<Certificate> chain = {Issue("me", {}, &mid)};
  chain.resize(17, mid);
  EXPECT_EQ(WhyNot(chain), why("its chain is too long"));
}

// Each handshake shows what there is then, and asks the CA that there is when it ends.
TEST_F(HandshakeTest, WhatIsReplacedIsUsedAtOnce) {
  const auto nothing = [](gnutls_session_t) {};
  ASSERT_TRUE(Meet({}, nothing));
  EXPECT_EQ(seen_, server_.Export(GNUTLS_X509_FMT_DER));
  const std::string client_ca = now_.client_ca;
  const auto replace = [&](const Certificate& by) {
    now_ = by.Identity();
    now_.client_ca = client_ca;
  };
  replace(next_);
  ASSERT_TRUE(Meet({}, nothing));
  EXPECT_EQ(seen_, next_.Export(GNUTLS_X509_FMT_DER));
  EXPECT_EQ(sessions_->num_kept(), 2U);
  // The last good one stays in use.
  replace(server_);
  now_.key = "none";
  EXPECT_THAT(sessions_->Refresh(),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("its key: ")));
  replace(server_);
  now_.certificate = "none";
  EXPECT_THAT(sessions_->Refresh(),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("the certificate: ")));
  ASSERT_TRUE(Meet({}, nothing));
  EXPECT_EQ(seen_, next_.Export(GNUTLS_X509_FMT_DER));
  EXPECT_EQ(sessions_->num_kept(), 2U);

  replace(next_);
  const Certificate other = Issue("other", {.is_ca = true});
  const Certificate client = Issue("me", {}, &other);
  EXPECT_THAT(WhyNot({client}), HasSubstr("has not signed it"));
  ASSERT_TRUE(Meet({client}, [&](gnutls_session_t session) {
    now_.client_ca = other.Export(GNUTLS_X509_FMT_PEM);
    EXPECT_THAT(sessions_->NamesOf(session), IsOkAndHolds(Names{}));
  }));
  EXPECT_THAT(WhyNot({Issue("me", {}, &ca_)}), HasSubstr("has not signed it"));
  // That of the start, by which clients are asked for theirs.
  EXPECT_EQ(sessions_->client_ca(), client_ca);
  // One that is gone is not asked.
  sessions_ = nullptr;
  EXPECT_FALSE(Meet({}, nothing));
}

TEST_F(HandshakeTest, WithoutACAOfClientsNoneIsNamed) {
  now_ = server_.Identity();
  const auto sessions = TlsSessions::Open([this] { return now_; });
  ASSERT_THAT(sessions, IsOk());
  EXPECT_EQ((*sessions)->client_ca(), "");
  (*sessions)->UseOnThisThread();
  EXPECT_TRUE(Meet({Issue("me", {}, &ca_)}, [&](gnutls_session_t session) {
    EXPECT_THAT((*sessions)->NamesOf(session), IsOkAndHolds(Named()));
  }));
}

TEST(TlsSessionsTest, WhatIsRefusedIsNotTriedAgain) {
  const TemporaryFolder folder;
  MakeCertificate(folder.path(), "one");
  MakeCertificate(folder.path(), "two");
  const auto identity_of = [&](const std::string& name) {
    const std::string path = folder.path() + "/" + name;
    return TlsIdentity{ReadText(path + ".crt"), ReadText(path + ".key"), ReadText(path + ".crt")};
  };
  TlsIdentity now = identity_of("one");
  const auto sessions = TlsSessions::Open([&now] { return now; });
  ASSERT_THAT(sessions, IsOk());
  EXPECT_EQ((*sessions)->num_kept(), 1U);
  // The certificate is good, and comes into use; the CA is not.
  now = identity_of("two");
  now.client_ca = "no CA";
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT((*sessions)->Refresh(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the CAs of clients")));
    EXPECT_EQ((*sessions)->num_kept(), 2U);
  }
  now = identity_of("two");
  EXPECT_THAT((*sessions)->Refresh(), IsOk());
  EXPECT_EQ((*sessions)->num_kept(), 2U);
}

// Whatever is replaced, refused or ended leaves nothing. (Where a sanitizer allocates, it looks for
// that by itself.)
TEST(TlsSessionsTest, WhatIsLetGoOfIsFreed) {
  const TemporaryFolder folder;
  std::vector<TlsIdentity> identities;
  for (const char* const name : {"one", "two"}) {
    MakeCertificate(folder.path(), name);
    const std::string path = folder.path() + "/" + name;
    identities.push_back(
        {ReadText(path + ".crt"), ReadText(path + ".key"), ReadText(path + ".crt")});
  }
  const auto use = [&](int times) {
    for (int i = 0; i < times; ++i) {
      TlsIdentity now = identities[0];
      const auto sessions = TlsSessions::Open([&now] { return now; });
      ASSERT_THAT(sessions, IsOk());
      now = identities[1];
      EXPECT_THAT((*sessions)->Refresh(), IsOk());
      now.key = now.client_ca = "none";
      EXPECT_FALSE((*sessions)->Refresh().ok());
    }
  };
  use(20);
  const size_t before = mallinfo2().uordblks;
  use(100);
  EXPECT_LT(mallinfo2().uordblks, before + 50 * 1024);
}

}  // namespace
}  // namespace packhouse::http
