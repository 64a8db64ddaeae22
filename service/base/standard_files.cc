#include "service/base/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace packhouse {

void OpenStandardFiles() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest number that is free: this one, since those below are open.
    if (::fcntl(file, F_GETFD) < 0 && errno == EBADF) (void)!::open("/dev/null", O_RDWR);
  }
}

absl::Status FlushStandardOutput() {
  const bool has_failed = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !has_failed) return absl::OkStatus();
  // What failed earlier did not keep its reason; most often it is this one.
  const int error = errno != 0 ? errno : ENOSPC;
  return absl::UnavailableError(absl::StrCat("cannot write all of stdout: ", std::strerror(error)));
}

}  // namespace packhouse
