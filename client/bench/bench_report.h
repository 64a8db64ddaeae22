// The benchmark's figures as a table and as JSON.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_REPORT_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/bench/bench_run.h"
#include "client/bench/bench_sample.h"

namespace packhouse::client {

// Where figures were taken: they mean nothing without.
struct BenchMachine {
  std::string processor;
  unsigned cores = 0;
  std::string kernel;
  // Of the benchmark's sockets.
  std::string congestion;
  std::string date;
};

BenchMachine ThisMachine(const std::string& congestion);
std::string Describe(const BenchMachine& machine);

// Collects what was measured. Texts end in a newline. Not thread-safe.
class BenchReport {
 public:
  BenchReport(const BenchMachine& machine, const BenchSettings& settings, const BenchGraphs& graphs,
              uint64_t dataset_graphs);

  // Each returns its rows as lines to print now, the first of a kind with a heading.
  std::string AddTcp(const Runs& runs);
  std::string AddDelivery(const BenchRunner::Delivery& delivery);
  std::string AddFairness(const BenchRunner::Delivery& delivery);
  std::string AddObservation(const BenchRunner::Observation& observation);
  std::string AddPlanning(const std::vector<BenchRunner::Planning>& plans);

  std::string Json() const;

 private:
  // `kind` has not come before.
  bool IsFirst(const std::string& kind);

  std::vector<std::string> kinds_;
  std::string machine_;
  std::vector<std::string> measures_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_REPORT_H_
