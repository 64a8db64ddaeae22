// How many false alarms the watch of sizes gives, and how soon it finds a shift of 5 %: checked
// against targets.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "service/algorithms/histograms/drift_detector.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

// A shift of 5 % is found within so many graphs.
constexpr uint64_t kMostDelay = 20'000;

struct Kind {
  std::string name;
  // Of the logarithm of a graph's nodes; edges follow them.
  double spread;
};

class Source {
 public:
  Source(const Kind& kind, uint64_t seed) : kind_(kind), random_(seed) {}

  absl::Span<const uint32_t> Next(double scale) {
    const double nodes = scale * 25 * std::exp(kind_.spread * Normal());
    tuple_ = {static_cast<uint32_t>(nodes), static_cast<uint32_t>(nodes * (1.8 + Uniform()))};
    return tuple_;
  }

 private:
  double Uniform() { return static_cast<double>(random_.Next() >> 11) * 0x1p-53; }
  // The sum of 12 uniform numbers has variance 1.
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

  const Kind& kind_;
  Random random_;
  std::vector<uint32_t> tuple_;
};

double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

DriftDetector WithReference(Source& source, uint64_t graphs) {
  DriftDetector detector(2);
  for (uint64_t i = 0; i < graphs; ++i) detector.AddReference(source.Next(1));
  return detector;
}

// Alarms in `graphs` graphs in all, in streams of `length`.
bool CountFalseAlarms(const Kind& kind, uint64_t graphs, uint64_t length) {
  const double began = Seconds();
  uint64_t alarms = 0;
  uint64_t streams = 0;
  for (uint64_t done = 0; done < graphs; done += length, ++streams) {
    Source source(kind, streams);
    DriftDetector detector = WithReference(source, 2000);
    for (uint64_t i = 0; i < length; ++i) {
      if (!detector.Observe(source.Next(1))) continue;
      ++alarms;
      break;
    }
  }
  // The chance is one in a thousand for each stream; twice as many and two more are bad luck.
  const bool good = static_cast<double>(alarms) <=
                    2 + 2 * DriftDetector::kFalseAlarms * static_cast<double>(streams);
  std::printf("| %s | %lu | %lu | %lu | %.0f |\n", kind.name.c_str(), graphs, streams, alarms,
              1e9 * (Seconds() - began) / static_cast<double>(graphs));
  return good;
}

// Graphs until a shift of 5 % is found that comes after `before` graphs.
bool MeasureDelays(const Kind& kind, uint64_t before, uint64_t streams) {
  std::vector<uint64_t> delays;
  for (uint64_t stream = 0; stream < streams; ++stream) {
    Source source(kind, stream);
    DriftDetector detector = WithReference(source, 2000);
    bool found = false;
    for (uint64_t i = 0; i < before && !found; ++i) found = detector.Observe(source.Next(1));
    if (found) continue;
    const double scale = stream % 2 == 0 ? 1.05 : 1 / 1.05;
    uint64_t delay = 1;
    while (delay < 10 * kMostDelay && !detector.Observe(source.Next(scale))) ++delay;
    delays.push_back(delay);
  }
  if (delays.empty()) return false;
  std::sort(delays.begin(), delays.end());
  std::printf("| %s | %lu | %lu | %lu |\n", kind.name.c_str(), before, delays[delays.size() / 2],
              delays.back());
  return delays.back() <= kMostDelay;
}

int Run(int argc, char** argv) {
  CLI::App app("The watch of sizes: false alarms, and delays");
  uint64_t graphs = 100'000'000;
  uint64_t streams = 20;
  app.add_option("--graphs", graphs, "Without a change");
  app.add_option("--streams", streams, "With one");
  CLI11_PARSE(app, argc, argv);

  const std::vector<Kind> kinds = {
      {"one size", 0}, {"molecules", 0.2}, {"code", 0.5}, {"anything", 0.8}};
  bool good = true;
  std::printf("| sizes | graphs without a change | streams | alarms | ns a graph |\n");
  std::printf("|---|---|---|---|---|\n");
  good &= CountFalseAlarms(kinds[2], graphs, graphs);
  good &= CountFalseAlarms(kinds[2], graphs, std::min<uint64_t>(graphs, 100'000));
  std::printf("\n| sizes | graphs before a shift of 5 %% | found after, median | at most |\n");
  std::printf("|---|---|---|---|\n");
  for (const Kind& kind : kinds) {
    for (const uint64_t before : {uint64_t{0}, uint64_t{20'000}, uint64_t{1'000'000}}) {
      // With nothing but the reference before it, a shift of widely spread sizes is within its
      // errors; and if they spread very widely, 20,000 graphs hardly tell.
      const bool counts = before != 0 && kind.spread <= 0.5;
      const bool met = MeasureDelays(kind, std::min(before, graphs), streams);
      good &= met || !counts;
    }
  }
  if (!good) std::printf("\nA target is missed.\n");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) { return packhouse::Run(argc, argv); }
