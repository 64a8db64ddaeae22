// How many connections there may be, of one client and of all, and where the server listens.
#include "service/server/listen/connection_acceptor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/server/listen/fixed_windows.h"
#include "service/server/listen/tcp_congestion.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/openssl_command.h"
#include "tests/support/recorded_log.h"

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

  void Send(const std::string& bytes) const {
    // The server may have closed it.
    (void)::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Returns once the server has closed the connection.
  void AwaitEnd() const {
    char bytes[4096];
    while (::recv(descriptor_, bytes, sizeof(bytes), 0) > 0) {
    }
  }

  // Whether the server closes it without a word, before its time for a handshake is over.
  bool IsClosed() const {
    pollfd waiting = {descriptor_, POLLIN, 0};
    char byte = 0;
    return ::poll(&waiting, 1, 10'000) == 1 && ::recv(descriptor_, &byte, 1, 0) == 0;
  }

  // Whether the server says something, as gRPC does first of all; false if it closes.
  bool IsTaken() const {
    char byte = 0;
    return ::recv(descriptor_, &byte, 1, 0) == 1;
  }

 private:
  const int descriptor_;
};

std::string Frame(int type, int flags, int stream, const std::string& payload) {
  std::string frame(9, '\0');
  frame[1] = static_cast<char>(payload.size() >> 8);
  frame[2] = static_cast<char>(payload.size());
  frame[3] = static_cast<char>(type);
  frame[4] = static_cast<char>(flags);
  frame[7] = static_cast<char>(stream >> 8);
  frame[8] = static_cast<char>(stream);
  return frame + payload;
}

// What an HTTP/2 client says first. It never confirms the server's settings.
std::string Opening() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, ""); }

// A call begins: its headers.
std::string Call(int number) {
  std::string block;
  for (const auto& [name, value] :
       {std::pair(":method", "POST"), std::pair(":scheme", "http"), std::pair(":authority", "test"),
        std::pair(":path", "/packhouse.v1.HistogramService/GetHistogram"),
        std::pair("te", "trailers"), std::pair("content-type", "application/grpc")}) {
    for (const std::string text : {name, value}) {
      if (text == name) block += '\0';
      block += static_cast<char>(text.size()) + text;
    }
  }
  return Frame(1, 4, 2 * number + 1, block);
}

// Another client's call, and whether it is answered.
bool IsAnswered(grpc::Channel& channel) {
  grpc::ClientContext context;
  v1::GetHistogramRequest request;
  request.set_histogram("none");
  v1::GetHistogramResponse response;
  const auto stub = v1::HistogramService::NewStub(
      std::shared_ptr<grpc::Channel>(&channel, [](grpc::Channel*) {}));
  return stub->GetHistogram(&context, request, &response).error_code() ==
         grpc::StatusCode::NOT_FOUND;
}

class ConnectionAcceptorTest : public ServerTest {
 protected:
  // It uses the log until it has ended.
  void TearDown() override { server_.reset(); }

  RecordedLog lines_;
  LimitedLog failures_{&lines_, [this] { return clock_.Now(); }};
};
INSTANTIATE_TEST_SUITE_P(Transports, ConnectionAcceptorTest, ::testing::Values(Transport::kTcp),
                         TransportName);

