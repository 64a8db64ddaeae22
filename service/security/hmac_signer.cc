#include "service/security/hmac_signer.h"

#include <fcntl.h>
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
#include "service/base/status_macros.h"
#include "service/security/small_file.h"

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

absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", folder, "'"));
  const int synced = ::fsync(opened);
  const int error = errno;
  ::close(opened);
  if (synced == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("cannot sync '", folder, "'"));
}

// The file appears under its name with all that is in it.
absl::Status Write(const std::string& path, const std::string& key) {
  const std::string text = absl::StrCat(absl::BytesToHexString(key), "\n");
  const std::string draft = absl::StrCat(path, ".new");
  const auto failed = [&](absl::string_view what, int error) {
    ::unlink(draft.c_str());
    return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " '", draft, "'"));
  };
  ::unlink(draft.c_str());
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return failed("make", errno);
  const bool is_written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  if (!is_written) return failed("write", error);
  if (::rename(draft.c_str(), path.c_str()) != 0) return failed("rename", errno);
  return SyncFolderOf(path);
}

absl::Status Refused(absl::string_view purpose, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(purpose, ": ", why));
}

}  // namespace

absl::StatusOr<HmacSigner> HmacSigner::OpenOrMake(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    PH_ASSIGN_OR_RETURN(const std::string made, NewKey());
    PH_RETURN_IF_ERROR(Write(path, made));
  }
  PH_ASSIGN_OR_RETURN(std::string key, KeyIn(path));
  return HmacSigner(std::move(key));
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
