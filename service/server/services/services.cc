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
      grpc::reflection::v1::ServerReflection::service_full_name(),
      grpc::reflection::v1alpha::ServerReflection::service_full_name()};
  for (const ServerWing::Service& each : of_wings) names.push_back(each.name);
  return names;
}

// The services, and whether they can do anything.
absl::flat_hash_map<std::string, bool> ServedServices(
    bool has_data, const std::vector<ServerWing::Service>& of_wings) {
  absl::flat_hash_map<std::string, bool> served;
  for (std::string& name : ServiceNames(of_wings)) served.emplace(std::move(name), true);
  for (const ServerWing::Service& each : of_wings) served[each.name] = each.is_served;
  served[v1::DatasetService::service_full_name()] = has_data;
  served[v1::LoaderService::service_full_name()] = has_data;
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

Services::Services(const ServiceSources& sources, const WingSources& common,
                   const ServerOptions& options, const ServerBounds& bounds)
    : of_wings_(sources.of_wings),
      packing_(OpeningOn(common.pools->lookups.get(), common.context), common.streams,
               common.histograms, common.pack_observers, common.live, sources.lanes,
               *sources.examples),
      histograms_(WaitingForStore(
                      options.share_histograms == nullptr ? nullptr : common.pools->lookups.get(),
                      common.context),
                  common.histograms),
      // As histograms: where servers share their jobs, it waits for etcd.
      feedback_(WaitingOn(common.pools->lookups.get(), common.pools->reports.get(), common.context),
                sources.feedback),
      planning_(common.context, common.histograms, sources.quota,
                common.streams.max_graphs_per_batch, sources.feedback),
      datasets_(WaitingOn(common.pools->lookups.get(), common.pools->distant.get(), common.context),
                common.datasets, common.catalog, options.shares_jobs(), *sources.examples),
      // Its calls may have to open a job in etcd.
      loads_(WaitingOn(options.shares_jobs() ? &common.pools->appends : nullptr, nullptr,
                       common.context),
             sources.datasets, sources.kinds, sources.jobs->loader(), sources.jobs->jobs(),
             common.pack_observers, sources.feedback, sources.lanes, *sources.examples),
      receipts_(common.context, common.histograms, sources.datasets, sources.kinds,
                sources.jobs->loader(), sources.jobs->jobs()),
      admin_(common.context, options.admin, sources.admin_view),
      channelz_(common.context),
      reflection_(common.context, ServiceNames(of_wings_)),
      reflection_v1alpha_(common.context, ServiceNames(of_wings_)),
      health_(common.context, ServedServices(sources.jobs->loader() != nullptr, of_wings_),
              bounds.watches, options.readiness),
      unknown_methods_(common.context, options.absent_services),
      local_admin_(OfAdministrators(common.context), options.admin, sources.admin_view),
      local_channelz_(OfAdministrators(common.context)),
      local_reflection_(OfAdministrators(common.context), NamesForAdministrators()),
      local_reflection_v1alpha_(OfAdministrators(common.context), NamesForAdministrators()) {}

void Services::RegisterAt(grpc::ServerBuilder& builder, const ServerOptions& options) {
  builder.RegisterService(&packing_);
  builder.RegisterService(&histograms_);
  builder.RegisterService(&feedback_);
  builder.RegisterService(&planning_);
  builder.RegisterService(&datasets_);
  builder.RegisterService(&loads_);
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
