#include "service/access/security/file_authenticator.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "service/access/security/small_file.h"
#include "service/base/status_macros.h"

namespace packhouse::security {
namespace {

// gRPC takes 8 KiB of headers; a longer token does not come this far.
constexpr size_t kLongestToken = 16384;

absl::Status Named(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("'", path, "': ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileAuthenticator>> FileAuthenticator::Open(Options options,
                                                                           Now now) {
  auto opened =
      std::unique_ptr<FileAuthenticator>(new FileAuthenticator(std::move(options), std::move(now)));
  for (Reloadable* const part : {opened->tokens(), opened->keys()}) {
    if (part != nullptr) PH_RETURN_IF_ERROR(part->Reload().status());
  }
  return opened;
}

absl::StatusOr<bool> FileAuthenticator::ReadTokens(RestingFile& resting, bool is_asked) {
  PH_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(options_.token_file));
  if (!resting.IsAtRest(text) && !is_asked) return false;
  {
    absl::MutexLock lock(&mutex_);
    if (static_tokens_ != nullptr && text == token_text_) return false;
  }
  absl::StatusOr<StaticTokens> tokens = StaticTokens::Parse(text);
  if (!tokens.ok()) return Named(options_.token_file, tokens.status());
  absl::MutexLock lock(&mutex_);
  static_tokens_ = std::make_shared<const StaticTokens>(*std::move(tokens));
  token_text_ = std::move(text);
  return true;
}

absl::StatusOr<bool> FileAuthenticator::ReadKeys(RestingFile& resting, bool is_asked) {
  PH_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(options_.jwks_file));
  if (!resting.IsAtRest(text) && !is_asked) return false;
  {
    absl::MutexLock lock(&mutex_);
    if (jwt_keys_ != nullptr && text == key_text_) return false;
  }
  absl::StatusOr<JwtKeys> keys = JwtKeys::Parse(text);
  if (!keys.ok()) return Named(options_.jwks_file, keys.status());
  absl::MutexLock lock(&mutex_);
  jwt_keys_ = std::make_shared<const JwtKeys>(*std::move(keys));
  key_text_ = std::move(text);
  known_.clear();
  return true;
}

std::string FileAuthenticator::NoteOnKeys() const {
  absl::MutexLock lock(&mutex_);
  if (jwt_keys_ == nullptr || jwt_keys_->left_out().empty()) return "";
  return absl::StrCat("left out: ", absl::StrJoin(jwt_keys_->left_out(), "; "));
}

absl::StatusOr<Principal> FileAuthenticator::Authenticate(
    const CallCredentials& credentials) const {
  if (!credentials.authorization.empty() && options_.has_token_sources()) {
    return AuthenticateToken(credentials.authorization);
  }
  if (credentials.has_certificate) {
    if (!credentials.certificate_names.empty() &&
        CheckPrincipal(credentials.certificate_names.front()).ok()) {
      return credentials.certificate_names.front();
    }
    return absl::UnauthenticatedError(
        "the server refuses the client's certificate: it has no subject alternative name of a URI, "
        "a host or an e-mail address");
  }
  if (!options_.takes_certificates && !options_.has_token_sources()) return Principal();
  return absl::UnauthenticatedError(
      absl::StrCat("the server refuses the call: it has shown no ", Wanted()));
}

absl::StatusOr<Principal> FileAuthenticator::AuthenticateToken(
    absl::string_view authorization) const {
  const size_t blank = authorization.find(' ');
  if (blank == absl::string_view::npos ||
      !absl::EqualsIgnoreCase(authorization.substr(0, blank), "bearer")) {
    return absl::UnauthenticatedError(
        "the server refuses the call: 'authorization' is not one 'Bearer TOKEN'");
  }
  const std::string token(absl::StripPrefix(authorization.substr(blank), " "));
  if (token.empty() || token.size() > kLongestToken) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the server refuses the token: it has ", token.size(), " bytes, not 1 to ", kLongestToken));
  }
  std::shared_ptr<const StaticTokens> known;
  {
    absl::MutexLock lock(&mutex_);
    known = static_tokens_;
  }
  if (known != nullptr) {
    if (const Principal* const found = known->Find(token)) return *found;
  }
  if (options_.jwks_file.empty()) {
    return absl::UnauthenticatedError("the server refuses the token: it is not one that it knows");
  }
  return VerifyJwt(token);
}

absl::StatusOr<Principal> FileAuthenticator::VerifyJwt(const std::string& token) const {
  const absl::Time now = now_();
  std::string hash = HashOfToken(token);
  std::shared_ptr<const JwtKeys> keys;
  {
    absl::MutexLock lock(&mutex_);
    keys = jwt_keys_;
    const auto found = known_.find(hash);
    if (found != known_.end() && now < found->second.expires) return found->second.subject;
  }
  PH_ASSIGN_OR_RETURN(VerifiedJwt verified, keys->Verify(token, options_.jwt, now));
  absl::MutexLock lock(&mutex_);
  // Only holders of good tokens can fill it; then it is filled anew.
  if (known_.size() >= kMostKnown) known_.clear();
  // Keys that came meanwhile may not know it.
  if (keys == jwt_keys_) known_[std::move(hash)] = verified;
  return verified.subject;
}

std::string FileAuthenticator::Wanted() const {
  if (!options_.has_token_sources()) return "certificate";
  return options_.takes_certificates ? "certificate and no bearer token" : "bearer token";
}

}  // namespace packhouse::security
