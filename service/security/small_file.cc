#include "service/security/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace packhouse::security {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  // A pipe without a writer would hold up the start.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", path, "'"));
  const absl::Cleanup close = [file] { ::close(file); };
  std::string bytes;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t size = ::read(file, buffer.data(), buffer.size());
    if (size == 0) return bytes;
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

}  // namespace packhouse::security
