// What a trainer tells of batches that its device has worked on.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_BATCH_OBSERVATION_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_BATCH_OBSERVATION_H_

#include <cstdint>
#include <vector>

namespace packhouse {

// Some batches of one shape.
struct BatchObservation {
  // Rows per component as the device saw them, `graphs` last: a padded batch has its capacities, a
  // ragged one its real rows.
  std::vector<uint64_t> capacities;
  // At least 1.
  uint64_t num_batches = 1;
  // Of one batch, the median if there are several; 0: not told.
  double seconds = 0;
  // The most bytes of the device's memory that were in use; 0: not told.
  uint64_t peak_bytes = 0;
  // They did not fit the device's memory; then there are neither seconds nor bytes.
  bool out_of_memory = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_BATCH_OBSERVATION_H_
