// Tokens of an issuer, good ones and hostile ones. They are signed here by libjwt, with keys that
// openssl has made; the key file is written as issuers write it.
#include "service/access/security/jwt_keys.h"

#include <jwt.h>
#include <openssl/core_names.h>
#include <openssl/pem.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/security/openssl_pointers.h"
#include "tests/security/jwt_issuer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::security {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class JwtKeysTest : public ::testing::Test {
 protected:
  JwtKeys Keys() const {
    auto keys = JwtKeys::Parse(
        json{{"keys", {RsaJwk(rsa_, "rsa"), EcJwk(ec_, "ec"), {{"kty", "oct"}, {"k", "c2Vj"}}}}}
            .dump());
    EXPECT_TRUE(keys.ok()) << keys.status();
    return *std::move(keys);
  }
  std::string Refusal(const std::string& token) const {
    const auto verified = Keys().Verify(token, demands_, now_);
    if (verified.ok()) return absl::StrCat("taken as ", verified->subject);
    EXPECT_EQ(verified.status().code(), absl::StatusCode::kUnauthenticated);
    return std::string(verified.status().message());
  }
  std::string With(const char* claim, const json& value) const {
    json claims = GoodClaims(now_);
    claims[claim] = value;
    return Signed(rsa_.pem, JWT_ALG_RS256, "rsa", claims);
  }

  const TemporaryFolder folder_;
  const Signer rsa_ = MakeKey(folder_, "rsa", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048");
  const Signer ec_ = MakeKey(folder_, "ec", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  const JwtDemands demands_{"packhouse", "https://kubernetes.default.svc"};
};

TEST_F(JwtKeysTest, GoodTokensGiveTheirSubject) {
  EXPECT_EQ(Keys().size(), 2);
  const json claims = GoodClaims(now_);
  for (const std::string& token :
       {Signed(rsa_.pem, JWT_ALG_RS256, "rsa", claims),
        Signed(ec_.pem, JWT_ALG_ES256, "ec", claims), Signed(ec_.pem, JWT_ALG_ES256, "", claims),
        With("aud", "packhouse")}) {
    PH_ASSERT_OK_AND_ASSIGN(const VerifiedJwt verified, Keys().Verify(token, demands_, now_));
    EXPECT_EQ(verified.subject, "system:serviceaccount:ml:train");
    EXPECT_EQ(verified.expires, now_ + absl::Hours(1));
  }
}

TEST_F(JwtKeysTest, WrongClaimsAreRefusedByName) {
  EXPECT_THAT(Refusal(With("aud", "another")), HasSubstr("its audience is not 'packhouse'"));
  EXPECT_THAT(Refusal(With("aud", nullptr)), HasSubstr("audience"));
  EXPECT_THAT(Refusal(With("aud", {{"packhouse", 1}})), HasSubstr("audience"));
  EXPECT_THAT(Refusal(With("iss", "https://evil")), HasSubstr("its issuer is not"));
  EXPECT_THAT(Refusal(With("exp", absl::ToUnixSeconds(now_ - absl::Minutes(1)))),
              HasSubstr("it has expired at 2027-01-15T07:59:00"));
  EXPECT_THAT(Refusal(With("exp", absl::ToUnixSeconds(now_ - absl::Seconds(59)))),
              HasSubstr("taken"));
  for (const json& exp : {json(nullptr), json("9999999999"), json(-1), json(1e300), json(true)}) {
    EXPECT_THAT(Refusal(With("exp", exp)), HasSubstr("no time 'exp'"));
  }
  EXPECT_THAT(Refusal(With("exp", 1e12)), HasSubstr("no time 'exp'"));
  EXPECT_THAT(Refusal(With("exp", 9e11)), HasSubstr("taken"));
  EXPECT_THAT(Refusal(With("exp", 0)), HasSubstr("it has expired at 1970-01-01T00:00:00"));
  EXPECT_THAT(Refusal(With("nbf", absl::ToUnixSeconds(now_ + absl::Seconds(61)))),
              HasSubstr("not valid yet"));
  EXPECT_THAT(Refusal(With("nbf", absl::ToUnixSeconds(now_ + absl::Minutes(1)))),
              HasSubstr("taken"));
  EXPECT_THAT(Refusal(With("nbf", "now")), HasSubstr("not valid yet"));
  for (const auto& [claim, why] :
       {std::pair("exp", "no time 'exp'"), std::pair("aud", "its audience is not"),
        std::pair("iss", "its issuer is not"), std::pair("sub", "no good subject"),
        std::pair("nbf", "taken as system:serviceaccount:ml:train")}) {
    json claims = GoodClaims(now_);
    claims.erase(claim);
    EXPECT_THAT(Refusal(Signed(rsa_.pem, JWT_ALG_RS256, "rsa", claims)), HasSubstr(why));
  }
  EXPECT_THAT(Refusal(With("aud", {7, "other"})), HasSubstr("its audience is not"));
  for (const json& sub : {json(nullptr), json(""), json("a b"), json(7), json("a\nb")}) {
    EXPECT_THAT(Refusal(With("sub", sub)), HasSubstr("no good subject"));
  }
}

// Each curve has its algorithm, and a token without a key's name is for the one key that it fits.
TEST_F(JwtKeysTest, EachCurveHasItsAlgorithm) {
  struct Curve {
    const char* name;
    size_t bytes;
    jwt_alg_t algorithm;
  };
  json keys = json::array({EcJwk(ec_, "P-256")});
  std::vector<Signer> signers;
  const std::vector<Curve> curves = {{"P-384", 48, JWT_ALG_ES384}, {"P-521", 66, JWT_ALG_ES512}};
  for (const Curve& curve : curves) {
    signers.push_back(
        MakeKey(folder_, curve.name,
                absl::StrCat("-algorithm EC -pkeyopt ec_paramgen_curve:", curve.name)));
    json key = EcJwk(signers.back(), curve.name);
    key["crv"] = curve.name;
    key["x"] = Encoded(Bytes(signers.back().key.get(), OSSL_PKEY_PARAM_EC_PUB_X, curve.bytes));
    key["y"] = Encoded(Bytes(signers.back().key.get(), OSSL_PKEY_PARAM_EC_PUB_Y, curve.bytes));
    keys.push_back(key);
  }
  PH_ASSERT_OK_AND_ASSIGN(const JwtKeys all, JwtKeys::Parse(json{{"keys", keys}}.dump()));
  EXPECT_EQ(all.size(), 3);
  const json claims = GoodClaims(now_);
  for (size_t i = 0; i < curves.size(); ++i) {
    for (const std::string id : {curves[i].name, ""}) {
      EXPECT_THAT(
          all.Verify(Signed(signers[i].pem, curves[i].algorithm, id, claims), demands_, now_),
          IsOk())
          << curves[i].name;
    }
    EXPECT_THAT(
        all.Verify(Signed(signers[i].pem, curves[i].algorithm, "P-256", claims), demands_, now_),
        StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("no key 'P-256'")));
  }
  // Of two that fit none is meant.
  keys.push_back(EcJwk(ec_, "again"));
  PH_ASSERT_OK_AND_ASSIGN(const JwtKeys two, JwtKeys::Parse(json{{"keys", keys}}.dump()));
  EXPECT_THAT(two.Verify(Signed(ec_.pem, JWT_ALG_ES256, "", claims), demands_, now_),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("no key ''")));
  for (const char* const id : {"P-256", "again"}) {
    EXPECT_THAT(two.Verify(Signed(ec_.pem, JWT_ALG_ES256, id, claims), demands_, now_), IsOk());
  }
  // Whoever demands no issuer takes any.
  const std::string of_another = With("iss", "https://another");
  EXPECT_THAT(Keys().Verify(of_another, {"packhouse", ""}, now_), IsOk());
}

