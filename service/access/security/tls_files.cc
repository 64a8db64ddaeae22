#include "service/access/security/tls_files.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/access/security/openssl_pointers.h"
#include "service/access/security/small_file.h"
#include "service/base/quoted.h"
#include "service/base/shared_memory.h"
#include "service/base/status_macros.h"

namespace packhouse::security {
namespace {

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", path, "' ", what));
}

// All certificates of a PEM file, at least one.
absl::StatusOr<std::vector<CertificatePtr>> CertificatesIn(const std::string& pem,
                                                           const std::string& path) {
  const BioPtr bio = BioOf(pem);
  std::vector<CertificatePtr> found;
  for (;;) {
    CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    found.push_back(std::move(certificate));
  }
  // The end of the file is this "error".
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = LastOpensslError();
  if (!is_end) return Wrong(path, absl::StrCat("has a broken certificate: ", reason));
  if (found.empty()) return Wrong(path, "has no certificate in PEM");
  return found;
}

// A certificate that has just been made may begin a little late for this machine's clock.
constexpr absl::Duration kLateClocks = absl::Minutes(5);

// Nobody is there to be asked for a pass phrase.
int NoPassPhrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*user*/) { return -1; }

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parsed = {};
  if (ASN1_TIME_to_tm(time, &parsed) != 1) return absl::InfinitePast();
  return absl::FromTM(parsed, absl::UTCTimeZone());
}

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

std::string SubjectOf(const X509& certificate) {
  std::array<char, 256> text = {};
  X509_NAME_oneline(X509_get_subject_name(&certificate), text.data(), text.size());
  return Quoted(text.data());
}

}  // namespace

absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsPaths& paths, absl::Time now) {
  TlsMaterial material;
  PH_ASSIGN_OR_RETURN(material.certificate, ReadSmallFile(paths.certificate));
  PH_ASSIGN_OR_RETURN(material.key, ReadSmallFile(paths.key));
  PH_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain,
                      CertificatesIn(material.certificate, paths.certificate));
  const BioPtr bio = BioOf(material.key);
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassPhrase, nullptr));
  if (key == nullptr) {
    return Wrong(paths.key, absl::StrCat("has no private key in PEM without a pass phrase: ",
                                         LastOpensslError()));
  }
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return Wrong(paths.key, absl::StrCat("is not the key of the first certificate in '",
                                         paths.certificate, "'"));
  }
  material.expires = absl::InfiniteFuture();
  for (const CertificatePtr& each : chain) {
    const absl::Time begins = TimeOf(X509_get0_notBefore(each.get()));
    const absl::Time expires = TimeOf(X509_get0_notAfter(each.get()));
    // Clients refuse a chain as soon as one of it has ended.
    if (expires <= now) {
      return Wrong(paths.certificate, absl::StrCat("has a certificate, for ", SubjectOf(*each),
                                                   ", that has expired at ", Rfc3339(expires)));
    }
    if (begins > now + kLateClocks) {
      return Wrong(paths.certificate, absl::StrCat("has a certificate, for ", SubjectOf(*each),
                                                   ", that is not valid before ", Rfc3339(begins)));
    }
    if (expires >= material.expires) continue;
    material.begins = begins;
    material.expires = expires;
  }
  if (paths.client_ca.empty()) return material;
  PH_ASSIGN_OR_RETURN(material.client_ca, ReadSmallFile(paths.client_ca));
  PH_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> roots,
                      CertificatesIn(material.client_ca, paths.client_ca));
  size_t num_expired = 0;
  for (const CertificatePtr& each : roots) {
    const absl::Time expires = TimeOf(X509_get0_notAfter(each.get()));
    if (expires > now) continue;
    ++num_expired;
    absl::StrAppend(&material.note, material.note.empty() ? "" : "; ", "the CA of clients ",
                    SubjectOf(*each), " has expired at ", Rfc3339(expires));
  }
  if (num_expired == roots.size()) {
    return Wrong(paths.client_ca, absl::StrCat("has no CA that is good: ", material.note));
  }
  return material;
}

absl::StatusOr<std::unique_ptr<TlsFiles>> TlsFiles::Open(TlsPaths paths, Now now) {
  auto files = std::unique_ptr<TlsFiles>(new TlsFiles(std::move(paths), std::move(now)));
  PH_RETURN_IF_ERROR(files->Reload().status());
  return files;
}

TlsFiles::~TlsFiles() {
  for (const int descriptor : {identity_, roots_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

absl::StatusOr<bool> TlsFiles::Read(bool is_asked) {
  PH_ASSIGN_OR_RETURN(TlsMaterial read, ReadTlsFiles(paths_, now_()));
  const bool is_at_rest =
      resting_.IsAtRest(absl::StrCat(read.certificate, read.key, read.client_ca));
  if (!is_at_rest && !is_asked) return false;
  const TlsMaterial old = material();
  const bool has_new_identity = read.certificate != old.certificate || read.key != old.key;
  const bool has_new_roots = read.client_ca != old.client_ca;
  if (has_new_identity) {
    PH_RETURN_IF_ERROR(Offer(absl::StrCat(read.key, "\n", read.certificate), identity_));
  }
  if (has_new_roots) PH_RETURN_IF_ERROR(Offer(read.client_ca, roots_));
  absl::MutexLock lock(&mutex_);
  material_ = std::move(read);
  return has_new_identity || has_new_roots;
}

std::string TlsFiles::PathOf(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

absl::Status TlsFiles::Offer(const std::string& bytes, int& descriptor) {
  PH_ASSIGN_OR_RETURN(const int made, MakeMemoryFile("packhouse-tls"));
  absl::Status status = absl::OkStatus();
  if (::write(made, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("cannot keep ", bytes.size(), " bytes of certificates in memory"));
  } else if (descriptor < 0) {
    descriptor = made;
    return status;
  } else if (::dup3(made, descriptor, O_CLOEXEC) < 0) {
    // Until here, whoever opens the path gets the old file; from here on, the new one.
    status = absl::ErrnoToStatus(errno, "cannot replace certificates in memory");
  }
  ::close(made);
  return status;
}

}  // namespace packhouse::security
