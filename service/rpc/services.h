// The services of a server, and what else it answers: health, reflection, what gRPC knows of its
// connections, and methods that do not exist.
#ifndef PACKHOUSE_SERVICE_RPC_SERVICES_H_
#define PACKHOUSE_SERVICE_RPC_SERVICES_H_

#include "grpcpp/server_builder.h"
#include "service/admission/call_context.h"
#include "service/datasets/dataset_store.h"
#include "service/feedback/feedback_store.h"
#include "service/histograms/histogram_store.h"
#include "service/partition_jobs/partition_jobs.h"
#include "service/rpc/admin_service.h"
#include "service/rpc/channelz_service.h"
#include "service/rpc/dataset_service.h"
#include "service/rpc/feedback_service.h"
#include "service/rpc/health_service.h"
#include "service/rpc/histogram_service.h"
#include "service/rpc/loader_service.h"
#include "service/rpc/packing_service.h"
#include "service/rpc/partitioning_service.h"
#include "service/rpc/planning_service.h"
#include "service/rpc/receipt_service.h"
#include "service/rpc/reflection_service.h"
#include "service/rpc/sampling_service.h"
#include "service/rpc/served_jobs.h"
#include "service/rpc/server_bounds.h"
#include "service/rpc/server_options.h"
#include "service/rpc/server_pools.h"
#include "service/rpc/source_graph_service.h"
#include "service/rpc/unknown_methods.h"
#include "service/source_graphs/source_graph_store.h"
#include "service/streams/byte_quota.h"
#include "service/streams/live_streams.h"
#include "service/streams/pack_observer.h"
#include "service/streams/stream_packer.h"

namespace packhouse::rpc {

// What the services work on. The pointees must outlive them.
struct ServiceSources {
  // Of all calls, and of streams of graphs.
  CallContext context;
  StreamBounds streams;
  ByteQuota* quota = nullptr;
  PackObserverFactory* pack_observers = nullptr;
  LiveStreams* live = nullptr;
  HistogramStore* histograms = nullptr;
  FeedbackStore* feedback = nullptr;
  // What is stored; null where it is not.
  DatasetStore* datasets = nullptr;
  SourceGraphStore* source_graphs = nullptr;
  // The same within the quotas of namespaces: for calls that make something.
  DatasetStore* bounded_datasets = nullptr;
  SourceGraphStore* bounded_source_graphs = nullptr;
  PartitionJobs* partitions = nullptr;
  const ServedJobs* jobs = nullptr;
  AdminView admin_view;
};

class Services {
 public:
  Services(const ServiceSources& sources, ServerPools& pools, const ServerOptions& options,
           const ServerBounds& bounds);

  // Channelz and reflection only if the options have them.
  void RegisterAt(grpc::ServerBuilder& builder, const ServerOptions& options);

  // What is served at the administrators' socket: AdminService, and of the others those that tell
  // of the process and of the contract.
  void RegisterForAdministratorsAt(grpc::ServerBuilder& builder, const ServerOptions& options);

  HealthService& health() { return health_; }
  LoaderService& loads() { return loads_; }

 private:
  PackingService packing_;
  HistogramService histograms_;
  FeedbackService feedback_;
  PlanningService planning_;
  DatasetService datasets_;
  SourceGraphService source_graphs_;
  PartitioningService partitioning_;
  LoaderService loads_;
  SamplingService sampling_;
  ReceiptService receipts_;
  AdminService admin_;
  ChannelzService channelz_;
  ReflectionService reflection_;
  ReflectionServiceV1Alpha reflection_v1alpha_;
  HealthService health_;
  UnknownMethods unknown_methods_;
  // The same at the administrators' socket: a service of gRPC belongs to one server.
  AdminService local_admin_;
  ChannelzService local_channelz_;
  ReflectionService local_reflection_;
  ReflectionServiceV1Alpha local_reflection_v1alpha_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_SERVICES_H_