TEST_F(JwtKeysTest, KeysAreBounded) {
  json keys = json::array();
  for (int i = 0; i < 256; ++i) keys.push_back({{"kty", "oct"}});
  keys[255] = EcJwk(ec_, "ec");
  EXPECT_EQ(JwtKeys::Parse(json{{"keys", keys}}.dump())->size(), 1);
  keys.push_back({{"kty", "oct"}});
  EXPECT_THAT(JwtKeys::Parse(json{{"keys", keys}}.dump()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("257 keys, at most 256")));
  json wide = RsaJwk(rsa_, "wide");
  wide["n"] = Encoded("\x01" + std::string(1024, '\xff'));
  EXPECT_THAT(JwtKeys::Parse(json{{"keys", {wide}}}.dump()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("its modulus has 8193 bits, not 2048 to 8192")));
  // For other things than signatures.
  json encrypts = EcJwk(ec_, "encrypts");
  encrypts["use"] = "enc";
  json other = EcJwk(ec_, "other");
  other["alg"] = "ES384";
  for (const json& odd : {encrypts, other}) {
    EXPECT_THAT(JwtKeys::Parse(json{{"keys", {odd}}}.dump()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no key for RS256")));
  }
  json verifies = EcJwk(ec_, "verifies");
  verifies["use"] = "sig";
  verifies["key_ops"] = {"sign", "verify"};
  verifies["alg"] = "ES256";
  EXPECT_THAT(JwtKeys::Parse(json{{"keys", {verifies}}}.dump()), IsOk());
  verifies["key_ops"] = "sign";  // Says nothing: it is no array.
  EXPECT_THAT(JwtKeys::Parse(json{{"keys", {verifies}}}.dump()), IsOk());
}

TEST_F(JwtKeysTest, ForgedTokensAreRefused) {
  const json claims = GoodClaims(now_);
  const std::string good = Signed(rsa_.pem, JWT_ALG_RS256, "rsa", claims);
  const std::vector<std::string> parts = absl::StrSplit(good, '.');
  const auto header = [](const json& said) { return Encoded(said.dump()); };
  const std::string none = header({{"alg", "none"}, {"typ", "JWT"}});

  // No signature.
  EXPECT_THAT(Refusal(absl::StrCat(none, ".", parts[1], ".")), HasSubstr("no key"));
  EXPECT_THAT(Refusal(absl::StrCat(none, ".", parts[1], ".", parts[2])), HasSubstr("no key"));
  EXPECT_THAT(Refusal(absl::StrCat(parts[0], ".", parts[1], ".")), HasSubstr("signature"));
  EXPECT_THAT(Refusal(absl::StrCat(parts[0], ".", parts[1])), HasSubstr("nor a JWT"));
  // The public key as the secret of an HMAC.
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PUBKEY(bio.get(), rsa_.key.get());
  char* pem = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &pem);
  EXPECT_THAT(
      Refusal(Signed(std::string(pem, static_cast<size_t>(size)), JWT_ALG_HS256, "rsa", claims)),
      HasSubstr("no key 'rsa' for the algorithm 'HS256'"));
  // Another's key; another algorithm than the key is for; the wrong key of ours.
  const Signer other = MakeKey(folder_, "other", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048");
  EXPECT_THAT(Refusal(Signed(other.pem, JWT_ALG_RS256, "rsa", claims)), HasSubstr("signature"));
  EXPECT_THAT(Refusal(Signed(rsa_.pem, JWT_ALG_RS512, "rsa", claims)), HasSubstr("no key"));
  EXPECT_THAT(Refusal(Signed(rsa_.pem, JWT_ALG_RS256, "ec", claims)), HasSubstr("no key"));
  // Other claims under a good signature.
  json promoted = claims;
  promoted["sub"] = "admin";
  EXPECT_THAT(Refusal(absl::StrCat(parts[0], ".", Encoded(promoted.dump()), ".", parts[2])),
              HasSubstr("signature"));
  // Extensions that a reader must know.
  EXPECT_THAT(Refusal(absl::StrCat(header({{"alg", "RS256"}, {"kid", "rsa"}, {"crit", {"x"}}}), ".",
                                   parts[1], ".", parts[2])),
              HasSubstr("crit"));
}

TEST_F(JwtKeysTest, NonsenseIsRefused) {
  for (const std::string& token :
       {std::string(), std::string("."), std::string(".."), std::string("..."),
        std::string("a.b.c"), std::string("e30.e30."), std::string("e30.e30.e30"),
        std::string("W10.W10.W10"), std::string(16000, '.'), std::string(16000, 'A'),
        std::string("\0.\0.\0", 5), absl::StrCat(Encoded(std::string(5000, '[')), ".e30.e30")}) {
    EXPECT_THAT(Refusal(token), HasSubstr("refuses the token"));
  }
  // One part that is none is enough.
  for (const char* const token : {"e30.W10.AAAA", "W10.e30.AAAA", "!.e30.AAAA", "e30.!.AAAA"}) {
    EXPECT_EQ(Refusal(token),
              "the server refuses the token: it is no JWT: its parts are not JSON in base64url");
  }
}

TEST_F(JwtKeysTest, AKeyFileThatIsNoneIsRefused) {
  json weak =
      RsaJwk(MakeKey(folder_, "weak", "-algorithm RSA -pkeyopt rsa_keygen_bits:1024"), "weak");
  json off = EcJwk(ec_, "off");
  off["y"] = off["x"];
  json cut = EcJwk(ec_, "cut");
  cut["x"] = "AAAA";
  json bad = RsaJwk(rsa_, "bad");
  bad["n"] = "!";
  json of_two = RsaJwk(rsa_, "of two");
  of_two["e"] = Encoded("\x02");
  json cut_y = EcJwk(ec_, "cut");
  cut_y["y"] = "AAAA";
  const auto without = [](json key, const char* member) {
    key.erase(member);
    return json{{"keys", {std::move(key)}}}.dump();
  };
  for (const auto& [text, why] :
       {std::pair(std::string(""), "no JSON object"),
        std::pair(std::string("[]"), "no JSON object"),
        std::pair(std::string("{}"), "it is no JSON object with an array 'keys'"),
        std::pair(std::string(R"({"keys":{}})"), "array 'keys'"),
        std::pair(std::string(R"({"keys":[]})"), "no key for RS256"),
        std::pair(std::string(R"({"keys":[3]})"), "key 1 '': it is no object"),
        std::pair(json{{"keys", {weak}}}.dump(), "key 1 'weak': its modulus has 1024 bits"),
        std::pair(json{{"keys", {off}}}.dump(), "key 1 'off'"),
        std::pair(json{{"keys", {cut}}}.dump(), "its coordinates have 3 and 32 bytes"),
        std::pair(json{{"keys", {cut_y}}}.dump(),
                  "its coordinates have 32 and 3 bytes, not 32 as on P-256"),
        std::pair(json{{"keys", {of_two}}}.dump(), "key 1 'of two': it is no public key: "),
        std::pair(json{{"keys", {bad}}}.dump(), "'n' is not base64url"),
        std::pair(without(RsaJwk(rsa_, "rsa"), "n"), "key 1 'rsa': 'n' is not base64url"),
        std::pair(without(RsaJwk(rsa_, "rsa"), "e"), "key 1 'rsa': 'e' is not base64url"),
        std::pair(without(EcJwk(ec_, "ec"), "x"), "key 1 'ec': 'x' is not base64url"),
        std::pair(without(EcJwk(ec_, "ec"), "y"), "key 1 'ec': 'y' is not base64url")}) {
    const absl::Status status = JwtKeys::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  // Beside a good one, none of them takes it away, in whichever order they come (RFC 7517, 5).
  json null;
  json encrypts = RsaJwk(rsa_, "encrypts");
  encrypts["key_ops"] = {"encrypt"};
  json koblitz = EcJwk(ec_, "koblitz");
  koblitz["crv"] = "secp256k1";
  const json without_modulus = {{"kty", "RSA"}, {"kid", "x5c"}, {"x5c", {"MIIB"}}};
  const json quantum = {{"kty", "AKP"}, {"alg", "ML-DSA-65"}, {"pub", "AAAA"}};
  for (const json& odd : {weak, off, cut, bad, null, encrypts, koblitz, without_modulus, quantum,
                          json(3), json::array()}) {
    for (const json& keys :
         {json::array({RsaJwk(rsa_, "rsa"), odd}), json::array({odd, RsaJwk(rsa_, "rsa")})}) {
      PH_ASSERT_OK_AND_ASSIGN(const JwtKeys good, JwtKeys::Parse(json{{"keys", keys}}.dump()));
      EXPECT_EQ(good.size(), 1) << odd;
      EXPECT_THAT(good.Verify(Signed(rsa_.pem, JWT_ALG_RS256, "rsa", GoodClaims(now_)),
                              {"packhouse", ""}, now_),
                  IsOk())
          << odd;
    }
  }
  PH_ASSERT_OK_AND_ASSIGN(const JwtKeys good,
                          JwtKeys::Parse(json{{"keys", {weak, RsaJwk(rsa_, "rsa")}}}.dump()));
  EXPECT_THAT(good.left_out(), ::testing::ElementsAre(HasSubstr("key 1 'weak'")));
}

}  // namespace
}  // namespace packhouse::security
