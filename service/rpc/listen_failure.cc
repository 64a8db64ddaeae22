#include "service/rpc/listen_failure.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace packhouse::rpc {
namespace {

constexpr char kUnix[] = "unix:";

// 0 if it can be bound after all.
int BindError(int family, const sockaddr* address, socklen_t size) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  if (family != AF_UNIX) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = ::bind(fd, address, size) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

std::string Describe(int error) {
  return error == 0 ? "gRPC could not, for a reason of its own" : std::strerror(error);
}

std::string WhyNotUnix(const std::string& path) {
  sockaddr_un local = {};
  local.sun_family = AF_UNIX;
  if (path.size() >= sizeof(local.sun_path)) {
    return absl::StrCat("its path has ", path.size(), " bytes, at most ",
                        sizeof(local.sun_path) - 1);
  }
  path.copy(local.sun_path, path.size());
  const int error = BindError(AF_UNIX, reinterpret_cast<const sockaddr*>(&local), sizeof(local));
  if (error == 0) ::unlink(path.c_str());
  return Describe(error);
}

}  // namespace

std::string WhyNotListen(const std::string& address) {
  if (absl::StartsWith(address, kUnix)) return WhyNotUnix(address.substr(sizeof(kUnix) - 1));
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
      error != 0) {
    return absl::StrCat("the host is not known: ", ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr && error == 0; each = each->ai_next) {
    error = BindError(each->ai_family, each->ai_addr, each->ai_addrlen);
  }
  return Describe(error);
}

}  // namespace packhouse::rpc
