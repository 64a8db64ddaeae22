// A browser may ask what the page asks if the page is this server's own.
#include "service/server/http/own_page.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/http/http_server.h"
#include "tests/http/http_connection.h"
#include "tests/support/status_matchers.h"

namespace packhouse::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(OwnPageTest, NamesThatSomebodyMayHavePointedHereAreRefused) {
  const OwnPage page({"graphs.example", "Other.Example."});
  for (const char* host :
       {"", "127.0.0.1", "10.0.0.7:9464", "[::1]:9464", "[fe80::1]", "localhost", "LOCALHOST:1",
        "a.localhost:9464", "graphs.example", "GRAPHS.example.:9464", "other.example:80"}) {
    EXPECT_EQ(page.WhyNot({host, "", ""}, false), "") << host;
  }
  for (const char* host : {"evil.example", "graphs.example.evil.example", "127.0.0.1.evil.example",
                           "xlocalhost", "x.graphs.example:9464", "*"}) {
    EXPECT_THAT(page.WhyNot({host, "", ""}, false), HasSubstr("--http-names")) << host;
    EXPECT_EQ(page.WhyNot({host, "", ""}, true), "") << host;
  }
  EXPECT_EQ(OwnPage({"*"}).WhyNot({"evil.example", "", ""}, false), "");
}

TEST(OwnPageTest, OtherSitesAreRefused) {
  const OwnPage page({});
  const std::string host = "localhost:9464";
  for (const char* site : {"same-origin", "none"}) {
    EXPECT_EQ(page.WhyNot({host, "", site}, false), "");
  }
  for (const char* site : {"cross-site", "same-site", "x"}) {
    EXPECT_THAT(page.WhyNot({host, "", site}, true), HasSubstr("Sec-Fetch-Site"));
  }
  EXPECT_EQ(page.WhyNot({host, "http://localhost:9464", ""}, false), "");
  EXPECT_EQ(page.WhyNot({host, "https://localhost:9464", ""}, false), "");
  for (const char* origin : {"null", "http://localhost", "http://evil.example", "localhost:9464"}) {
    EXPECT_THAT(page.WhyNot({host, origin, ""}, true), HasSubstr("Origin")) << origin;
  }
}

// Only what the page asks; and what a known principal asks needs no known name.
TEST(OwnPageTest, TheServerRefusesForThePageAlone) {
  HttpSecurity security;
  security.admit = [](const Caller&, const Request& request) -> Admission {
    return {200, request.authorization, ""};
  };
  const auto say = [](const char* body) { return [body] { return Page{.body = body}; }; };
  const auto server =
      HttpServer::Start("127.0.0.1:0",
                        {{.path = "/metrics", .render = say("metrics.")},
                         {.path = "/api", .render = say("api."), .is_for_own_page = true}},
                        HttpBounds(), std::move(security));
  ASSERT_THAT(server, IsOk());
  const HttpConnection connection((*server)->address());
  const auto ask = [&](const char* path, const char* headers, const char* end) {
    EXPECT_TRUE(connection.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\n", headers, "\r\n")));
    return connection.ReadUntil(end);
  };
  EXPECT_THAT(ask("/api", "Host: localhost\r\n", "api."), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("/api", "Host: evil.example\r\n", "evil.example\n"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask("/metrics", "Host: evil.example\r\n", "metrics."), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("/api", "Host: evil.example\r\nAuthorization: alice\r\n", "api."),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("/api", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", "cross-site'\n"),
              StartsWith("HTTP/1.1 403 "));
}

}  // namespace
}  // namespace packhouse::http
