// Figures of one run of a measurement, and of several.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_SAMPLE_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace packhouse::client {

// Median, least and greatest of some runs.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

// All 0 if there are no values. The median of an even number is the mean of the middle two.
Spread SpreadOf(std::vector<double> values);

// The value that `share` of the values do not exceed (nearest rank); 0 if there are none.
double Quantile(std::vector<double> values, double share);

// What happened within one window of time. A GB is 10^9 bytes.
struct RunSample {
  double seconds = 0;
  uint64_t messages = 0;
  uint64_t bytes = 0;
  uint64_t graphs = 0;
  // CPU time of both processes.
  double client_cpu_seconds = 0;
  double server_cpu_seconds = 0;
  // Times between two messages of one stream.
  std::vector<double> gap_milliseconds;
  // Bytes of each stream.
  std::vector<double> stream_bytes;
  // Times from the call of an epoch to its first batch.
  std::vector<double> opening_milliseconds;
  uint64_t server_peak_bytes = 0;
  // CPU time of all other processes, as a share of the machine: it shows how much the run was
  // disturbed.
  double others_share = 0;

  double gigabytes_per_second() const;
  double messages_per_second() const;
  double graphs_per_second() const;
  double bytes_per_graph() const;
  double server_cpu_per_graph() const;
  double client_cpu_per_gigabyte() const;
  double server_cpu_per_gigabyte() const;
  double others() const { return others_share; }
};

// Runs of one measurement in the order in which they were made.
using Runs = std::vector<RunSample>;

// The spread of the runs' values of `figure`.
Spread SpreadOf(const Runs& runs, double (RunSample::*figure)() const);

// The spread of figure(runs[i]) / figure(base[i]): each run is compared with the one beside it.
Spread RatioOf(const Runs& runs, const Runs& base, double (RunSample::*figure)() const);

// The quantile of all runs' gaps together.
double GapQuantile(const Runs& runs, double share);

// The ratio of the stream with the most bytes to the one with the least.
Spread UnfairnessOf(const Runs& runs);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_SAMPLE_H_