TEST_P(ConnectionAcceptorTest, BoundsConnectionsOfAClientAndOfAll) {
  ServerOptions options;
  options.log.failures = &failures_;
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
  EXPECT_THAT(lines_.lines(),
              ::testing::Contains(
                  AllOf(HasSubstr(R"(warning "event":"connection refused","client":"127.0.0.2",)"),
                        HasSubstr("--max-connections-per-client"))));
  EXPECT_EQ(server_->num_connections(), 5U);
  // A connection that ends makes room as soon as gRPC has noticed.
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

// gRPC's own bound on the calls of a connection binds only clients that confirm it.
TEST_P(ConnectionAcceptorTest, AConnectionWithTooManyCallsEnds) {
  ServerOptions options;
  options.log.failures = &failures_;
  options.max_streams_per_connection = 10;
  StartServer(options);
  const Socket client("127.0.0.2", PortOf(server_->address()));
  client.Send(Opening());
  constexpr int kMost = 2 * 10 + 64;
  for (int number = 0; number < kMost; ++number) client.Send(Call(number));
  EXPECT_TRUE(client.IsTaken());
  EXPECT_TRUE(IsAnswered(*channel_));
  client.Send(Call(kMost));
  client.AwaitEnd();
  EXPECT_TRUE(IsAnswered(*channel_));
  lines_.Await(
      R"(warning "event":"connection ended","client":"127.0.0.2","message":"more than 84)");
}

TEST_P(ConnectionAcceptorTest, AConnectionThatCancelsItsCallsAtOnceEnds) {
  ServerOptions options;
  options.max_streams_per_connection = 10;
  StartServer(options);
  const Socket client("127.0.0.2", PortOf(server_->address()));
  client.Send(Opening());
  std::thread sender([&] {
    for (int number = 0; number < 10'000; ++number) {
      client.Send(Call(number) + Frame(3, 0, 2 * number + 1, std::string("\0\0\0\x08", 4)));
    }
  });
  client.AwaitEnd();
  sender.join();
  EXPECT_TRUE(IsAnswered(*channel_));
}

// A client with more calls than a connection may have keeps some at its side.
TEST_P(ConnectionAcceptorTest, CallsOneAfterAnotherMayBeMany) {
  for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
    SCOPED_TRACE(address);
    ServerOptions options;
    options.address = address;
    options.max_streams_per_connection = 2;
    auto server = Server::Start(options, &clock_, &observer_, &observer_, nullptr);
    if (!server.ok() && address[0] == '[') continue;  // A machine without IPv6.
    ASSERT_THAT(server.status(), IsOk());
    const auto channel =
        grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials());
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 8; ++caller) {
      callers.emplace_back([&] {
        for (int i = 0; i < 50; ++i) EXPECT_TRUE(IsAnswered(*channel));
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ((*server)->num_connections(), 1U);
  }
}

// Memory is put by for all calls that all connections may have.
TEST(ServerBoundsTest, ConnectionsFollowFromTheBudget) {
  constexpr uint64_t kOfEach = (64 * 18 + 20) << 10;
  ServerOptions options;
  options.memory_budget = uint64_t{4} << 30;
  PH_ASSERT_OK_AND_ASSIGN(ServerBounds bounds, ServerBounds::Of(options));
  EXPECT_EQ(bounds.connections.most, ((options.memory_budget / 8) + (96 << 20)) / kOfEach);
  EXPECT_EQ(bounds.connections.most_of_client, bounds.connections.most / 2);
  EXPECT_GE(bounds.connections.most_of_client, 64U);
  // What is put by is not given away a second time.
  EXPECT_LE(4 * bounds.shares.working_bytes + bounds.connections.most * kOfEach,
            options.memory_budget + (96 << 20));

  options.memory_budget = uint64_t{512} << 20;
  PH_ASSERT_OK_AND_ASSIGN(bounds, ServerBounds::Of(options));
  EXPECT_EQ(bounds.connections.most, (96 << 20) / kOfEach);
  options.max_connections = 100;
  EXPECT_THAT(
      ServerBounds::Of(options).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("--memory-budget: 536870912"), HasSubstr("--max-connections"),
                     HasSubstr("--max-streams-per-connection"),
                     HasSubstr(absl::StrCat("at least ", (uint64_t{416} << 20) + 100 * kOfEach)))));
  options.max_streams_per_connection = 20;
  EXPECT_THAT(ServerBounds::Of(options).status(), IsOk());
}

// Others may have the socket, such as an older server that is still about to end.
TEST_P(ConnectionAcceptorTest, AServerMayLackItsSocketForAdministrators) {
  ServerOptions options;
  options.log.failures = &failures_;
  options.admin_address = "unix:/nowhere/at/all/admin.sock";
  const auto refused = Server::Start(options, &clock_, &observer_, &observer_, nullptr).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/nowhere/at/all")));
  options.may_lack_admin_address = true;
  StartServer(options);
  EXPECT_EQ(server_->admin_address(), "");
  EXPECT_TRUE(IsAnswered(*channel_));
  ASSERT_FALSE(lines_.lines().empty());
  EXPECT_EQ(lines_.lines()[0], R"(warning "event":"no socket for administrators","message":")"
                               "cannot listen on 'unix:/nowhere/at/all/admin.sock': "
                               R"(No such file or directory")");
}

