#include "service/access/security/hmac_signer.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/access/security/small_file.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"

namespace packhouse::security {
namespace {

constexpr size_t kSignatureBytes = 16;

absl::StatusOr<std::string> NewKey() {
  std::string key(HmacSigner::kKeyBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) {
    return absl::InternalError("the system gives no random bytes for a key");
  }
  return key;
}

absl::StatusOr<std::string> KeyIn(const std::string& path) {
  PH_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path));
  absl::StripAsciiWhitespace(&text);
  bool is_key = text.size() == 2 * HmacSigner::kKeyBytes;
  for (const char c : text) is_key &= absl::ascii_isxdigit(static_cast<unsigned char>(c));
  if (!is_key) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' is no key of ", 2 * HmacSigner::kKeyBytes, " hexadecimal digits"));
  }
  return absl::HexStringToBytes(text);
}

// The file appears under its name with all that is in it.
absl::Status Write(const std::string& path, const std::string& key) {
  const std::string draft = absl::StrCat(path, ".new");
  const auto write = [&]() -> absl::Status {
    PH_RETURN_IF_ERROR(RemoveAll(draft));
    PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(draft, DiskFile::Mode::kPrivate));
    PH_RETURN_IF_ERROR(file.WriteAt(0, absl::StrCat(absl::BytesToHexString(key), "\n")));
    PH_RETURN_IF_ERROR(file.Sync());
    return RenameDurably(draft, path);
  };
  absl::Status written = write();
  if (!written.ok() && !DiskOutcomeIsUnknown(written)) RemoveAll(draft).IgnoreError();
  return written;
}

absl::Status Refused(absl::string_view purpose, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(purpose, ": ", why));
}

}  // namespace

absl::StatusOr<HmacSigner> HmacSigner::OpenOrMake(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    PH_ASSIGN_OR_RETURN(std::string made, NewKey());
    PH_RETURN_IF_ERROR(Write(path, made));
    return HmacSigner(std::move(made));
  }
  PH_ASSIGN_OR_RETURN(std::string key, KeyIn(path));
  return HmacSigner(std::move(key));
}

absl::Status HmacSigner::CheckKey(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat("there is no '", path, "'"));
  }
  return KeyIn(path).status();
}

absl::StatusOr<HmacSigner> HmacSigner::Temporary() {
  PH_ASSIGN_OR_RETURN(std::string key, NewKey());
  return HmacSigner(std::move(key));
}

std::string HmacSigner::SignatureOf(absl::string_view purpose, absl::string_view text) const {
  const std::string what = absl::StrCat(purpose, absl::string_view("\0", 1), text);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned length = 0;
  HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
       reinterpret_cast<const unsigned char*>(what.data()), what.size(), digest.data(), &length);
  return absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), kSignatureBytes));
}

std::string HmacSigner::Sign(absl::string_view purpose, absl::string_view text) const {
  return absl::StrCat(text, ".", SignatureOf(purpose, text));
}

absl::StatusOr<std::string> HmacSigner::Verify(absl::string_view purpose,
                                               absl::string_view signed_text) const {
  const size_t dot = signed_text.rfind('.');
  if (dot == absl::string_view::npos) {
    return Refused(purpose, "is not signed: this server has not given it");
  }
  const absl::string_view text = signed_text.substr(0, dot);
  const absl::string_view shown = signed_text.substr(dot + 1);
  const std::string good = SignatureOf(purpose, text);
  if (shown.size() != good.size() || CRYPTO_memcmp(shown.data(), good.data(), good.size()) != 0) {
    return Refused(purpose, "its signature is wrong: it was changed, or another server gave it");
  }
  return std::string(text);
}

}  // namespace packhouse::security
