#include "client/bench/bench_sample.h"

#include <algorithm>
#include <cmath>

namespace packhouse::client {
namespace {

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

double RunSample::gigabytes_per_second() const {
  return Share(static_cast<double>(bytes) / 1e9, seconds);
}
double RunSample::messages_per_second() const {
  return Share(static_cast<double>(messages), seconds);
}
double RunSample::graphs_per_second() const { return Share(static_cast<double>(graphs), seconds); }
double RunSample::bytes_per_graph() const {
  return Share(static_cast<double>(bytes), static_cast<double>(graphs));
}
double RunSample::server_cpu_per_graph() const {
  return Share(server_cpu_seconds, static_cast<double>(graphs));
}
double RunSample::client_cpu_per_gigabyte() const {
  return Share(client_cpu_seconds, static_cast<double>(bytes) / 1e9);
}
double RunSample::server_cpu_per_gigabyte() const {
  return Share(server_cpu_seconds, static_cast<double>(bytes) / 1e9);
}

Spread SpreadOf(const Runs& runs, double (RunSample::*figure)() const) {
  std::vector<double> values;
  for (const RunSample& run : runs) values.push_back((run.*figure)());
  return SpreadOf(std::move(values));
}

Spread RatioOf(const Runs& runs, const Runs& base, double (RunSample::*figure)() const) {
  std::vector<double> values;
  for (std::size_t i = 0; i < std::min(runs.size(), base.size()); ++i) {
    values.push_back(Share((runs[i].*figure)(), (base[i].*figure)()));
  }
  return SpreadOf(std::move(values));
}

double GapQuantile(const Runs& runs, double share) {
  std::vector<double> gaps;
  for (const RunSample& run : runs) {
    gaps.insert(gaps.end(), run.gap_milliseconds.begin(), run.gap_milliseconds.end());
  }
  return Quantile(std::move(gaps), share);
}

Spread UnfairnessOf(const Runs& runs) {
  std::vector<double> values;
  for (const RunSample& run : runs) {
    if (run.stream_bytes.empty()) continue;
    const auto [low, high] = std::minmax_element(run.stream_bytes.begin(), run.stream_bytes.end());
    values.push_back(*low > 0 ? *high / *low : INFINITY);
  }
  return SpreadOf(std::move(values));
}

}  // namespace packhouse::client
