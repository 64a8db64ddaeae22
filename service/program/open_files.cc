#include "service/program/open_files.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace packhouse {
namespace {

// Stores, sockets and event loops take some 40; the others are for clients.
constexpr rlim_t kLeastFiles = 64;

}  // namespace

absl::Status RaiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the limit of open files cannot be read: ", std::strerror(errno)));
  }
  limit.rlim_cur = limit.rlim_max;
  // More than the kernel allows is refused: then it stays as it was.
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= kLeastFiles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("at most ", limit.rlim_cur, " files may be open (ulimit -n), at least ",
                   kLeastFiles, " are needed; a connection takes one"));
}

}  // namespace packhouse
