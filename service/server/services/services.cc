#include "service/server/services/services.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/feedback.grpc.pb.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "packhouse/v1/sampling.grpc.pb.h"
#include "packhouse/v1/source_graph.grpc.pb.h"

namespace packhouse::rpc {
namespace {

// The services as server reflection lists them.
std::vector<std::string> ServiceNames(const std::vector<ServerWing::Service>& of_wings) {
  std::vector<std::string> names = {
      grpc::health::v1::Health::service_full_name(),
      v1::AdminService::service_full_name(),
      v1::DatasetService::service_full_name(),
      v1::FeedbackService::service_full_name(),
      v1::HistogramService::service_full_name(),
      v1::LoaderService::service_full_name(),
      v1::PackingService::service_full_name(),
      v1::PlanningService::service_full_name(),
      v1::ReceiptService::service_full_name(),
      v1::SamplingService::service_full_name(),
      v1::SourceGraphService::service_full_name(),
      grpc::reflection::v1::ServerReflection::service_full_name(),
      grpc::reflection::v1alpha::ServerReflection::service_full_name()};
  for (const ServerWing::Service& each : of_wings) names.push_back(each.name);
  return names;
}

// The services, and whether they can do anything.
absl::flat_hash_map<std::string, bool> ServedServices(
    bool has_data, bool has_source_graphs, const std::vector<ServerWing::Service>& of_wings) {
  absl::flat_hash_map<std::string, bool> served;
  for (std::string& name : ServiceNames(of_wings)) served.emplace(std::move(name), true);
  for (const ServerWing::Service& each : of_wings) served[each.name] = each.is_served;
  served[v1::DatasetService::service_full_name()] = has_data;
  served[v1::LoaderService::service_full_name()] = has_data;
  served[v1::SamplingService::service_full_name()] = has_source_graphs;
  served[v1::SourceGraphService::service_full_name()] = has_source_graphs;
  return served;
}

// All of such calls runs on the pool, streams too; null: as it is without it.
CallContext WaitingForStore(WorkerPool* pool, CallContext context) {
  if (pool != nullptr) context.stream_pool = context.call_pool = pool;
  return context;
}

// Whoever may open the socket needs nothing else, whatever the policy says.
CallContext OfAdministrators(CallContext context) {
  context.authenticator = nullptr;
  context.authorizer = nullptr;
  context.is_administrators = true;
  return context;
}

std::vector<std::string> NamesForAdministrators() {
  return {v1::AdminService::service_full_name(),
          grpc::reflection::v1::ServerReflection::service_full_name(),
          grpc::reflection::v1alpha::ServerReflection::service_full_name()};
}

}  // namespace

Services::Services(const ServiceSources& sources, ServerPools& pools, const ServerOptions& options,
                   const ServerBounds& bounds)
    : of_wings_(sources.of_wings),
      packing_(OpeningOn(pools.lookups.get(), sources.context), sources.streams, sources.histograms,
               sources.pack_observers, sources.live, sources.lanes),
      histograms_(
          WaitingForStore(options.share_histograms == nullptr ? nullptr : pools.lookups.get(),
                          sources.context),
          sources.histograms),
      // As histograms: where servers share their jobs, it waits for etcd.
      feedback_(WaitingOn(pools.lookups.get(), pools.reports.get(), sources.context),
                sources.feedback),
      planning_(sources.context, sources.histograms, sources.quota,
                sources.streams.max_graphs_per_batch, sources.feedback),
      datasets_(WaitingOn(pools.lookups.get(), pools.distant.get(), sources.context),
                sources.bounded_datasets, sources.jobs->catalog(), options.shares_jobs()),
      source_graphs_(WaitingOn(pools.lookups.get(), pools.distant.get(), sources.context),
                     sources.bounded_source_graphs, sources.delete_graph, sources.jobs->catalog(),
                     options.shares_jobs()),
      // Its calls may have to open a job in etcd.
      loads_(WaitingOn(options.shares_jobs() ? &pools.appends : nullptr, nullptr, sources.context),
             sources.datasets, sources.kinds, sources.jobs->loader(), sources.jobs->jobs(),
             sources.pack_observers, sources.feedback, sources.lanes),
      // To open a source graph is to wait for S3. To draw from an open one is not.
      sampling_(OpeningOn(pools.distant.get(), sources.context), sources.streams,
                sources.histograms, sources.pack_observers, sources.live, sources.source_graphs,
                sources.bounded_datasets, options.sampling_observer),
      receipts_(sources.context, sources.histograms, sources.datasets, sources.kinds,
                sources.jobs->loader(), sources.jobs->jobs()),
      admin_(sources.context, options.admin, sources.admin_view),
      channelz_(sources.context),
      reflection_(sources.context, ServiceNames(of_wings_)),
      reflection_v1alpha_(sources.context, ServiceNames(of_wings_)),
      health_(sources.context,
              ServedServices(sources.jobs->loader() != nullptr, sources.source_graphs != nullptr,
                             of_wings_),
              bounds.watches, options.readiness),
      unknown_methods_(sources.context, options.absent_services),
      local_admin_(OfAdministrators(sources.context), options.admin, sources.admin_view),
      local_channelz_(OfAdministrators(sources.context)),
      local_reflection_(OfAdministrators(sources.context), NamesForAdministrators()),
      local_reflection_v1alpha_(OfAdministrators(sources.context), NamesForAdministrators()) {}

void Services::RegisterAt(grpc::ServerBuilder& builder, const ServerOptions& options) {
  builder.RegisterService(&packing_);
  builder.RegisterService(&histograms_);
  builder.RegisterService(&feedback_);
  builder.RegisterService(&planning_);
  builder.RegisterService(&datasets_);
  builder.RegisterService(&source_graphs_);
  builder.RegisterService(&loads_);
  builder.RegisterService(&sampling_);
  builder.RegisterService(&admin_);
  if (options.channelz) builder.RegisterService(&channelz_);
  builder.RegisterService(&receipts_);
  for (const ServerWing::Service& each : of_wings_) builder.RegisterService(each.service);
  builder.RegisterService(&health_);
  builder.RegisterCallbackGenericService(&unknown_methods_);
  if (options.reflection) {
    builder.RegisterService(&reflection_);
    builder.RegisterService(&reflection_v1alpha_);
  }
}

void Services::RegisterForAdministratorsAt(grpc::ServerBuilder& builder,
                                           const ServerOptions& options) {
  builder.RegisterService(&local_admin_);
  if (options.channelz) builder.RegisterService(&local_channelz_);
  if (options.reflection) {
    builder.RegisterService(&local_reflection_);
    builder.RegisterService(&local_reflection_v1alpha_);
  }
}

}  // namespace packhouse::rpc
