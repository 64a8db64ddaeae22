// A file of tokens that are known by their hashes.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_STATIC_TOKENS_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_STATIC_TOKENS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/principal.h"

namespace packhouse::security {

// The SHA-256 of a token, in lower-case hexadecimal.
std::string HashOfToken(absl::string_view token);

// Each line of the file has a principal, blanks, and the hash of a token as sha256sum prints it.
// Empty lines, and what follows a #, are not read. A principal may have several tokens, so that one
// can be replaced by another without a gap. The tokens themselves are in no file of the server. A
// hash is no secret as long as tokens are random; take 32 random bytes. Constant; thread-safe.
class StaticTokens {
 public:
  // INVALID_ARGUMENT naming the line and what is wrong with it; it does not repeat the hash. Also
  // if there is no token at all.
  static absl::StatusOr<StaticTokens> Parse(absl::string_view text);

  // Null if the token is none of them. Takes the same time for every token that is none.
  const Principal* Find(absl::string_view token) const;
  size_t size() const { return by_hash_.size(); }

 private:
  absl::flat_hash_map<std::string, Principal> by_hash_;
};

// 1 to 256 bytes of UTF-8, without blanks and control characters (IsControl). INVALID_ARGUMENT.
absl::Status CheckPrincipal(absl::string_view name);

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_STATIC_TOKENS_H_
