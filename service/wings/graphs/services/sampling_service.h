// SamplingService (proto/packhouse/v1/sampling.proto).
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLING_SERVICE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLING_SERVICE_H_

#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/live_streams.h"
#include "service/engine/streams/pack_observer.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse::rpc {

// Sizes are estimated, and data sets are made, on the planning pool. Thread-safe.
class SamplingService final : public EarlyService {
 public:
  // The pointees must outlive the service. `graphs` and `datasets` may be null: then calls that
  // need them are answered with FAILED_PRECONDITION. `sampled` may be null.
  SamplingService(const CallContext& context, const StreamBounds& bounds,
                  HistogramStore* histograms, PackObserverFactory* observers, LiveStreams* live,
                  const SourceGraphStore* graphs, DatasetStore* datasets,
                  SamplingObserver* sampled);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLING_SERVICE_H_
