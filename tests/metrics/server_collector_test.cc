#include "service/metrics/server_collector.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/metrics/metrics.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every number has a name of its own: none is taken for another.
TEST(ServerCollectorTest, TellsEveryNumber) {
  Metrics metrics("");
  EXPECT_THAT(metrics.Exposition(), Not(HasSubstr("packhouse_memory_held_bytes")));
  metrics.SetServer([] {
    return ServerReading{
        .pending = {11, 111},
        .unsent = {22, 222},
        .working = {33, 333},
        .num_connections = 44,
        .max_connections = 444,
        .num_out_of_memory = 55,
        .files = {{.name = "policy", .is_broken = true, .num_failures = 7},
                  {.name = "certificate", .num_reloads = 6, .expires = absl::FromUnixSeconds(88)}}};
  });
  const std::string page = metrics.Exposition();
  for (const char* line :
       {"packhouse_memory_held_bytes{share=\"pending\"} 11\n",
        "packhouse_memory_held_bytes{share=\"unsent\"} 22\n",
        "packhouse_memory_held_bytes{share=\"working\"} 33\n",
        "packhouse_memory_bound_bytes{share=\"pending\"} 111\n",
        "packhouse_memory_bound_bytes{share=\"unsent\"} 222\n",
        "packhouse_memory_bound_bytes{share=\"working\"} 333\n", "packhouse_connections 44\n",
        "packhouse_connections_bound 444\n", "packhouse_out_of_memory_total 55\n",
        "packhouse_file_broken{file=\"policy\"} 1\n",
        "packhouse_file_broken{file=\"certificate\"} 0\n",
        "packhouse_file_reload_failures_total{file=\"policy\"} 7\n",
        "packhouse_file_reloads_total{file=\"certificate\"} 6\n",
        "packhouse_certificate_expiry_timestamp_seconds 88\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

}  // namespace
}  // namespace packhouse::metrics
