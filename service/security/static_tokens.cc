#include "service/security/static_tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse::security {
namespace {

constexpr size_t kLongestPrincipal = 256;

bool IsHash(absl::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_LENGTH &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

}  // namespace

std::string HashOfToken(absl::string_view token) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

absl::Status CheckPrincipal(absl::string_view name) {
  const bool valid = !name.empty() && name.size() <= kLongestPrincipal &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return static_cast<unsigned char>(c) > ' ' && c != 0x7f;
                     });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("principal ", Quoted(name), " is not 1 to ", kLongestPrincipal,
                   " characters without blanks and control characters"));
}

absl::StatusOr<StaticTokens> StaticTokens::Parse(absl::string_view text) {
  StaticTokens tokens;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const auto wrong = [number](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", what));
    };
    if (words.size() != 2) return wrong("it is not a principal and the hash of a token");
    if (const absl::Status status = CheckPrincipal(words[0]); !status.ok()) {
      return wrong(status.message());
    }
    if (!IsHash(words[1])) {
      return wrong("its second word is not a SHA-256 in hexadecimal, 64 digits");
    }
    if (!tokens.by_hash_.emplace(absl::AsciiStrToLower(words[1]), words[0]).second) {
      return wrong("its token is in an earlier line too");
    }
  }
  return tokens;
}

const Principal* StaticTokens::Find(absl::string_view token) const {
  const auto found = by_hash_.find(HashOfToken(token));
  return found == by_hash_.end() ? nullptr : &found->second;
}

}  // namespace packhouse::security
