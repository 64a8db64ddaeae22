#include "service/server/listen/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/steady_waits.h"
#include "service/server/calls/connection_calls.h"

namespace packhouse::rpc {
namespace {

// Time to the next try after an accept failed for lack of descriptors or memory.
constexpr int kRetryMs = 10;

// The peer as gRPC names it (client_identity.h).
std::string PeerOf(int descriptor) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  std::array<char, INET6_ADDRSTRLEN> text = {};
  switch (address.ss_family) {
    case AF_INET: {
      const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
      ::inet_ntop(AF_INET, &ipv4.sin_addr, text.data(), text.size());
      return absl::StrCat("ipv4:", text.data(), ":", ntohs(ipv4.sin_port));
    }
    case AF_INET6: {
      const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
      if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
        ::inet_ntop(AF_INET, &ipv6.sin6_addr.s6_addr[12], text.data(), text.size());
        return absl::StrCat("ipv4:", text.data(), ":", ntohs(ipv6.sin6_port));
      }
      ::inet_ntop(AF_INET6, &ipv6.sin6_addr, text.data(), text.size());
      const std::string zone = ipv6.sin6_scope_id == 0 ? "" : absl::StrCat("%", ipv6.sin6_scope_id);
      return absl::StrCat("ipv6:[", text.data(), zone, "]:", ntohs(ipv6.sin6_port));
    }
    default:
      return "unix:";
  }
}

// nullopt if the descriptor is no socket, or is closed.
std::optional<uint64_t> SocketOf(int descriptor) {
  struct stat there = {};
  if (::fstat(descriptor, &there) != 0 || !S_ISSOCK(there.st_mode)) return std::nullopt;
  return there.st_ino;
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(ListeningSockets sockets, const FairBound::Bounds& bounds,
                                       const ClientIdentity* identity, LimitedLog* log)
    : sockets_(std::move(sockets)),
      identity_(identity),
      log_(log),
      bound_("connections", "--max-connections, --max-connections-per-client", bounds) {}

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

void ConnectionAcceptor::Start(std::unique_ptr<Acceptor> acceptor) {
  acceptor_ = std::move(acceptor);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = Thread([this] { Run(); });
}

void ConnectionAcceptor::Stop() {
  if (!thread_.is_begun()) return;
  const uint64_t one = 1;
  while (::write(wake_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.Join();
  ::close(wake_);
  sockets_.Close();
}

size_t ConnectionAcceptor::num_connections() {
  absl::MutexLock lock(&mutex_);
  DropClosed();
  return connections_.size();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> watched = {{wake_, POLLIN, 0}};
  for (const int listener : sockets_.sockets()) watched.push_back({listener, POLLIN, 0});
  for (;;) {
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched.front().revents != 0) return;
    for (size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0 || AcceptOne(watched[i].fd)) continue;
      // Otherwise the socket would be ready again at once.
      if (::poll(watched.data(), 1, kRetryMs) > 0) return;
    }
  }
}

bool ConnectionAcceptor::AcceptOne(int listener) {
  const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (!Admit(descriptor)) {
    ::close(descriptor);
    return true;
  }
  Acceptor::NewConnectionParameters connection;
  connection.fd = descriptor;
  acceptor_->HandleNewConnection(&connection);
  return true;
}

bool ConnectionAcceptor::Admit(int descriptor) {
  try {
    const std::string peer = PeerOf(descriptor);
    const ClientId client = identity_->Of(peer);
    const absl::Status entered = Enter(descriptor, peer, client);
    if (!entered.ok()) Log("connection refused", client, entered);
    return entered.ok();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

absl::Status ConnectionAcceptor::Enter(int descriptor, const std::string& peer,
                                       const ClientId& client) {
  const std::optional<uint64_t> socket = SocketOf(descriptor);
  if (!socket) return absl::InternalError("not a socket");
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(CheckBarred(client));
  absl::StatusOr<FairBound::Place> place = bound_.Enter(client);
  if (const absl::Time now = SteadyTime(); !place.ok() && now >= next_look_) {
    DropClosed();
    next_look_ = SteadyTime() + 10 * (SteadyTime() - now);
    place = bound_.Enter(client);
  }
  PH_RETURN_IF_ERROR(place.status());
  connections_.push_back({descriptor, *socket, ConnectionCalls::NameOf(peer), *std::move(place)});
  return absl::OkStatus();
}

void ConnectionAcceptor::DropClosed() {
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(),
                                    [](const Connection& connection) {
                                      return SocketOf(connection.descriptor) != connection.socket;
                                    }),
                     connections_.end());
}

absl::Status ConnectionAcceptor::CheckBarred(const ClientId& client) {
  const auto found = barred_until_.find(client);
  if (found == barred_until_.end()) return absl::OkStatus();
  if (SteadyTime() >= found->second) {
    barred_until_.erase(found);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("a connection of client '", client, "' has just been ended"));
}

void ConnectionAcceptor::End(const std::string& name, const absl::Status& why) {
  const ClientId client = identity_->Of(name);
  {
    absl::MutexLock lock(&mutex_);
    // Those that have not come back are not kept.
    if (barred_until_.size() > connections_.size()) barred_until_.clear();
    barred_until_[client] = SteadyTime() + kBarred;
    for (const Connection& connection : connections_) {
      if (connection.name != name) continue;
      // gRPC may close its descriptor meanwhile, and the number may become another one's. A
      // duplicate stays what it is.
      const int descriptor = ::fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0);
      if (descriptor < 0) continue;
      if (SocketOf(descriptor) == connection.socket) ::shutdown(descriptor, SHUT_RDWR);
      ::close(descriptor);
    }
  }
  Log("connection ended", client, why);
}

void ConnectionAcceptor::Log(absl::string_view event, const ClientId& client,
                             const absl::Status& why) {
  if (log_ == nullptr) return;
  log_->Log(absl::StrCat(event, " ", client), LogLevel::kWarning, event,
            {{"client", client}, LogField::Message(why.message())});
}

}  // namespace packhouse::rpc
