// How many connections there may be, of one client and of all, and where the server listens.
#include "service/rpc/connection_acceptor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/rpc/server_fixture.h"

namespace packhouse::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return port;
}

// A connection by hand, from an address of this machine's.
class Socket {
 public:
  Socket(const std::string& from, int port) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in source = {};
    source.sin_family = AF_INET;
    ::inet_pton(AF_INET, from.c_str(), &source.sin_addr);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&source), sizeof(source)), 0);
    sockaddr_in target = source;
    ::inet_pton(AF_INET, "127.0.0.1", &target.sin_addr);
    target.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<sockaddr*>(&target), sizeof(target)), 0);
  }
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Whether the server says something, as gRPC does first of all; false if it closes.
  bool IsTaken() const {
    char byte = 0;
    return ::recv(descriptor_, &byte, 1, 0) == 1;
  }

 private:
  const int descriptor_;
};

class ConnectionAcceptorTest : public ServerTest {};
INSTANTIATE_TEST_SUITE_P(Transports, ConnectionAcceptorTest, ::testing::Values(Transport::kTcp),
                         TransportName);

TEST_P(ConnectionAcceptorTest, BoundsConnectionsOfAClientAndOfAll) {
  ServerOptions options;
  options.max_connections = 5;
  options.max_connections_per_client = 3;
  StartServer(options);
  const int port = PortOf(server_->address());
  std::vector<std::unique_ptr<Socket>> taken;
  const auto connect = [&](const std::string& from) {
    auto socket = std::make_unique<Socket>(from, port);
    if (!socket->IsTaken()) return false;
    taken.push_back(std::move(socket));
    return true;
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(connect("127.0.0.2"));
  EXPECT_FALSE(connect("127.0.0.2"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(connect("127.0.0.3"));
  EXPECT_FALSE(connect("127.0.0.3"));
  EXPECT_FALSE(connect("127.0.0.4"));
  EXPECT_EQ(server_->num_connections(), 5U);
  // Whoever goes makes room, once gRPC has noticed.
  taken.erase(taken.begin());
  while (server_->num_connections() == 5) std::this_thread::yield();
  EXPECT_TRUE(connect("127.0.0.4"));
  taken.clear();
  while (server_->num_connections() > 0) std::this_thread::yield();
}

// What is full makes room by itself when somebody comes.
TEST_P(ConnectionAcceptorTest, ConnectionsThatAreGoneAreNotCounted) {
  ServerOptions options;
  options.max_connections = 2;
  options.max_connections_per_client = 2;
  StartServer(options);
  const int port = PortOf(server_->address());
  for (int i = 0; i < 50; ++i) {
    while (!Socket("127.0.0.2", port).IsTaken()) std::this_thread::yield();
  }
}

TEST_P(ConnectionAcceptorTest, ADrainTakesNoneAnyMoreAndClosesThePort) {
  StartServer();
  const std::string address = server_->address();
  const auto call = StartPack();
  ASSERT_TRUE(call->stream->Write(OpenSizes(10)));
  v1::PackResponse response;
  ASSERT_TRUE(call->stream->Read(&response));
  std::thread drain([&] { server_->Drain(absl::Hours(1)); });
  // Another one may listen there, while this one's streams go on.
  ServerOptions options;
  options.address = address;
  absl::StatusOr<std::unique_ptr<Server>> next = absl::UnknownError("");
  while (!next.ok()) {
    next = Server::Start(options, &clock_, &observer_, &observer_, nullptr);
    std::this_thread::yield();
  }
  call->stream->WritesDone();
  EXPECT_THAT(Finish(*call->stream), IsOk());
  drain.join();
}

TEST(ListeningSocketsTest, ListensOnEveryAddressOfAHost) {
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets local, ListeningSockets::Open("localhost:0"));
  EXPECT_GE(local.sockets().size(), 1U);
  EXPECT_NE(PortOf(local.address()), 0);
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets all, ListeningSockets::Open("0.0.0.0:0"));
  EXPECT_THAT(all.address(), ::testing::StartsWith("0.0.0.0:"));
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<uint16_t>(PortOf(all.address())));
  ::inet_pton(AF_INET, "127.0.0.1", &target.sin_addr);
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&target), sizeof(target)), 0);
  ::close(client);
}

TEST(ListeningSocketsTest, SaysWhyItCannot) {
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets first, ListeningSockets::Open("127.0.0.1:0"));
  EXPECT_THAT(ListeningSockets::Open(first.address()).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(first.address()), HasSubstr("already in use"))));
  EXPECT_THAT(ListeningSockets::Open("no.such.host.invalid:1").status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the host is not known")));
  EXPECT_THAT(ListeningSockets::Open("unix:/nonexistent/socket").status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("No such file")));
  EXPECT_THAT(ListeningSockets::Open("unix:/" + std::string(200, 'a')).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("at most 107")));
}

TEST(ListeningSocketsTest, ASocketThatWasLeftBehindIsReplacedAndRemovedAtTheEnd) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string path = folder.path() + "/socket";
  sockaddr_un left_behind = {};
  left_behind.sun_family = AF_UNIX;
  path.copy(left_behind.sun_path, path.size());
  const int old = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(old, reinterpret_cast<sockaddr*>(&left_behind), sizeof(left_behind)), 0);
  ::close(old);
  ASSERT_EQ(::access(path.c_str(), F_OK), 0);
  {
    PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets sockets, ListeningSockets::Open("unix:" + path));
    EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace packhouse::rpc
