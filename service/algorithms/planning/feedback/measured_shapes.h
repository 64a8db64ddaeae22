// The observations of one model on one device in bounded memory, by the shapes of batches.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_MEASURED_SHAPES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_MEASURED_SHAPES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/algorithms/planning/feedback/batch_observation.h"

namespace packhouse {

// What was seen of one shape.
struct MeasuredShape {
  // The latest times are kept: enough for a median that a few slow batches do not move.
  static constexpr size_t kMaxSamples = 9;

  std::vector<uint64_t> capacities;
  uint64_t num_batches = 0;
  uint64_t num_out_of_memory = 0;
  // The most of all batches; 0: not known.
  uint64_t peak_bytes = 0;
  // The number of the latest observation of this shape, counted over all shapes.
  uint64_t last_report = 0;
  // Seconds of a batch, oldest first, at most kMaxSamples.
  std::vector<double> seconds;

  bool fits() const { return num_out_of_memory == 0; }
  // 0 if there are no samples.
  double MedianSeconds() const;

  friend bool operator==(const MeasuredShape&, const MeasuredShape&) = default;
};

// At most kMaxShapes shapes. When there are more, those that ran out of memory stay unless a
// smaller one did; of the others the one that was seen least of late goes, but never the smallest
// or the largest of a component: a line through neighbours says little. Same observations in the
// same order, same shapes. Thread-compatible.
class MeasuredShapes {
 public:
  static constexpr size_t kMaxShapes = 48;
  static constexpr size_t kMaxTooLarge = 16;

  // A batch that fits corrects batches that were as small or smaller and did not: their memory was
  // somebody else's then. O(shapes * components).
  void Add(const BatchObservation& observation);

  // By capacities.
  const std::vector<MeasuredShape>& shapes() const { return shapes_; }
  // Observations and batches that ran out of memory, of all times.
  uint64_t num_reports() const { return num_reports_; }
  uint64_t num_out_of_memory() const { return num_out_of_memory_; }

  // What shapes(), num_reports() and num_out_of_memory() of another one gave.
  static MeasuredShapes Restore(std::vector<MeasuredShape> shapes, uint64_t num_reports,
                                uint64_t num_out_of_memory);

  friend bool operator==(const MeasuredShapes&, const MeasuredShapes&) = default;

 private:
  void DropSurplus();

  std::vector<MeasuredShape> shapes_;
  uint64_t num_reports_ = 0;
  uint64_t num_out_of_memory_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_MEASURED_SHAPES_H_
