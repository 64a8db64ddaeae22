#include "service/access/security/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/base/text_characters.h"

namespace packhouse::security {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  // A pipe without a writer would hold up the start.
  int file = -1;
  do {
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (file < 0 && errno == EINTR);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", path, "'"));
  const absl::Cleanup close = [file] { ::close(file); };
  std::string bytes;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t size = ::read(file, buffer.data(), buffer.size());
    if (size == 0) return std::string(absl::StripPrefix(bytes, "\xEF\xBB\xBF"));
    if (size < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read '", path, "'"));
    }
    bytes.append(buffer.data(), static_cast<size_t>(size));
    if (bytes.size() > kMostFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' has more than ", kMostFileBytes, " bytes"));
    }
  }
}

absl::Status CheckUtf8(absl::string_view text) {
  size_t line = 0;
  for (const absl::string_view each : absl::StrSplit(text, '\n')) {
    ++line;
    if (absl::StrContains(each, '\0') || !IsUtf8(each)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", line, ": it is not UTF-8"));
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse::security
