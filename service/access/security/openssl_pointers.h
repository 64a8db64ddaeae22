// OpenSSL's objects with owners, and its errors as text.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_OPENSSL_POINTERS_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_OPENSSL_POINTERS_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <array>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace packhouse::security {

template <auto kFree>
struct OpensslFree {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpensslFree<&BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<&EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpensslFree<&X509_free>>;

// A BIO that reads `bytes`, which must outlive it.
inline BioPtr BioOf(absl::string_view bytes) {
  return BioPtr(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

// The reason of this thread's last error; forgets all.
inline std::string LastOpensslError() {
  std::array<char, 256> text = {};
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (error == 0) return "no reason given";
  if (const char* const reason = ERR_reason_error_string(error)) return reason;
  ERR_error_string_n(error, text.data(), text.size());
  return text.data();
}

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_OPENSSL_POINTERS_H_
