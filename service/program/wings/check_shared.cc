// packhoused store check s3://...: what servers share, read by the program itself.
#include "service/program/wings/check_shared.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/execution.h"
#include "service/base/status_macros.h"
#include "service/program/wings/address_flags.h"
#include "service/wings/cluster/check/cluster_check.h"
#include "service/wings/cluster/shared/store_uri.h"

namespace packhouse {
namespace {

absl::Status Check(const StoreAddress& address, DamageVisitor found, StoredCounts& counts) {
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
    return CheckCluster(cluster, found, counts);
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
  return CheckCluster(cluster, found, counts);
}

}  // namespace

SharedCheck AddSharedCheck(CLI::App& check) {
  const auto address = std::make_shared<StoreAddress>();
  AddAddressFlags(*address, check);
  CLI::Option* const store = check.get_option("folder");
  store->description(
      absl::StrCat(store->get_description(), "; or s3://BUCKET[/PREFIX], whose servers may run"));
  return [address](const std::string& uri, DamageVisitor found, StoredCounts& counts) {
    address->uri = uri;
    const bool is_shared = absl::StrContains(uri, "://") || !address->ledger.uri.empty();
    return is_shared ? Check(*address, found, counts) : absl::OkStatus();
  };
}

}  // namespace packhouse
