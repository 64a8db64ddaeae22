#include "service/base/listening_sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/execution.h"

namespace packhouse {
namespace {

constexpr absl::string_view kUnix = "unix:";
constexpr int kBacklog = 4096;
// If sent bytes are not acknowledged for this long, the client is gone.
constexpr int kUserTimeoutMs = 20'000;

absl::Status CannotListen(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on '", address, "': ", why));
}

// The socket, or -1 and errno. Connections inherit the options that are set here.
int Listen(int family, const sockaddr* address, socklen_t size, SocketAccess access,
           SocketKind kind) {
  const int type = kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET;
  const int socket = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const int on = 1;
  const int off = 0;
  if (family != AF_UNIX) {
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
  }
  if (family == AF_INET6) ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  // Nobody can connect before listen().
  const bool is_bound =
      ::bind(socket, address, size) == 0 &&
      (access == SocketAccess::kUmask ||
       ::chmod(reinterpret_cast<const sockaddr_un*>(address)->sun_path, S_IRUSR | S_IWUSR) == 0);
  if (is_bound && ::listen(socket, kBacklog) == 0) return socket;
  const int error = errno;
  ::close(socket);
  errno = error;
  return -1;
}

// Whether a process takes connections at a unix socket.
bool IsListening(const sockaddr* address, socklen_t size) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  // EAGAIN: its queue is full. EPROTOTYPE: the socket is of another kind.
  const bool is_listening =
      ::connect(socket, address, size) == 0 || errno == EAGAIN || errno == EPROTOTYPE;
  ::close(socket);
  return is_listening;
}

uint16_t PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void SetPort(sockaddr* address, uint16_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

constexpr int kTriesOfFreePorts = 20;

// All addresses, at one port. Those that this machine does not have are left out.
absl::StatusOr<std::vector<int>> ListenOnAll(const std::string& address, const addrinfo* all,
                                             uint32_t port) {
  std::vector<int> sockets;
  // /etc/hosts may have an address twice. As it is found, with the port that is asked for.
  std::vector<std::string> seen;
  int error = 0;
  for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    std::string found(reinterpret_cast<const char*>(each->ai_addr), each->ai_addrlen);
    if (std::find(seen.begin(), seen.end(), found) != seen.end()) continue;
    seen.push_back(std::move(found));
    SetPort(each->ai_addr, static_cast<uint16_t>(port));
    const int socket = Listen(each->ai_family, each->ai_addr, each->ai_addrlen,
                              SocketAccess::kUmask, SocketKind::kStream);
    if (socket >= 0) {
      sockets.push_back(socket);
      port = PortOf(socket);
      continue;
    }
    error = errno;
    if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) continue;
    // Half of an address is none: clients would come to another server, or to nobody.
    for (const int each_socket : std::exchange(sockets, {})) ::close(each_socket);
    break;
  }
  if (sockets.empty()) return CannotListen(address, std::strerror(error));
  return sockets;
}

// The sockets of the host's addresses, at least one.
absl::StatusOr<std::vector<int>> ListenOnHost(const std::string& address, const std::string& host,
                                              const std::string& port_text) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port_text.c_str(), &hints, &found);
      error != 0) {
    return CannotListen(address, absl::StrCat("the host is not known: ", ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  uint32_t port = 0;
  (void)absl::SimpleAtoi(port_text, &port);
  // A port that is free on one address may be taken on another.
  for (int tries = port == 0 ? kTriesOfFreePorts : 1;; --tries) {
    absl::StatusOr<std::vector<int>> sockets = ListenOnAll(address, found, port);
    if (sockets.ok() || tries == 1) return sockets;
  }
}

// Two servers that start together do not take each other's socket for one that was left behind:
// they look and listen one after the other. Without the lock, the look itself still tells.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Others may lock it for reasons of their own: not for ever.
    for (int tries = 100; folder_ >= 0 && tries > 0; --tries) {
      if (::flock(folder_, LOCK_EX | LOCK_NB) == 0) return;
      Pause(absl::Milliseconds(10));
    }
  }
  ~FolderLock() {
    if (folder_ >= 0) ::close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace

absl::StatusOr<ListeningSockets> ListeningSockets::Open(const std::string& address,
                                                        SocketAccess access, SocketKind kind) {
  ListeningSockets opened(address);
  if (absl::StartsWith(address, kUnix)) {
    const std::string path = address.substr(kUnix.size());
    sockaddr_un local = {};
    local.sun_family = AF_UNIX;
    if (path.size() >= sizeof(local.sun_path)) {
      return CannotListen(address, absl::StrCat("its path has ", path.size(), " bytes, at most ",
                                                sizeof(local.sun_path) - 1));
    }
    path.copy(local.sun_path, path.size());
    const FolderLock lock(path);
    struct stat there = {};
    const auto* const name = reinterpret_cast<const sockaddr*>(&local);
    if (::lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode)) {
      if (IsListening(name, sizeof(local))) {
        return CannotListen(address, "another process listens there");
      }
      ::unlink(path.c_str());
    }
    const int socket = Listen(AF_UNIX, name, sizeof(local), access, kind);
    if (socket < 0) return CannotListen(address, std::strerror(errno));
    opened.sockets_ = {socket};
    opened.path_ = path;
    if (::lstat(path.c_str(), &there) == 0) {
      opened.device_ = there.st_dev;
      opened.inode_ = there.st_ino;
    }
    return opened;
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return CannotListen(address, "the port is missing");
  const std::string host_text = address.substr(0, colon);
  const std::string port_text = address.substr(colon + 1);
  std::string host = host_text;
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  absl::StatusOr<std::vector<int>> sockets = absl::UnavailableError("");
  // An IPv6 socket takes both kinds, if there is IPv6.
  if (host == "0.0.0.0") sockets = ListenOnHost(address, "::", port_text);
  if (!sockets.ok()) sockets = ListenOnHost(address, host, port_text);
  if (!sockets.ok()) return sockets.status();
  opened.sockets_ = *std::move(sockets);
  opened.address_ = absl::StrCat(host_text, ":", PortOf(opened.sockets_.front()));
  return opened;
}

ListeningSockets::ListeningSockets(ListeningSockets&& other) noexcept
    : address_(std::move(other.address_)),
      sockets_(std::exchange(other.sockets_, {})),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

ListeningSockets::~ListeningSockets() { Close(); }

void ListeningSockets::Close() {
  for (const int socket : std::exchange(sockets_, {})) ::close(socket);
  const std::string path = std::exchange(path_, {});
  struct stat there = {};
  // Somebody may have removed the file, and another server may listen there by now.
  if (!path.empty() && ::lstat(path.c_str(), &there) == 0 && there.st_dev == device_ &&
      there.st_ino == inode_) {
    ::unlink(path.c_str());
  }
}

}  // namespace packhouse
