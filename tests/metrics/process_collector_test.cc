#include "service/server/metrics/process_collector.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/metrics/metrics.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;

TEST(ProcessCollectorTest, ReadsWhatTheProcessDoes) {
  const ProcessReading before = ReadThisProcess();
  EXPECT_GT(before.cpu_time, absl::ZeroDuration());
  EXPECT_GT(before.anonymous_bytes, 0U);
  EXPECT_LE(before.anonymous_bytes, before.resident_bytes);
  EXPECT_LE(before.resident_bytes, before.virtual_bytes);
  EXPECT_GE(before.num_threads, 1U);
  EXPECT_LT(before.num_files, before.max_files);
  {
    // By other means: virtual pages, and resident ones.
    std::ifstream statm("/proc/self/statm");
    for (const uint64_t bytes : {before.virtual_bytes, before.resident_bytes}) {
      double expected = 0;
      statm >> expected;
      expected *= static_cast<double>(::sysconf(_SC_PAGESIZE));
      EXPECT_NEAR(static_cast<double>(bytes), expected, 0.3 * expected);
    }
  }

  const int file = open("/dev/null", O_RDONLY);
  const std::string touched(size_t{32} << 20, 'x');
  ProcessReading during;
  std::thread([&during] { during = ReadThisProcess(); }).join();
  EXPECT_EQ(during.num_files, before.num_files + 1);
  EXPECT_EQ(during.num_threads, before.num_threads + 1);
  EXPECT_GE(during.anonymous_bytes, before.anonymous_bytes + touched.size() / 2);
  EXPECT_GE(during.cpu_time, before.cpu_time);
  close(file);
  EXPECT_EQ(ReadThisProcess().num_files, before.num_files);
}

// None is taken for another: those that hardly change are the same, the others are in between.
TEST(ProcessCollectorTest, EveryNameHasItsNumber) {
  const ProcessReading reading = ReadThisProcess();
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : ProcessCollector().Collect()) {
    values[family.name] = family.metric.front().gauge.value;
  }
  EXPECT_EQ(values["process_threads"], reading.num_threads);
  EXPECT_EQ(values["process_open_fds"], reading.num_files);
  EXPECT_EQ(values["process_max_fds"], reading.max_files);
  EXPECT_GT(values["packhouse_anonymous_memory_bytes"], 0);
  EXPECT_LT(values["packhouse_anonymous_memory_bytes"], values["process_resident_memory_bytes"]);
  EXPECT_LT(values["process_resident_memory_bytes"], values["process_virtual_memory_bytes"]);
}

TEST(ProcessCollectorTest, EveryNumberHasItsUsualName) {
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  const std::string page = Metrics("").Exposition();
  for (const char* name : {"cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes",
                           "threads", "open_fds", "max_fds", "start_time_seconds"}) {
    EXPECT_THAT(page, HasSubstr(std::string("\nprocess_") + name + " "));
  }
  EXPECT_THAT(page, HasSubstr("\npackhouse_anonymous_memory_bytes "));
  const ProcessCollector collector;
  for (const prometheus::MetricFamily& family : collector.Collect()) {
    if (family.name != "process_start_time_seconds") continue;
    EXPECT_GE(family.metric.front().gauge.value, now);
  }
}

}  // namespace
}  // namespace packhouse::metrics