TEST(ServerBoundsTest, CallsFollowFromThoseThatMayBeAtWork) {
  ServerOptions options;
  options.memory_budget = uint64_t{1} << 44;
  options.admission = {.max_streams = 10, .max_calls = 21};
  options.max_health_watches = 9;
  options.max_streams_per_connection = 3;
  PH_ASSERT_OK_AND_ASSIGN(ServerBounds bounds, ServerBounds::Of(options));
  EXPECT_EQ(bounds.connections.most, 2048U);
  EXPECT_EQ(bounds.connections.most_of_client, 1024U);
  EXPECT_EQ(bounds.watches.most, 9U);
  EXPECT_EQ(bounds.watches.most_of_client, 4U);
  EXPECT_EQ(bounds.open_calls.most, 10U + 21 + 9 + 256);
  EXPECT_EQ(bounds.open_calls.most_of_client, 5U + 10 + 4 + 128);
  EXPECT_EQ(bounds.calls_of_connection, 3U);
  EXPECT_EQ(bounds.connection_calls.most_open, 2U * 3 + 64);
  EXPECT_EQ(bounds.connection_calls.most_wasted, 2U * 3 + 64);
  options.admission.max_streams_per_client = 7;
  options.admission.max_calls_per_client = 8;
  options.max_connections = 1;
  PH_ASSERT_OK_AND_ASSIGN(bounds, ServerBounds::Of(options));
  EXPECT_EQ(bounds.open_calls.most_of_client, 7U + 8 + 4 + 128);
  EXPECT_EQ(bounds.connections.most_of_client, 1U);
  // A batch fits a message, with the ids and sizes of its graphs.
  options.max_message_bytes = 16 << 20;
  options.streams.max_graphs_per_batch = uint64_t{1} << 40;
  StreamBounds streams = StreamBoundsOf(options, nullptr);
  EXPECT_EQ(streams.max_graphs_per_batch, (2U << 20) / (8 + 16 * 4));
  EXPECT_EQ(streams.max_batch_bytes, (14U << 20) - (1 << 20));
  options.streams.max_graphs_per_batch = 5;
  streams = StreamBoundsOf(options, nullptr);
  EXPECT_EQ(streams.max_graphs_per_batch, 5U);
}

// Half of a message of the least size is for what stands beside a batch.
TEST(ServerBoundsTest, MessagesHaveAtLeastTwoMebibytesAndAByte) {
  ServerOptions options;
  options.max_message_bytes = 2 << 20;
  EXPECT_THAT(ServerBounds::Of(options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_message_bytes: 2097152, must be above 2097152")));
  ++options.max_message_bytes;
  EXPECT_THAT(ServerBounds::Of(options).status(), IsOk());
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

// Who has connected and not yet said who it is: a stream that goes on does not let it in.
TEST_P(ConnectionAcceptorTest, ADrainEndsConnectionsThatBegin) {
  MakeCertificate(folder_.path(), "server");
  const std::string certificate = ReadText(folder_.path() + "/server.crt");
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({ReadText(folder_.path() + "/server.key"), certificate});
  ServerOptions options;
  options.credentials = grpc::SslServerCredentials(tls);
  StartServer(options);
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("server");
  channel_ = grpc::CreateCustomChannel(server_->address(),
                                       grpc::SslCredentials({certificate, "", ""}), arguments);
  const auto call = StartPack();
  ASSERT_TRUE(call->stream->Write(OpenSizes(10)));
  v1::PackResponse response;
  ASSERT_TRUE(call->stream->Read(&response));
  const Socket silent("127.0.0.2", PortOf(server_->address()));
  while (server_->num_connections() != 2) std::this_thread::yield();
  std::thread drain([&] { server_->Drain(absl::Hours(1)); });
  EXPECT_TRUE(silent.IsClosed());
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

TEST(TcpCongestionTest, IsSetWhereThePortIsListenedOn) {
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets sockets, ListeningSockets::Open("127.0.0.1:0"));
  const auto algorithm_of = [](const ListeningSockets& of) {
    char text[64] = "";
    socklen_t size = sizeof(text);
    EXPECT_EQ(::getsockopt(of.sockets().front(), IPPROTO_TCP, TCP_CONGESTION, text, &size), 0);
    return std::string(text);
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(SetTcpCongestion(sockets.address(), "reno"), IsOk());
  EXPECT_EQ(algorithm_of(sockets), "reno");
  EXPECT_THAT(SetTcpCongestion(sockets.address(), "none such"),
              StatusIs(invalid, HasSubstr("'none such': ")));
  for (const char* address : {"unix:/socket", "nowhere"}) {
    EXPECT_THAT(SetTcpCongestion(address, "reno"), StatusIs(invalid, HasSubstr("is not TCP")));
  }
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

// A server with a smaller share of memory must not take the windows of one before it.
// tests/abuse/scenarios/memory.py has what connections are told.
TEST(FixedWindowsTest, AProcessHasWindowsOfOneSize) {
  const bool are_small = FixWindows(65536);
  EXPECT_FALSE(are_small && FixWindows(1 << 20));
  EXPECT_EQ(FixWindows(65536), are_small);
}

}  // namespace
}  // namespace packhouse::rpc
