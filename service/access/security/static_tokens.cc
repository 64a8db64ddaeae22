#include "service/access/security/static_tokens.h"

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
#include "service/access/security/small_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/base/text_characters.h"

namespace packhouse::security {
namespace {

constexpr size_t kLongestPrincipal = 256;

bool IsHash(absl::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_LENGTH &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

// Unicode's category Zs.
bool IsBlank(char32_t character) {
  return character == ' ' || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x202F ||
         character == 0x205F || character == 0x3000;
}

}  // namespace

std::string HashOfToken(absl::string_view token) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

absl::Status CheckPrincipal(absl::string_view name) {
  const auto is_valid = [name] {
    if (name.empty() || name.size() > kLongestPrincipal || !IsUtf8(name)) return false;
    for (absl::string_view rest = name; !rest.empty();) {
      const size_t size = CharacterBytes(rest);
      const char32_t character = CodePointOf(rest.substr(0, size));
      if (IsControl(character) || IsBlank(character)) return false;
      rest.remove_prefix(size);
    }
    return true;
  };
  if (is_valid()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("principal ", Quoted(name), " is not 1 to ", kLongestPrincipal,
                   " bytes of UTF-8 without blanks and control characters"));
}

absl::StatusOr<StaticTokens> StaticTokens::Parse(absl::string_view text) {
  PH_RETURN_IF_ERROR(CheckUtf8(text));
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
  // As a file that is about to be written.
  if (tokens.by_hash_.empty()) return absl::InvalidArgumentError("it has no token");
  return tokens;
}

const Principal* StaticTokens::Find(absl::string_view token) const {
  const auto found = by_hash_.find(HashOfToken(token));
  return found == by_hash_.end() ? nullptr : &found->second;
}

}  // namespace packhouse::security
