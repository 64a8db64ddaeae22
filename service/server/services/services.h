// The services of a server, and what else it answers: health, reflection, what gRPC knows of its
// connections, and methods that do not exist.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVICES_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVICES_H_

#include <vector>

#include "grpcpp/server_builder.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/streams/byte_quota.h"
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

namespace packhouse::rpc {

// What the services work on besides what wings have, too. The pointees must outlive them.
struct ServiceSources {
  ByteQuota* quota = nullptr;
  FeedbackStore* feedback = nullptr;
  // Whatever the quotas of namespaces are, for calls that make none. Null: there are none.
  DatasetStore* datasets = nullptr;
  // Of all wings.
  std::vector<ServerWing::Service> of_wings = {};
  const EpochKinds* kinds = nullptr;
  const ExampleFormat* examples = nullptr;
  const ServedJobs* jobs = nullptr;
  // Null: there are no lanes.
  LaneDoor* lanes = nullptr;
  AdminView admin_view;
};

class Services {
 public:
  Services(const ServiceSources& sources, const WingSources& common, const ServerOptions& options,
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
  LoaderService loads_;
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
