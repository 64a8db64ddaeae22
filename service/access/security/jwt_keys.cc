#include "service/access/security/jwt_keys.h"

#include <jwt.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "service/access/security/openssl_pointers.h"
#include "service/access/security/static_tokens.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse::security {
namespace {

using nlohmann::json;

constexpr absl::Duration kSkew = absl::Minutes(1);
constexpr size_t kMostKeys = 256;
constexpr int kLeastRsaBits = 2048;
constexpr int kMostRsaBits = 8192;

using JwtPtr = std::unique_ptr<jwt_t, OpensslFree<&jwt_free>>;
using BignumPtr = std::unique_ptr<BIGNUM, OpensslFree<&BN_free>>;
using ParameterBuilderPtr = std::unique_ptr<OSSL_PARAM_BLD, OpensslFree<&OSSL_PARAM_BLD_free>>;
using ParametersPtr = std::unique_ptr<OSSL_PARAM, OpensslFree<&OSSL_PARAM_free>>;
using KeyContextPtr = std::unique_ptr<EVP_PKEY_CTX, OpensslFree<&EVP_PKEY_CTX_free>>;

struct Curve {
  absl::string_view name;
  const char* openssl_name;
  size_t coordinate_bytes;
  const char* algorithm;
};
constexpr Curve kCurves[] = {{"P-256", "prime256v1", 32, "ES256"},
                             {"P-384", "secp384r1", 48, "ES384"},
                             {"P-521", "secp521r1", 66, "ES512"}};

absl::Status Refused(absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat("the server refuses the token: ", why));
}

// A member that is a string; "" otherwise.
std::string StringIn(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// By `use` and `key_ops`, both of which may be missing.
bool IsForSignatures(const json& key) {
  if (const std::string use = StringIn(key, "use"); !use.empty() && use != "sig") return false;
  const auto operations = key.find("key_ops");
  return operations == key.end() || !operations->is_array() ||
         std::find(operations->begin(), operations->end(), "verify") != operations->end();
}

absl::StatusOr<std::string> BytesIn(const json& key, const char* name) {
  std::string bytes;
  const std::string text = StringIn(key, name);
  if (text.empty() || !absl::WebSafeBase64Unescape(text, &bytes) || bytes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not base64url"));
  }
  return bytes;
}

BignumPtr NumberOf(const std::string& bytes) {
  return BignumPtr(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                             static_cast<int>(bytes.size()), nullptr));
}

// The public key in PEM; checks that it is one.
absl::StatusOr<std::string> PemOf(const char* type, OSSL_PARAM_BLD* builder) {
  const ParametersPtr parameters(OSSL_PARAM_BLD_to_param(builder));
  const KeyContextPtr context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* made = nullptr;
  if (parameters == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return absl::InvalidArgumentError(LastOpensslError());
  }
  const KeyPtr key(made);
  const KeyContextPtr check(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  if (check == nullptr || EVP_PKEY_public_check(check.get()) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("it is no public key: ", LastOpensslError()));
  }
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_PUBKEY(bio.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(LastOpensslError());
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

absl::StatusOr<std::string> RsaPem(const json& key) {
  PH_ASSIGN_OR_RETURN(const std::string modulus, BytesIn(key, "n"));
  PH_ASSIGN_OR_RETURN(const std::string exponent, BytesIn(key, "e"));
  const BignumPtr n = NumberOf(modulus);
  const BignumPtr e = NumberOf(exponent);
  if (const int bits = BN_num_bits(n.get()); bits < kLeastRsaBits || bits > kMostRsaBits) {
    return absl::InvalidArgumentError(
        absl::StrCat("its modulus has ", bits, " bits, not ", kLeastRsaBits, " to ", kMostRsaBits));
  }
  const ParameterBuilderPtr builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
  return PemOf("RSA", builder.get());
}

absl::StatusOr<std::string> EcPem(const json& key, const Curve& curve) {
  PH_ASSIGN_OR_RETURN(const std::string x, BytesIn(key, "x"));
  PH_ASSIGN_OR_RETURN(const std::string y, BytesIn(key, "y"));
  if (x.size() != curve.coordinate_bytes || y.size() != curve.coordinate_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("its coordinates have ", x.size(), " and ",
                                                   y.size(), " bytes, not ", curve.coordinate_bytes,
                                                   " as on ", curve.name));
  }
  const std::string point = absl::StrCat("\x04", x, y);
  const ParameterBuilderPtr builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, curve.openssl_name, 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  return PemOf("EC", builder.get());
}

// The parts of a token before its signature, decoded; nullopt if they are none.
std::optional<json> JsonPart(absl::string_view part) {
  std::string text;
  if (!absl::WebSafeBase64Unescape(part, &text)) return std::nullopt;
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  return parsed;
}

// A NumericDate of RFC 7519: seconds, perhaps with a fraction.
std::optional<absl::Time> TimeIn(const json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  // Beyond this, the arithmetic of times would saturate: nobody means it.
  if (!(seconds >= 0 && seconds < 1e12)) return std::nullopt;
  return absl::FromUnixSeconds(static_cast<int64_t>(seconds));
}

bool HasAudience(const json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (found->is_string()) return found->get<std::string>() == audience;
  return found->is_array() && std::any_of(found->begin(), found->end(), [&](const json& each) {
           return each.is_string() && each.get<std::string>() == audience;
         });
}

}  // namespace

