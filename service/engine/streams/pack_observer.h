// What this room tells observers.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_PACK_OBSERVER_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_PACK_OBSERVER_H_

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

// Watches one stream. Calls come from one thread at a time and must be quick. There is one call for
// each batch or chunk, and none for single graphs.
class PackObserver {
 public:
  virtual ~PackObserver() = default;

  // `capacities`: per component, `graphs` last; kUnlimited where there is none.
  virtual void OnBatch(const Batch& batch, absl::Span<const uint64_t> capacities) = 0;
  virtual void OnRejectedTooLarge(uint64_t graphs) = 0;
  // What the stream holds that is in no batch yet. The last call before destruction has 0, 0.
  virtual void OnPending(uint64_t graphs, uint64_t bytes) = 0;

  static constexpr double kNotJudged = -1;
  // A stream that is watched: its sizes have changed. `loss`: what the present limits lose (see
  // DriftJudgement), or kNotJudged. `loses`: it is as much as the stream wants to be told.
  virtual void OnSizeChange(double /*loss*/, bool /*loses*/) {}
};

// Whose graphs a stream packs.
struct PackedFor {
  absl::string_view where;    // The namespace; empty: unknown.
  absl::string_view dataset;  // Or the source graph. Empty: the client sends the graphs itself.
};

// Makes an observer for each new stream. Thread-safe.
class PackObserverFactory {
 public:
  virtual ~PackObserverFactory() = default;
  virtual std::unique_ptr<PackObserver> ForStream(const SizeSchema& schema,
                                                  const PackedFor& packed_for) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_PACK_OBSERVER_H_
