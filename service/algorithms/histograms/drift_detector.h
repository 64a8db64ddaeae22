// Finds when the sizes of graphs change, with a bounded chance of a false alarm.
//
// How it works. A size has several features: the rows of each component, and the ratio of each
// component after the first to the first. Each feature is sorted into bins that depend on no data.
// If nothing changes, all graphs so far are in random order, those of the reference too. Then the
// rank of the latest graph among them, with ties broken at random, is a uniform random number,
// whatever the sizes are, and independent of the ranks before it (Vovk, Gammerman and Shafer,
// "Algorithmic Learning in a Random World"). So it does not matter that the reference is a sample.
//
// Each feature has a wealth, which bets on each of its ranks: that it is high or low, far from the
// middle or near it, and so on, with several stakes. Bets are fair, so wealth grows only by luck,
// or because the sizes have changed. Wealth is divided beforehand between all bets, and between all
// times at which a change might begin, so that the time of the change need not be known (the
// mixture of Shin, Ramdas and Rinaldo, "E-detectors", 2022). By Ville's inequality, the chance that
// the wealth of one of n features ever grows to n / kFalseAlarms times its beginning is at most
// kFalseAlarms / n, so that any of them does at most kFalseAlarms. They are not added up: a bet is
// fair given the earlier ranks of its own feature, but not given those of the others.
//
// Power. A shift by d standard deviations earns about 0.47 * d^2 in the logarithm of the wealth for
// each graph, less as the graphs after the change are among those it is compared with: m graphs
// before the change and n after it earn as much as m * n / (m + n). An alarm needs about 15 after
// 10^4 graphs, and 20 after 10^6.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_DRIFT_DETECTOR_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_DRIFT_DETECTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/seeded_random.h"

namespace packhouse {

// How often each of n values came; counts those above a value in O(log n).
class RankCounts {
 public:
  explicit RankCounts(size_t num_values) : counts_(num_values), tree_(num_values + 1) {}

  void Add(size_t value, uint64_t count);
  uint64_t CountOf(size_t value) const { return counts_[value]; }
  uint64_t CountUpTo(size_t value) const;

 private:
  std::vector<uint64_t> counts_;
  std::vector<uint64_t> tree_;  // Fenwick's: entry i has the counts of the last lowbit(i) values.
};

// Same graphs in the same order, same result. Thread-compatible.
class DriftDetector {
 public:
  static constexpr double kFalseAlarms = 1e-3;
  // A change is taken to begin with a multiple of this many graphs.
  static constexpr uint64_t kGraphsPerStart = 256;

  // `num_components` is at least 1.
  explicit DriftDetector(size_t num_components);

  // Graphs that no change came before: all that are known, in any order. Not after Observe().
  void AddReference(absl::Span<const uint32_t> tuple, uint64_t count = 1);
  void AddReference(const SizeHistogram& histogram);

  // The next graph. True if the sizes have changed; from then on it must not be called any more.
  // O(l log bins): some 60 ns for each of 2 * l - 1 features.
  bool Observe(absl::Span<const uint32_t> tuple);

  uint64_t num_reference() const { return num_reference_; }
  uint64_t num_observed() const { return num_observed_; }
  // How many graphs were observed before the change, by estimate: a multiple of kGraphsPerStart.
  uint64_t num_before_change() const;

  size_t num_components() const { return num_components_; }
  static uint64_t BytesFor(size_t num_components);

 private:
  // By order of the polynomial: high or low, far or near, skewed. For each both signs of each
  // stake.
  static constexpr size_t kOrders = 3;
  static constexpr size_t kStakes = 6;
  static constexpr size_t kBets = kOrders * kStakes;

  struct Feature {
    explicit Feature(size_t num_values) : ranks(num_values) {}

    RankCounts ranks;
    std::array<double, kBets> wealth = {};
    // At the latest start: the wealth; how many times as much a bet has earned since it was lowest,
    // and when that was (Page's sum).
    std::array<double, kBets> wealth_then = {};
    std::array<double, kBets> earned = {};
    std::array<uint64_t, kBets> lowest = {};
  };

  // Bets that a change begins with the next graph.
  void Start();
  size_t ValueOf(size_t feature, absl::Span<const uint32_t> tuple) const;
  // In (0, 1): small if the value is large.
  double RankOf(Feature& feature, size_t value);

  size_t num_components_;
  std::vector<Feature> features_;
  // A stream of its own: with a small seed, a data set drawn with that seed would depend on the
  // ties.
  SeededRandom ties_{0xb5ad4eceda1ce2a9};
  uint64_t num_reference_ = 0;
  uint64_t num_observed_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_DRIFT_DETECTOR_H_
