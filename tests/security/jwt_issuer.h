// An issuer of tokens: keys that openssl makes, the JWKS of them, and JWTs that libjwt signs.
#ifndef PACKHOUSE_TESTS_SECURITY_JWT_ISSUER_H_
#define PACKHOUSE_TESTS_SECURITY_JWT_ISSUER_H_

#include <jwt.h>
#include <openssl/core_names.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "service/access/security/openssl_pointers.h"
#include "tests/support/openssl_command.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::security {

inline std::string Encoded(const std::string& bytes) { return absl::WebSafeBase64Escape(bytes); }

inline std::string Bytes(EVP_PKEY* key, const char* parameter, size_t size = 0) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key, parameter, &number), 1);
  std::string bytes(std::max<size_t>(size, static_cast<size_t>(BN_num_bytes(number))), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()),
               static_cast<int>(bytes.size()));
  BN_free(number);
  return bytes;
}

// What a Kubernetes API server gives a pod.
inline nlohmann::json GoodClaims(absl::Time now) {
  return {{"iss", "https://kubernetes.default.svc"},
          {"sub", "system:serviceaccount:ml:train"},
          {"aud", {"packhouse", "other"}},
          {"iat", absl::ToUnixSeconds(now)},
          {"nbf", absl::ToUnixSeconds(now)},
          {"exp", absl::ToUnixSeconds(now + absl::Hours(1))}};
}

struct Signer {
  std::string pem;
  KeyPtr key;
};

// Options are those of `openssl genpkey`.
inline Signer MakeKey(const TemporaryFolder& folder, const std::string& name,
                      const std::string& options) {
  const std::string path = folder.path() + "/" + name;
  Openssl(absl::StrCat("genpkey ", options, " -out ", path));
  Signer signer{ReadText(path), nullptr};
  signer.key.reset(PEM_read_bio_PrivateKey(BioOf(signer.pem).get(), nullptr, nullptr, nullptr));
  return signer;
}
inline nlohmann::json RsaJwk(const Signer& signer, const std::string& id) {
  return {{"kty", "RSA"},
          {"use", "sig"},
          {"alg", "RS256"},
          {"kid", id},
          {"n", Encoded(Bytes(signer.key.get(), OSSL_PKEY_PARAM_RSA_N))},
          {"e", Encoded(Bytes(signer.key.get(), OSSL_PKEY_PARAM_RSA_E))}};
}
inline nlohmann::json EcJwk(const Signer& signer, const std::string& id) {
  return {{"kty", "EC"},
          {"crv", "P-256"},
          {"kid", id},
          {"x", Encoded(Bytes(signer.key.get(), OSSL_PKEY_PARAM_EC_PUB_X, 32))},
          {"y", Encoded(Bytes(signer.key.get(), OSSL_PKEY_PARAM_EC_PUB_Y, 32))}};
}
inline std::string Signed(const std::string& pem, jwt_alg_t algorithm, const std::string& id,
                          const nlohmann::json& claims) {
  jwt_t* token = nullptr;
  EXPECT_EQ(jwt_new(&token), 0);
  if (!id.empty()) jwt_add_header(token, "kid", id.c_str());
  EXPECT_EQ(jwt_add_grants_json(token, claims.dump().c_str()), 0);
  EXPECT_EQ(jwt_set_alg(token, algorithm, reinterpret_cast<const unsigned char*>(pem.data()),
                        static_cast<int>(pem.size())),
            0);
  char* const text = jwt_encode_str(token);
  EXPECT_NE(text, nullptr);
  std::string encoded = text;
  std::free(text);
  jwt_free(token);
  return encoded;
}

}  // namespace packhouse::security

#endif  // PACKHOUSE_TESTS_SECURITY_JWT_ISSUER_H_