absl::StatusOr<JwtKeys> JwtKeys::Parse(absl::string_view text) {
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("keys") || !parsed["keys"].is_array()) {
    return absl::InvalidArgumentError("it is no JSON object with an array 'keys'");
  }
  JwtKeys all;
  if (parsed["keys"].size() > kMostKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", parsed["keys"].size(), " keys, at most ", kMostKeys));
  }
  size_t number = 0;
  for (const json& each : parsed["keys"]) {
    ++number;
    // One that cannot be used does not take the others away (RFC 7517, 5).
    const auto leave_out = [&all, number](absl::string_view id, absl::string_view why) {
      all.left_out_.push_back(absl::StrCat("key ", number, " ", Quoted(id), ": ", why));
    };
    if (!each.is_object()) {
      leave_out("", "it is no object");
      continue;
    }
    if (!IsForSignatures(each)) continue;
    Key key;
    key.id = StringIn(each, "kid");
    const std::string type = StringIn(each, "kty");
    absl::StatusOr<std::string> pem = absl::NotFoundError("");
    if (type == "RSA") {
      key.algorithms = {"RS256", "RS384", "RS512"};
      pem = RsaPem(each);
    } else if (type == "EC") {
      for (const Curve& curve : kCurves) {
        if (curve.name != StringIn(each, "crv")) continue;
        key.algorithms = {curve.algorithm};
        pem = EcPem(each, curve);
      }
    }
    if (absl::IsNotFound(pem.status())) continue;
    if (!pem.ok()) {
      leave_out(key.id, pem.status().message());
      continue;
    }
    if (const std::string only = StringIn(each, "alg"); !only.empty()) {
      if (std::find(key.algorithms.begin(), key.algorithms.end(), only) == key.algorithms.end()) {
        continue;
      }
      key.algorithms = {only};
    }
    key.pem = *std::move(pem);
    all.keys_.push_back(std::move(key));
  }
  if (all.keys_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has no key for RS256, RS384, RS512, ES256, ES384 or ES512",
                     all.left_out_.empty() ? "" : "; ", absl::StrJoin(all.left_out_, "; ")));
  }
  return all;
}

const JwtKeys::Key* JwtKeys::Find(absl::string_view id, absl::string_view algorithm) const {
  const auto fits = [&](const Key& key) {
    return std::find(key.algorithms.begin(), key.algorithms.end(), algorithm) !=
           key.algorithms.end();
  };
  const Key* only = nullptr;
  for (const Key& key : keys_) {
    if (!fits(key)) continue;
    if (!id.empty() && key.id == id) return &key;
    // A token without a key's name is for the one key that there is.
    if (id.empty() && only != nullptr) return nullptr;
    if (id.empty()) only = &key;
  }
  return only;
}

absl::StatusOr<VerifiedJwt> JwtKeys::Verify(const std::string& token, const JwtDemands& demands,
                                            absl::Time now) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused("it is neither a known one nor a JWT");
  const std::optional<json> header = JsonPart(parts[0]);
  const std::optional<json> claims = JsonPart(parts[1]);
  if (!header || !claims) return Refused("it is no JWT: its parts are not JSON in base64url");
  // Extensions that must be understood, and are not.
  if (header->contains("crit")) return Refused("its header has 'crit'");
  const std::string algorithm = StringIn(*header, "alg");
  const std::string id = StringIn(*header, "kid");
  const Key* const key = Find(id, algorithm);
  if (key == nullptr) {
    return Refused(absl::StrCat("the JWKS file has no key ", Quoted(id), " for the algorithm ",
                                Quoted(algorithm)));
  }
  jwt_t* decoded = nullptr;
  const int failed =
      jwt_decode(&decoded, token.c_str(), reinterpret_cast<const unsigned char*>(key->pem.data()),
                 static_cast<int>(key->pem.size()));
  const JwtPtr owner(decoded);
  ERR_clear_error();
  // libjwt has read the algorithm by itself: it must be the one that was looked at here.
  if (failed != 0 || decoded == nullptr || jwt_get_alg(decoded) == JWT_ALG_NONE ||
      jwt_alg_str(jwt_get_alg(decoded)) != algorithm) {
    return Refused("its signature is not that of the issuer's key");
  }
  const std::optional<absl::Time> expires = TimeIn(*claims, "exp");
  if (!expires) return Refused("it has no time 'exp'");
  if (now >= *expires + kSkew) {
    return Refused(absl::StrCat(
        "it has expired at ", absl::FormatTime(absl::RFC3339_sec, *expires, absl::UTCTimeZone())));
  }
  if (claims->contains("nbf")) {
    const std::optional<absl::Time> begins = TimeIn(*claims, "nbf");
    if (!begins || now + kSkew < *begins) return Refused("it is not valid yet ('nbf')");
  }
  if (!HasAudience(*claims, demands.audience)) {
    return Refused(absl::StrCat("its audience is not ", Quoted(demands.audience)));
  }
  if (!demands.issuer.empty() && StringIn(*claims, "iss") != demands.issuer) {
    return Refused(absl::StrCat("its issuer is not ", Quoted(demands.issuer)));
  }
  VerifiedJwt verified{StringIn(*claims, "sub"), *expires};
  if (!CheckPrincipal(verified.subject).ok()) return Refused("it has no good subject 'sub'");
  return verified;
}

}  // namespace packhouse::security
