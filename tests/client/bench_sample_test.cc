#include "client/bench/bench_sample.h"

#include <vector>

#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

TEST(SpreadTest, MedianLeastAndGreatest) {
  const Spread odd = SpreadOf({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.low, 1);
  EXPECT_EQ(odd.high, 5);
  EXPECT_EQ(SpreadOf({4, 1, 2, 9}).median, 3);
  EXPECT_EQ(SpreadOf(std::vector<double>{}).median, 0);
}

TEST(QuantileTest, IsOfTheValuesThemselves) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(Quantile(values, 0.5), 50);
  EXPECT_EQ(Quantile(values, 0.99), 99);
  EXPECT_EQ(Quantile(values, 1), 100);
  EXPECT_EQ(Quantile(values, 0), 1);
  EXPECT_EQ(Quantile({7}, 0.99), 7);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

TEST(RunSampleTest, RatesAreOfTheWindow) {
  RunSample run;
  run.seconds = 2;
  run.messages = 10;
  run.bytes = 4'000'000'000;
  run.graphs = 600;
  run.client_cpu_seconds = 1;
  run.server_cpu_seconds = 3;
  EXPECT_EQ(run.gigabytes_per_second(), 2);
  EXPECT_EQ(run.messages_per_second(), 5);
  EXPECT_EQ(run.graphs_per_second(), 300);
  EXPECT_EQ(run.client_cpu_per_gigabyte(), 0.25);
  EXPECT_EQ(run.server_cpu_per_gigabyte(), 0.75);
  EXPECT_EQ(RunSample().gigabytes_per_second(), 0);
  EXPECT_EQ(RunSample().server_cpu_per_gigabyte(), 0);
}

// A machine that is slow for a while slows both of a pair.
TEST(RatioTest, EachRunIsHeldAgainstTheOneBesideIt) {
  Runs runs;
  Runs base;
  for (const uint64_t bytes : {100, 10, 1000}) {
    RunSample run;
    run.seconds = 1;
    run.bytes = bytes;
    runs.push_back(run);
    run.bytes = 2 * bytes;
    base.push_back(run);
  }
  const Spread ratio = RatioOf(runs, base, &RunSample::gigabytes_per_second);
  EXPECT_EQ(ratio.median, 0.5);
  EXPECT_EQ(ratio.low, 0.5);
  EXPECT_EQ(ratio.high, 0.5);
}

TEST(UnfairnessTest, IsOfTheStreamsOfOneRun) {
  Runs runs(2);
  runs[0].stream_bytes = {10, 20, 15};
  runs[1].stream_bytes = {4, 1, 2};
  const Spread unfairness = UnfairnessOf(runs);
  EXPECT_EQ(unfairness.low, 2);
  EXPECT_EQ(unfairness.high, 4);
  EXPECT_EQ(unfairness.median, 3);
}

}  // namespace
}  // namespace packhouse::client
