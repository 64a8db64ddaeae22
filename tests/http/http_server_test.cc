#include "service/server/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/http/host_port.h"
#include "tests/http/http_connection.h"
#include "tests/support/status_matchers.h"

namespace packhouse::http {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// "/count" is rendered as "count 1!", "count 2!", ...; "/ok" as "ok.".
class HttpServerTest : public testing::Test {
 protected:
  std::unique_ptr<HttpServer> Start(const HttpBounds& bounds = {},
                                    const std::string& address = "127.0.0.1:0") {
    std::vector<Route> routes = {
        {"/ok", [] { return Page{.body = "ok."}; }},
        {"/busy", [] { return Page{.status = 503, .body = "busy."}; }},
        {"/count", [this] { return Page{.body = absl::StrCat("count ", ++count_, "!")}; }}};
    auto server = HttpServer::Start(address, std::move(routes), bounds);
    EXPECT_THAT(server, IsOk());
    return *std::move(server);
  }

  std::atomic<int> count_ = 0;
};

TEST_F(HttpServerTest, AnswersManyRequestsOnOneConnection) {
  const auto server = Start();
  const HttpConnection connection(server->address());
  EXPECT_THAT(connection.Ask("/ok", "ok."),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\r\nContent-Length: 3\r\n"),
                    HasSubstr("Cache-Control: no-store"), EndsWith("\r\n\r\nok.")));
  EXPECT_THAT(connection.Ask("/ok?a=b", "ok."), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(connection.Ask("/busy", "busy."), StartsWith("HTTP/1.1 503 "));
  // The length of what GET would give, and nothing behind the head.
  EXPECT_THAT(connection.Ask("/ok", "\r\n\r\n", "HEAD"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\r\nContent-Length: 3\r\n")));
  for (const char* path : {"/", "/okay", "/ok/", "/etc/passwd", "/../ok", "/%00"}) {
    EXPECT_THAT(connection.Ask(path, "no such page\n"), StartsWith("HTTP/1.1 404 ")) << path;
  }
  // A page is as new as its request.
  for (int i = 1; i <= 10; ++i) {
    EXPECT_THAT(connection.Ask("/count", "!"), EndsWith(absl::StrCat("count ", i, "!")));
  }
  // What comes behind a head is not looked at.
  EXPECT_TRUE(connection.Send("GET /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"));
  EXPECT_THAT(connection.ReadUntil("ok."), StartsWith("HTTP/1.1 200 "));
  // Two requests in one segment: two answers.
  EXPECT_TRUE(
      connection.Send("GET /ok HTTP/1.1\r\nHost: h\r\n\r\nGET /busy HTTP/1.1\r\nHost: h\r\n"
                      "Connection: close\r\n\r\n"));
  EXPECT_THAT(connection.ReadAll(), AllOf(HasSubstr("ok."), EndsWith("busy.")));
}

// Nobody is left without a word, however long a target is and whatever it consists of.
TEST_F(HttpServerTest, EveryTargetGetsAnAnswer) {
  const auto server = Start();
  for (const std::string piece : {"a=1&", "&", "a&", "%41=%42&", "x", "=", "?"}) {
    for (const size_t bytes : {1u, 200u, 252u, 256u, 260u, 1000u, 4000u, 7000u, 9000u, 40000u}) {
      std::string query;
      while (query.size() < bytes) query += piece;
      const HttpConnection connection(server->address());
      const std::string answer = connection.Ask(absl::StrCat("/ok?", query), "\r\n");
      const auto num_ends = std::count(query.begin(), query.end(), '&');
      const std::string expected = query.size() > 16384 ? "HTTP/1.1 4"
                                   : num_ends < 64      ? "HTTP/1.1 200 "
                                                        : "HTTP/1.1 414 ";
      EXPECT_THAT(answer, StartsWith(expected)) << query.size() << " bytes of " << piece;
    }
  }
}

TEST_F(HttpServerTest, RefusesOtherMethods) {
  const auto server = Start();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "NONSENSE"}) {
    const HttpConnection connection(server->address());
    EXPECT_THAT(connection.Ask("/ok", "only\n", method),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")))
        << method;
  }
}

// Who asks is decided before a page is made, also for pages that do not exist; free ones are for
// everybody.
TEST_F(HttpServerTest, LetsInWhomItsDoorkeeperLetsIn) {
  HttpSecurity security;
  security.admit = [](const Caller& caller, const Request& request) -> Admission {
    EXPECT_EQ(caller.address, "127.0.0.1");
    if (request.authorization.empty()) return {401, "", "who is it?"};
    if (request.path == "/secret") return {403, "", "not this"};
    return {200, request.authorization, ""};
  };
  std::vector<Route> routes = {
      {.path = "/free", .render = [] { return Page{.body = "free."}; }, .is_free = true},
      {.path = "/shared", .render = [] { return Page{.body = "shared."}; }},
      {.path = "/secret", .render = [] { return Page{.body = "secret."}; }},
      {.path = "/who",
       .answer =
           [](const Request& request) {
             return Page{.body = absl::StrCat(request.principal, " asks ", request.query, "."),
                         .headers = {{"Cache-Control", "private"}}};
           }},
  };
  const auto started =
      HttpServer::Start("127.0.0.1:0", std::move(routes), HttpBounds(), std::move(security));
  ASSERT_THAT(started, IsOk());
  const HttpConnection connection((*started)->address());
  EXPECT_THAT(connection.Ask("/free", "free."), StartsWith("HTTP/1.1 200 "));
  for (const char* path : {"/shared", "/secret", "/who", "/nothing", "/free/"}) {
    EXPECT_THAT(connection.Ask(path, "who is it?\n"),
                AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("WWW-Authenticate: Bearer\r\n")))
        << path;
  }
  const auto ask_as_alice = [&](const std::string& path, const std::string& end) {
    EXPECT_TRUE(connection.Send(
        absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: h\r\nAuthorization: alice\r\n\r\n")));
    return connection.ReadUntil(end);
  };
  EXPECT_THAT(ask_as_alice("/shared", "shared."), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask_as_alice("/secret", "not this\n"),
              AllOf(StartsWith("HTTP/1.1 403 "), Not(HasSubstr("WWW-Authenticate"))));
  EXPECT_THAT(ask_as_alice("/nothing", "no such page\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask_as_alice("/who?a=b&c=%20?", "?."),
              AllOf(EndsWith("\r\n\r\nalice asks a=b&c=%20?."), HasSubstr("Cache-Control: private"),
                    Not(HasSubstr("no-store"))));
  EXPECT_THAT(ask_as_alice("/who", "asks ."), EndsWith("alice asks ."));
  // The next request on the connection is another one.
  EXPECT_THAT(connection.Ask("/who", "who is it?\n"), StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpServerTest, EndsAnHttp10Connection) {
  const auto server = Start();
  const HttpConnection connection(server->address());
  EXPECT_TRUE(connection.Send("GET /ok HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(connection.ReadAll(), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("ok.")));
}

TEST_F(HttpServerTest, AHeadWithoutEndIsRefused) {
  const auto server = Start();
  const HttpConnection connection(server->address());
  EXPECT_TRUE(connection.Send("GET /ok HTTP/1.1\r\nHost: h\r\n"));
  while (connection.Send(absl::StrCat("X-More: ", std::string(1000, 'x'), "\r\n"))) {
  }
  EXPECT_THAT(connection.ReadAll(), Not(HasSubstr("ok.")));
}

TEST_F(HttpServerTest, ServesIpv6) {
  const int fd = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 loopback = {};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool has_ipv6 =
      fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)) == 0;
  if (fd >= 0) ::close(fd);
  if (!has_ipv6) GTEST_SKIP() << "no IPv6 here";
  const auto server = Start({}, "[::1]:0");
  EXPECT_THAT(server->address(), StartsWith("[::1]:"));
  EXPECT_THAT(HttpConnection(server->address()).Ask("/ok", "ok."), StartsWith("HTTP/1.1 200 "));
  // All addresses of both kinds: those of IPv4 are told apart as ever.
  HttpBounds bounds;
  bounds.max_connections_per_address = 1;
  const auto both = Start(bounds, "[::]:0");
  const std::string port = both->address().substr(both->address().rfind(':'));
  const HttpConnection one(absl::StrCat("127.0.0.1", port));
  EXPECT_THAT(one.Ask("/ok", "ok."), StartsWith("HTTP/1.1 200 "));
  const HttpConnection another(absl::StrCat("127.0.0.1", port), "127.0.0.2");
  EXPECT_THAT(another.Ask("/ok", "ok."), StartsWith("HTTP/1.1 200 "));
  EXPECT_FALSE(one.IsClosed());
  HttpSecurity security;
  security.admit = [](const Caller& caller, const Request&) -> Admission {
    return {403, "", caller.address};
  };
  PH_ASSERT_OK_AND_ASSIGN(const auto telling,
                          HttpServer::Start("[::]:0", {}, HttpBounds(), std::move(security)));
  const std::string its_port = telling->address().substr(telling->address().rfind(':'));
  const HttpConnection by_ipv4(absl::StrCat("127.0.0.1", its_port), "127.0.0.2");
  const HttpConnection by_ipv6(absl::StrCat("[::1]", its_port));
  for (const HttpConnection* const connection : {&by_ipv4, &by_ipv6}) {
    EXPECT_TRUE(connection->Send("GET / HTTP/1.0\r\n\r\n"));
    EXPECT_THAT(connection->ReadAll(),
                EndsWith(connection == &by_ipv4 ? "\r\n\r\n127.0.0.2\n" : "\r\n\r\n::1\n"));
  }
}

// However many are silent, or send a byte now and then, one that asks is answered; and the server
// keeps no more connections than it says.
TEST_F(HttpServerTest, SilentConnectionsHoldUpNobody) {
  HttpBounds bounds;
  bounds.max_connections = 20;
  bounds.max_connections_per_address = 20;
  const auto server = Start(bounds);
  std::vector<HttpConnection> hostile;
  for (int i = 0; i < 300; ++i) {
    hostile.emplace_back(server->address());
    if (i % 3 == 0) hostile.back().Send("GET /ok HT");
    if (i % 50 == 0) {
      EXPECT_THAT(HttpConnection(server->address()).Ask("/ok", "ok."), EndsWith("ok."));
    }
  }
  for (HttpConnection& each : hostile) each.Send("T");
  EXPECT_THAT(HttpConnection(server->address()).Ask("/ok", "ok."), EndsWith("ok."));
  // The eldest were closed for the newest.
  for (int i = 0; i < 300 - 20; ++i) EXPECT_TRUE(hostile[i].IsClosed(10'000)) << i;
  const auto open = std::count_if(hostile.begin(), hostile.end(),
                                  [](const auto& each) { return !each.IsClosed(); });
  EXPECT_LE(open, 20);
  EXPECT_GE(open, 15);
}

// An address that opens many connections closes its own.
TEST_F(HttpServerTest, AnAddressHasItsShareOfTheConnections) {
  HttpBounds bounds;
  bounds.max_connections = 20;
  bounds.max_connections_per_address = 5;
  const auto server = Start(bounds);
  const HttpConnection silent(server->address());
  const HttpConnection scraper(server->address());
  EXPECT_THAT(scraper.Ask("/ok", "ok."), EndsWith("ok."));
  std::vector<HttpConnection> hostile;
  for (int i = 0; i < 100; ++i) hostile.emplace_back(server->address(), "127.0.0.2");
  for (int i = 0; i < 95; ++i) EXPECT_TRUE(hostile[i].IsClosed(10'000)) << i;
  for (int i = 95; i < 100; ++i) EXPECT_FALSE(hostile[i].IsClosed()) << i;
  EXPECT_FALSE(silent.IsClosed());
  EXPECT_THAT(scraper.Ask("/ok", "ok."), EndsWith("ok."));
}

// Many addresses with a few connections each close theirs, not the only one of another.
TEST_F(HttpServerTest, WhoHasMostConnectionsMakesRoom) {
  HttpBounds bounds;
  bounds.max_connections = 20;
  bounds.max_connections_per_address = 5;
  const auto server = Start(bounds);
  const HttpConnection silent(server->address());
  std::vector<HttpConnection> hostile;
  for (int i = 0; i < 100; ++i) {
    hostile.emplace_back(server->address(), absl::StrCat("127.0.0.", 2 + i % 8));
  }
  // The newest 19 are there, and the silent one.
  for (int i = 0; i < 100 - 19; ++i) EXPECT_TRUE(hostile[i].IsClosed(10'000)) << i;
  EXPECT_FALSE(silent.IsClosed());
  for (int i = 100 - 19; i < 100; ++i) EXPECT_FALSE(hostile[i].IsClosed()) << i;
}

// Among connections of one address, too, the ones that are answered stay.
TEST_F(HttpServerTest, TheOneLongestWithoutAnAnswerIsClosed) {
  HttpBounds bounds;
  bounds.max_connections_per_address = 3;
  const auto server = Start(bounds);
  const HttpConnection scraper(server->address());
  EXPECT_THAT(scraper.Ask("/ok", "ok."), EndsWith("ok."));
  std::vector<HttpConnection> hostile;
  for (int i = 0; i < 30; ++i) {
    hostile.emplace_back(server->address());
    EXPECT_THAT(scraper.Ask("/count", "!"), EndsWith(absl::StrCat("count ", i + 1, "!")));
  }
}

TEST_F(HttpServerTest, WhoDoesNotAskInTimeIsClosed) {
  HttpBounds bounds;
  bounds.first_answer = absl::Milliseconds(50);
  const auto server = Start(bounds);
  const HttpConnection silent(server->address());
  const HttpConnection dripping(server->address());
  EXPECT_THAT(silent.ReadAll(), IsEmpty());
  // A byte every few milliseconds does not prolong it.
  EXPECT_TRUE(dripping.Send("GET /"));
  while (!dripping.IsClosed(5)) dripping.Send("x");
}

TEST_F(HttpServerTest, AConnectionThatWasAnsweredIsKeptForLonger) {
  HttpBounds bounds;
  bounds.first_answer = absl::Milliseconds(50);
  const auto server = Start(bounds);
  const HttpConnection answered(server->address());
  EXPECT_THAT(answered.Ask("/ok", "ok."), EndsWith("ok."));
  // Later than the first of them was to end, this one is there.
  EXPECT_THAT(HttpConnection(server->address()).ReadAll(), IsEmpty());
  EXPECT_THAT(answered.Ask("/ok", "ok."), EndsWith("ok."));

  bounds.keep_alive = absl::Milliseconds(50);
  const auto impatient = Start(bounds);
  const HttpConnection kept(impatient->address());
  EXPECT_THAT(kept.Ask("/ok", "ok."), EndsWith("ok."));
  EXPECT_THAT(kept.ReadAll(), IsEmpty());
}

// A client that does not read its answers keeps its own connection busy only.
TEST_F(HttpServerTest, AClientThatDoesNotReadHoldsUpNobody) {
  std::vector<Route> routes = {{"/large", [] { return Page{.body = std::string(1 << 20, 'x')}; }},
                               {"/ok", [] { return Page{.body = "ok."}; }}};
  PH_ASSERT_OK_AND_ASSIGN(const auto server, HttpServer::Start("127.0.0.1:0", std::move(routes)));
  std::vector<HttpConnection> hostile;
  for (int i = 0; i < 10; ++i) {
    hostile.emplace_back(server->address());
    for (int k = 0; k < 10; ++k) {
      hostile.back().Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    }
  }
  EXPECT_THAT(HttpConnection(server->address()).Ask("/ok", "ok."), EndsWith("ok."));
}

TEST_F(HttpServerTest, RefusesACertificateThatIsNone) {
  HttpSecurity security;
  security.tls = [] { return TlsIdentity{"no certificate", "no key", ""}; };
  EXPECT_THAT(HttpServer::Start("127.0.0.1:0", {}, HttpBounds(), std::move(security)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("TLS of the HTTP port: the certificate: ")));
}

TEST_F(HttpServerTest, RefusesAddressesItCannotServe) {
  const std::pair<const char*, const char*> refused[] = {
      {"", "it is empty"},
      {"127.0.0.1", "the port is missing"},
      {"[::1]", "the port is missing"},
      {"9464", "the port is missing"},
      {":9464", "the host is missing"},
      {"localhost:", "the port is not a number"},
      {"localhost:x", "the port is not a number"},
      {"localhost:-1", "the port is not a number"},
      {"localhost:65536", "the port is not a number"},
      {"[::1:9464", "an IPv6 host is in brackets"},
      {"::1:9464", "an IPv6 host is in brackets"}};
  for (const auto& [address, why] : refused) {
    EXPECT_THAT(HttpServer::Start(address, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("is not host:port"), HasSubstr(why))))
        << address;
  }
  PH_ASSERT_OK_AND_ASSIGN(const HostPort last, ParseHostPort("[::1]:65535"));
  EXPECT_EQ(last.host, "::1");
  EXPECT_EQ(last.port, 65535);
  EXPECT_THAT(HttpServer::Start("no such host:1", {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is not known")));
  const auto taken = Start();
  EXPECT_THAT(HttpServer::Start(taken->address(), {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("cannot listen on"), HasSubstr("already in use"))));
}

}  // namespace
}  // namespace packhouse::http
