// Tokens that an issuer has signed: JWTs (RFC 7519) against a file of its keys (JWKS, RFC 7517).
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_JWT_KEYS_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_JWT_KEYS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/access/principal.h"

namespace packhouse::security {

// What a token must say.
struct JwtDemands {
  std::string audience;  // Among its audiences.
  std::string issuer;    // Its issuer; empty: any.
};

struct VerifiedJwt {
  Principal subject;
  absl::Time expires;
};

// The keys of a JWKS file, and the check of tokens with them. Debian 12's libjwt (1.10.2) knows no
// JWKS, and takes the algorithm that a token names: a token "signed" with HMAC and the public key
// as its secret would pass. So OpenSSL makes the keys here, and only algorithms that suit the key
// are let through to libjwt. Constant; thread-safe.
class JwtKeys {
 public:
  // RSA keys of 2048 to 8192 bits, and those on the curves P-256, P-384 and P-521. Keys of other
  // types, such that are not for signatures, and malformed ones are left out. INVALID_ARGUMENT if
  // it is no JWKS, or if none is left.
  static absl::StatusOr<JwtKeys> Parse(absl::string_view json);

  // The subject of a token with a good signature (RS, PS is not known to libjwt; ES; 256, 384 or
  // 512) whose `exp` is there and has not come and whose `nbf` has, each give or take a minute for
  // clocks that differ, and with the demanded audience and issuer. UNAUTHENTICATED, saying what is
  // wrong without repeating the token. About a millisecond.
  absl::StatusOr<VerifiedJwt> Verify(const std::string& token, const JwtDemands& demands,
                                     absl::Time now) const;

  size_t size() const { return keys_.size(); }
  // Keys that are malformed, or too weak or too long, each with the reason: "key 2 'old': ...".
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  struct Key {
    std::string id;                       // Empty: none.
    std::vector<std::string> algorithms;  // That it may be used with.
    std::string pem;
  };

  const Key* Find(absl::string_view id, absl::string_view algorithm) const;

  std::vector<Key> keys_;
  std::vector<std::string> left_out_;
};

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_JWT_KEYS_H_
