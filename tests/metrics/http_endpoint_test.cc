#include "service/metrics/http_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The whole answer to a GET of 127.0.0.1:port.
std::string Get(const std::string& address, const std::string& path) {
  const int port = std::atoi(address.substr(address.rfind(':') + 1).c_str());
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  EXPECT_EQ(::send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, n);
  ::close(fd);
  return answer;
}

TEST(HttpEndpointTest, ServesItsThreePages) {
  std::atomic<bool> ready = true;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto endpoint,
      HttpEndpoint::Start("127.0.0.1:0", {[] { return std::string("a_metric 1\n"); },
                                          [&] { return ready.load(); }}));
  const std::string metrics = Get(endpoint->address(), "/metrics");
  EXPECT_THAT(metrics, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(metrics, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics, HasSubstr("\r\n\r\na_metric 1\n"));
  EXPECT_THAT(Get(endpoint->address(), "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(endpoint->address(), "/readyz"), StartsWith("HTTP/1.1 200"));
  ready = false;
  EXPECT_THAT(Get(endpoint->address(), "/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get(endpoint->address(), "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(endpoint->address(), "/etc/passwd"), HasSubstr(" 404 "));
}

TEST(HttpEndpointTest, RefusesAddressesItCannotServe) {
  const HttpEndpoint::Pages pages = {[] { return ""; }, [] { return true; }};
  for (const char* address : {"", "9464", ":9464", "localhost:x", "localhost:70000"}) {
    EXPECT_THAT(HttpEndpoint::Start(address, pages),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not host:port")))
        << address;
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto taken, HttpEndpoint::Start("127.0.0.1:0", pages));
  EXPECT_THAT(HttpEndpoint::Start(taken->address(), pages),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot listen")));
}

}  // namespace
}  // namespace packhouse::metrics
