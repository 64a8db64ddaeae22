#include "service/server/http/watching_pages.h"

#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/http/http_connection.h"
#include "tests/support/status_matchers.h"

namespace packhouse::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Get(const std::string& address, const std::string& path,
                const std::string& accept = "*/*") {
  const HttpConnection connection(address);
  EXPECT_TRUE(connection.Send("GET " + path + " HTTP/1.0\r\nAccept: " + accept + "\r\n\r\n"));
  return connection.ReadAll();
}

TEST(WatchingPagesTest, ServesItsThreePages) {
  absl::Mutex mutex;
  std::string why_not_healthy;
  std::string why_not_ready;
  Watched watched;
  watched.exposition = [] { return std::string("a_metric 1\n"); };
  watched.open_metrics = [] { return std::string("a_metric 1\n# EOF\n"); };
  watched.why_not_healthy = [&] {
    absl::MutexLock lock(&mutex);
    return why_not_healthy;
  };
  watched.why_not_ready = [&] {
    absl::MutexLock lock(&mutex);
    return why_not_ready;
  };
  PH_ASSERT_OK_AND_ASSIGN(const auto server,
                          HttpServer::Start("127.0.0.1:0", WatchingPages(std::move(watched))));
  const std::string metrics = Get(server->address(), "/metrics");
  EXPECT_THAT(metrics, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(metrics, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics, HasSubstr("\r\n\r\na_metric 1\n"));
  // As Prometheus asks, and as it does without the newer format.
  for (const char* accept :
       {"application/openmetrics-text; version=0.0.1,text/plain;q=0.5",
        "text/plain;q=0.5 , application/openmetrics-text", "application/openmetrics-text;q=0.5",
        "application/openmetrics-text; q=x; version=0"}) {
    EXPECT_THAT(Get(server->address(), "/metrics", accept),
                AllOf(HasSubstr("application/openmetrics-text; version=1.0.0"),
                      HasSubstr("\r\n\r\na_metric 1\n# EOF\n")));
  }
  for (const char* accept :
       {"text/plain;version=0.0.4;q=1,*/*;q=0.1", "", "application/openmetrics-text;q=0,*/*",
        "openmetrics-text", "application/openmetrics-text; version=1.0.0; q=0.0"}) {
    EXPECT_THAT(Get(server->address(), "/metrics", accept), HasSubstr("text/plain; version=0.0.4"));
  }
  EXPECT_THAT(Get(server->address(), "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(server->address(), "/readyz"), StartsWith("HTTP/1.1 200"));
  {
    absl::MutexLock lock(&mutex);
    why_not_ready = "draining";
  }
  const std::string readiness = Get(server->address(), "/readyz");
  EXPECT_THAT(readiness, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(readiness, HasSubstr("\r\n\r\ndraining\n"));
  EXPECT_THAT(Get(server->address(), "/healthz"), StartsWith("HTTP/1.1 200"));
  {
    absl::MutexLock lock(&mutex);
    why_not_healthy = "the disk failed";
  }
  EXPECT_THAT(Get(server->address(), "/healthz"),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("the disk failed\n")));
}

}  // namespace
}  // namespace packhouse::http
