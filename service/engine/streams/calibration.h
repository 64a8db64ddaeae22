// The graphs at the beginning of a stream, from whose sizes its shapes are chosen.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_CALIBRATION_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_CALIBRATION_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/oversize_graphs.h"

namespace packhouse {

struct CalibrationOptions {
  // With what padding keeps free (ProfileForPadding), and checked.
  DeviceProfile profile;
  // 0: the sizes are known from elsewhere, and no graph has to come.
  uint64_t num_graphs = 0;
};

// Counts the sizes, and says when there are enough. Which graphs are counted depends on their order
// alone, and not on how they were cut into chunks. Thread-compatible; no clock of its own.
class Calibration {
 public:
  Calibration(CalibrationOptions options, size_t num_components)
      : profile_(std::move(options.profile)),
        wanted_(options.num_graphs),
        sizes_(num_components),
        ends_(options.num_graphs == 0) {}

  // What keeps a graph of this size out of all limits that the profile allows.
  std::optional<ProfileExcess> ExcessOf(absl::Span<const uint32_t> tuple) const {
    return ExcessOverProfile(tuple, profile_);
  }

  // At most the bytes that each counted graph takes here.
  static uint64_t BytesPerGraph(size_t num_components) {
    return SizeHistogram::BytesFor(2, num_components) - SizeHistogram::BytesFor(1, num_components);
  }

  // Counts the graphs of a chunk that some limits take, until there are enough.
  // RESOURCE_EXHAUSTED as SizeHistogram.
  absl::Status Count(const GraphChunk& chunk);

  // Time is `now`. Chunks that were counted since the last call came now; if their graphs have
  // waited for `max_delay`, no more are waited for.
  void Pass(absl::Time now, absl::Duration max_delay);

  // No more graphs are waited for.
  void End() { ends_ = true; }
  bool has_ended() const { return ends_ || sizes_.num_graphs() >= wanted_; }

  // When Pass() has to be called even without a chunk.
  absl::Time Deadline(absl::Duration max_delay) const {
    return has_ended() ? absl::InfiniteFuture() : first_came_ + max_delay;
  }

  const SizeHistogram& sizes() const { return sizes_; }
  // Ends it, and leaves no sizes here.
  SizeHistogram TakeSizes() {
    End();
    return std::exchange(sizes_, SizeHistogram(sizes_.num_components()));
  }

 private:
  const DeviceProfile profile_;
  const uint64_t wanted_;
  SizeHistogram sizes_;
  bool ends_;
  absl::Time first_came_ = absl::InfiniteFuture();
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_CALIBRATION_H_
