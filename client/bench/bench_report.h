// The benchmark's figures as a table and as JSON.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_REPORT_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/bench/bench_sample.h"
#include "client/bench/bench_setup.h"
#include "client/bench/measures/delivery.h"
#include "client/bench/measures/epochs.h"
#include "client/bench/measures/observe.h"
#include "client/bench/measures/plan.h"
#include "service/base/command_line/json.h"

namespace packhouse::client {

// The machine of the figures: without it they mean nothing.
struct BenchMachine {
  std::string processor;
  unsigned cores = 0;
  std::string kernel;
  // The congestion control of the benchmark's sockets.
  std::string congestion;
  std::string date;
};

BenchMachine ThisMachine(const std::string& congestion);
std::string Describe(const BenchMachine& machine);

// Collects the figures. Texts end in a newline. Not thread-safe.
class BenchReport {
 public:
  BenchReport(const BenchMachine& machine, const BenchSettings& settings, const BenchGraphs& graphs,
              uint64_t dataset_graphs);

  // Each returns its rows as lines to print now, the first of a kind with a heading.
  std::string AddTcp(const Runs& runs);
  std::string AddDelivery(const DeliveryFigures& delivery);
  std::string AddEpochs(const EpochFigures& epochs);
  std::string AddFairness(const DeliveryFigures& delivery);
  std::string AddObservation(const ObserveFigures& observation);
  std::string AddPlanning(const std::vector<PlanFigures>& plans);

  // All of it, with the machine.
  Json ToJson() const;

 private:
  // Whether `kind` has not come before.
  bool IsFirst(const std::string& kind);

  std::vector<std::string> kinds_;
  const BenchMachine machine_;
  const BenchSettings settings_;
  const uint64_t num_graphs_;
  const double bytes_per_graph_;
  const uint64_t dataset_graphs_;
  std::vector<Json> measures_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_REPORT_H_
