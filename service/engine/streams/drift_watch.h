// Watches the sizes of a stream, and collects those that come after a change.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_DRIFT_WATCH_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_DRIFT_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/algorithms/histograms/drift_detector.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/sizes/size_table.h"

namespace packhouse {

// At most `most` graphs of a histogram, at equal distances in the order of their sizes. O(d log d).
absl::StatusOr<SizeHistogram> ThinnedOut(const SizeHistogram& histogram, uint64_t most);

// The mean rows of a graph, by component; zeros for an empty histogram.
std::vector<double> MeanRows(const SizeHistogram& histogram);

// The graphs that limits were chosen from.
struct DriftReference {
  static constexpr uint64_t kMostGraphs = 4096;

  // Knows them.
  DriftDetector detector;
  // Them or, if there are more than kMostGraphs, as many of them.
  SizeHistogram sample;
  std::vector<double> means;
};

// Graphs that `allowed` has no limits for are left out; null: none. RESOURCE_EXHAUSTED as
// SizeHistogram.
absl::StatusOr<DriftReference> DriftReferenceOf(const SizeHistogram& histogram,
                                                const DeviceProfile* allowed);

// A change of sizes. Graphs of the stream are numbered from 0, those that count in no histogram
// too.
struct SizeChange {
  uint64_t first_graph = 0;  // Where it began, by estimate.
  uint64_t found_graph = 0;  // The graph with which it was found.
  uint64_t end_graph = 0;    // The first one that came after those that were collected.
  // The graphs after it was found.
  SizeHistogram graphs = SizeHistogram(0);
};

// How it works. The detector (drift_detector.h) compares each graph with the reference and all
// graphs since. When it finds a change, the next `num_graphs` graphs are collected. They begin the
// next reference, which goes on for so many graphs that each reference is four times as long as the
// one before, up to a bound: so a stream whose sizes come in some order is not judged all the time.
//
// What is found depends on the graphs and their order alone, and not on how they were cut into
// chunks. Thread-compatible.
class DriftWatch {
 public:
  static constexpr uint64_t kDefaultGraphs = 2000;
  static constexpr uint64_t kFewestGraphs = 500;
  static constexpr uint64_t kMostGraphs = 65536;

  // Without SetReference(), the first `num_graphs` graphs are the reference. `allowed` as for
  // DriftReferenceOf().
  DriftWatch(size_t num_components, uint64_t num_graphs, std::optional<DeviceProfile> allowed);

  // To be called before Observe(), if at all. `first_graph`: the number of the first graph that is
  // observed.
  void SetReference(DriftReference reference, uint64_t first_graph);

  // The next graphs of the stream, after the first `skipped` of the table.
  // RESOURCE_EXHAUSTED as SizeHistogram.
  absl::Status Observe(const SizesView& sizes, size_t skipped = 0);

  // Changes whose graphs were collected, the earliest first. One chunk may have several.
  bool has_change() const { return !changes_.empty(); }
  SizeChange TakeChange();

  // What the stream's limits were chosen from. Requires a change, or SetReference().
  const SizeHistogram& reference() const { return *sample_; }
  const std::vector<double>& reference_means() const { return means_; }

  // At most what a watch takes.
  static uint64_t BytesFor(size_t num_components, uint64_t num_graphs);

 private:
  enum class State {
    kReference,   // Graphs add to the reference.
    kWatching,    // Graphs are compared with it.
    kCollecting,  // A change was found.
  };

  absl::Status ObserveOne(absl::Span<const uint32_t> tuple);
  // The first graphs of the stream are all there.
  absl::Status EndFirst();
  void EndCollecting();

  const size_t num_components_;
  const uint64_t num_graphs_;
  const std::optional<DeviceProfile> allowed_;

  State state_ = State::kReference;
  DriftDetector detector_;
  // How many graphs the reference gets.
  uint64_t reference_length_;
  // The first graphs, or those after a change.
  SizeHistogram collected_;
  std::optional<SizeHistogram> sample_;
  std::vector<double> means_;
  uint64_t num_seen_ = 0;
  // The number of the first graph that the detector compared.
  uint64_t watched_from_ = 0;
  SizeChange change_;  // While its graphs are collected.
  std::deque<SizeChange> changes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_DRIFT_WATCH_H_
