// packhoused store check and repair s3://...: what servers share, read by the program itself.
#include "service/program/wings/check_shared.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/execution.h"
#include "service/base/status_macros.h"
#include "service/program/wings/address_flags.h"
#include "service/wings/cluster/check/cluster_check.h"
#include "service/wings/cluster/check/cluster_repair.h"
#include "service/wings/cluster/shared/store_uri.h"

namespace packhouse {
namespace {

// Opens what servers share.
absl::Status WithCluster(const StoreAddress& address,
                         absl::FunctionRef<absl::Status(const CheckedCluster& cluster)> work) {
  const SystemClock clock;
  CheckedCluster cluster;
  cluster.keys_name = address.ledger.uri;
  if (absl::StartsWith(address.uri, "s3://")) {
    PH_ASSIGN_OR_RETURN(const auto store,
                        SharedStore::Open(address, SharedDatasets::Binding::kNever, &clock));
    cluster.engines = store->engines();
    cluster.datasets = store->store();
    PH_ASSIGN_OR_RETURN(cluster.source_graphs, store->source_graphs());
    cluster.companions = store->companions();
    cluster.objects_name = address.uri;
    return work(cluster);
  }
  if (absl::StrContains(address.uri, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat(address.uri, " is neither a folder nor s3://BUCKET[/PREFIX]"));
  }
  // Servers with copies of a data folder share the rest.
  PH_ASSIGN_OR_RETURN(const auto keys, ConnectLedger(address.ledger));
  cluster.engines.keys = keys.get();
  cluster.engines.clock = &clock;
  cluster.engines.sleep = Pause;
  cluster.engines.draw = DrawUniqueNumber;
  return work(cluster);
}

// Whether something that servers share is meant.
bool IsShared(const StoreAddress& address) {
  return absl::StrContains(address.uri, "://") || !address.ledger.uri.empty();
}

std::shared_ptr<StoreAddress> AddAddress(CLI::App& command, absl::string_view servers) {
  auto address = std::make_shared<StoreAddress>();
  AddAddressFlags(*address, command);
  CLI::Option* const store = command.get_option("folder");
  store->description(
      absl::StrCat(store->get_description(), "; or s3://BUCKET[/PREFIX], whose servers ", servers));
  return address;
}

}  // namespace

SharedCheck AddSharedCheck(CLI::App& check) {
  return [address = AddAddress(check, "may run")](const std::string& uri, DamageVisitor found,
                                                  StoredCounts& counts) {
    address->uri = uri;
    if (!IsShared(*address)) return absl::OkStatus();
    return WithCluster(*address, [&](const CheckedCluster& cluster) {
      return CheckCluster(cluster, found, counts);
    });
  };
}

SharedRepair AddSharedRepair(CLI::App& repair) {
  return [address = AddAddress(repair, "must not run")](
             const std::string& uri, const RepairOptions& options, RepairReport& report) {
    address->uri = uri;
    if (!IsShared(*address)) return absl::OkStatus();
    return WithCluster(*address, [&](const CheckedCluster& cluster) {
      return RepairCluster(cluster, options, report);
    });
  };
}

}  // namespace packhouse
