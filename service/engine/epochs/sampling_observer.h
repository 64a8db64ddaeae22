// What this room tells observers of draws.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SAMPLING_OBSERVER_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SAMPLING_OBSERVER_H_

#include <cstdint>

namespace packhouse {

// What is told of draws, for metrics. Thread-safe.
class SamplingObserver {
 public:
  virtual ~SamplingObserver() = default;

  // A sub-graph was drawn. `seeds` of it; `level` above 0: it was drawn smaller.
  virtual void OnDrawn(uint64_t seeds, uint64_t nodes, uint64_t edges, uint32_t level) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SAMPLING_OBSERVER_H_
