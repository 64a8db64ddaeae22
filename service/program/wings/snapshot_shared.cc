#include "service/program/wings/snapshot_shared.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/program/wings/address_flags.h"
#include "service/program/wings/cluster_snapshot.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/shared/store_uri.h"

namespace packhouse {
namespace {

using Work = absl::StatusOr<SnapshotReport> (*)(const ObjectEngines& engines,
                                                const std::string& snapshot, absl::Time now,
                                                SnapshotProgress progress);

SharedSnapshot Add(CLI::App& command, Work work) {
  const auto address = std::make_shared<StoreAddress>();
  AddAddressFlags(*address, command);
  CLI::Option* const store = command.get_option("folder");
  store->description(absl::StrCat(store->get_description(), "; or s3://BUCKET[/PREFIX]"));
  return
      [address, work](const std::string& uri, const std::string& snapshot,
                      SnapshotProgress progress) -> absl::StatusOr<std::optional<SnapshotReport>> {
        if (!absl::StrContains(uri, "://")) {
          if (address->ledger.uri.empty()) return std::nullopt;
          return absl::InvalidArgumentError(absl::StrCat("--ledger: is for s3://, not for ", uri));
        }
        if (!absl::StartsWith(uri, "s3://")) {
          return absl::InvalidArgumentError(
              absl::StrCat(uri, " is neither a folder nor s3://BUCKET[/PREFIX]"));
        }
        address->uri = uri;
        const SystemClock clock;
        PH_ASSIGN_OR_RETURN(const auto opened,
                            SharedStore::Open(*address, SharedDatasets::Binding::kNever, &clock));
        return work(opened->engines(), snapshot, clock.Now(), progress);
      };
}

}  // namespace

SharedSnapshot AddSharedSnapshot(CLI::App& snapshot) { return Add(snapshot, TakeClusterSnapshot); }

SharedSnapshot AddSharedRestore(CLI::App& restore) {
  return Add(restore, [](const ObjectEngines& engines, const std::string& snapshot, absl::Time now,
                         SnapshotProgress /*progress*/) {
    // A life that no other restore begins.
    const std::string life = absl::StrCat(absl::ToUnixSeconds(now), "-", DrawUniqueNumber());
    return RestoreClusterSnapshot(snapshot, engines, life);
  });
}

}  // namespace packhouse
