// The services of a server, and what else it answers: health, reflection, what gRPC knows of its
// connections, and methods that do not exist.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVICES_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVICES_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_builder.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/byte_quota.h"
#include "service/engine/streams/live_streams.h"
#include "service/engine/streams/pack_observer.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/call_context.h"
#include "service/server/lanes/lane_door.h"
#include "service/server/services/admin_service.h"
#include "service/server/services/channelz_service.h"
#include "service/server/services/dataset_service.h"
#include "service/server/services/feedback_service.h"
#include "service/server/services/health_service.h"
#include "service/server/services/histogram_service.h"
#include "service/server/services/loader_service.h"
#include "service/server/services/packing_service.h"
#include "service/server/services/planning_service.h"
#include "service/server/services/receipt_service.h"
#include "service/server/services/reflection_service.h"
#include "service/server/services/served_jobs.h"
#include "service/server/services/server_bounds.h"
#include "service/server/services/server_options.h"
#include "service/server/services/server_pools.h"
#include "service/server/services/server_wing.h"
#include "service/server/services/unknown_methods.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/graphs/services/sampling_service.h"
#include "service/wings/graphs/services/source_graph_service.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

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
  // ServerWing::graph_deletion(); null: the store deletes graphs.
  std::function<absl::Status(absl::string_view name)> delete_graph;
  // Of all wings.
  std::vector<ServerWing::Service> of_wings;
  const EpochKinds* kinds = nullptr;
  const ServedJobs* jobs = nullptr;
  // Null: there are no lanes.
  LaneDoor* lanes = nullptr;
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
  const std::vector<ServerWing::Service> of_wings_;
  PackingService packing_;
  HistogramService histograms_;
  FeedbackService feedback_;
  PlanningService planning_;
  DatasetService datasets_;
  SourceGraphService source_graphs_;
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

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_SERVICES_H_
