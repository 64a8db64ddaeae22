// Several servers over etcd and S3: the flags, and what a server shares.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/program/flag_checks.h"
#include "service/program/wing.h"
#include "service/program/wings/address_flags.h"
#include "service/program/wings/check_shared.h"
#include "service/program/wings/copy_command.h"
#include "service/program/wings/etcd_membership.h"
#include "service/program/wings/snapshot_shared.h"
#include "service/server/http/host_port.h"
#include "service/wings/cluster/shared/s3_address.h"
#include "service/wings/cluster/shared/shared_datasets.h"

namespace packhouse {
namespace {

constexpr uint64_t kBytesOfMiB = uint64_t{1} << 20;

absl::Status NotOfS3(const char* flag, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": not with --store s3://: ", why));
}

void AddMembershipOptions(MembershipOptions& options, CLI::App& app) {
  app.add_option(
      "--ledger", options.ledger,
      "etcd://HOST[:PORT],...[/PREFIX]: shares the jobs with the other servers that have "
      "the same; \"\": this server has all jobs, in --data-dir");
  app.add_option("--advertise", options.advertise,
                 "HOST:PORT at which clients reach this very server; for --ledger")
      ->check(HasSecret);
  AddLedgerFlags(options.roots_file, options.certificate_file, options.key_file, options.user, app);
}

void AddStoreOptions(SharedDatasetsOptions& shared, std::string& sweep_period, CLI::App& app) {
  AddS3Flags(shared, app);
  app.add_option("--cache-dir", shared.cache_folder,
                 "folder, on a local disk, of this server alone, for copies of what is in s3://");
  app.add_option("--sweep-period", sweep_period,
                 "time between two looks for objects in s3:// that no data set has");
}

// What servers that share the jobs do not do is refused here, by name.
absl::Status CheckMembership(const Options& options) {
  const MembershipOptions& membership = options.membership;
  if (membership.ledger.empty()) {
    for (const auto& [flag, value] : {std::pair("--advertise", &membership.advertise),
                                      std::pair("--ledger-ca", &membership.roots_file),
                                      std::pair("--ledger-cert", &membership.certificate_file),
                                      std::pair("--ledger-key", &membership.key_file)}) {
      if (value->empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(flag, ": needs --ledger"));
    }
    return absl::OkStatus();
  }
  if (membership.certificate_file.empty() != membership.key_file.empty()) {
    return absl::InvalidArgumentError("--ledger-cert, --ledger-key: each needs the other");
  }
  if (!membership.certificate_file.empty() && membership.roots_file.empty()) {
    return absl::InvalidArgumentError("--ledger-cert: needs --ledger-ca");
  }
  const auto advertised = http::ParseHostPort(membership.advertise);
  if (!advertised.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--advertise: '", membership.advertise,
                     "' is not HOST:PORT; --ledger needs it: ", advertised.status().message()));
  }
  if (options.data_dir.empty() && !options.store.is_shared) {
    return absl::InvalidArgumentError(
        "--ledger: needs --store s3://, or --data-dir, with the data sets, the same for all "
        "servers");
  }
  if (options.signing_key.empty()) {
    return absl::InvalidArgumentError(
        "--ledger: needs --signing-key, the same for all servers: each takes the others' cursors");
  }
  if (!options.snapshot_dir.empty()) {
    return absl::InvalidArgumentError("--snapshot-dir: not with --ledger: the jobs are in etcd");
  }
  return absl::OkStatus();
}

// Sets what `shared` has besides its flags. `sweep_period` as it was given.
absl::Status CheckStore(const Options& options, const std::string& sweep_period,
                        SharedDatasetsOptions& shared) {
  if (!options.store.is_shared) {
    for (const auto& [flag, value] :
         {std::pair("--s3-endpoint", &shared.endpoint), std::pair("--s3-region", &shared.region),
          std::pair("--s3-credentials", &shared.credentials_file),
          std::pair("--s3-ca", &shared.ca_file), std::pair("--cache-dir", &shared.cache_folder)}) {
      if (value->empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(flag, ": needs --store s3://BUCKET"));
    }
    return absl::OkStatus();
  }
  if (const auto address = ParseS3Uri(options.store.uri); !address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--store: neither lmdb:DIR nor s3://BUCKET[/PREFIX]: ", address.status().message()));
  }
  shared.uri = options.store.uri;
  if (options.membership.ledger.empty()) {
    return absl::InvalidArgumentError(
        "--store s3://: needs --ledger etcd://HOST,...: what is consistent is kept there");
  }
  if (shared.cache_folder.empty()) {
    return absl::InvalidArgumentError("--store s3://: needs --cache-dir");
  }
  if (!options.data_dir.empty()) {
    return NotOfS3("--data-dir", "nothing but the cache is on this machine");
  }
  if (!absl::ParseDuration(sweep_period, &shared.sweep_period) ||
      shared.sweep_period < absl::Seconds(1) || shared.sweep_period > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sweep-period: '", sweep_period, "' is not a duration from 1s to 24h"));
  }
  shared.region = S3RegionOr(shared.region);
  shared.endpoint = S3EndpointOr(shared.endpoint, shared.region);
  PH_RETURN_IF_ERROR(CheckS3Endpoint(shared.endpoint, options.insecure));
  shared.max_bytes = options.store.max_bytes;
  // At least a largest message, of which --memory-budget has eight.
  shared.memory_bytes = std::max(64 * kBytesOfMiB, options.server.memory_budget / 8);
  return absl::OkStatus();
}

class ClusterWing final : public Wing {
 public:
  void AddFlags(Options& options, CLI::App& app) override {
    AddMembershipOptions(options.membership, app);
    app.add_option("--ledger-lease", lease_,
                   "jobs of a server that is gone are taken by others after this time")
        ->capture_default_str()
        ->check(DurationFrom(absl::Seconds(3), absl::Hours(1)));
    AddStoreOptions(shared_, sweep_period_, app);
  }
  // Whatever it is: the error says which there are.
  bool TakesStore(absl::string_view /*uri*/) const override { return true; }
  absl::Status CheckFlags(Options& options) override {
    (void)absl::ParseDuration(lease_, &options.membership.lease);  // Checked.
    PH_RETURN_IF_ERROR(CheckStore(options, sweep_period_, shared_));
    return CheckMembership(options);
  }
  absl::StatusOr<std::unique_ptr<Membership>> Join(const Options& options,
                                                   const MemberSettings& settings,
                                                   LimitedLog* log) override {
    MemberSettings all = settings;
    all.should_be_equal.insert({{"--ledger-lease", absl::FormatDuration(options.membership.lease)},
                                {"--max-store-bytes", absl::StrCat(shared_.max_bytes)}});
    for (const auto& [flag, retention] :
         {std::pair("--dataset-retention", &options.dataset_retention),
          std::pair("--source-graph-retention", &options.source_graph_retention),
          std::pair("--histogram-retention", &options.histogram_retention)}) {
      all.should_be_equal[flag] = RetentionText(*retention);
    }
    return EtcdMembership::Join(options, shared_, all, log);
  }

 private:
  std::string lease_ = "10s";
  std::string sweep_period_ = "10m";
  SharedDatasetsOptions shared_;
};

}  // namespace

BuiltWing ClusterInProgram() {
  return {.name = "cluster",
          .make = [] { return std::unique_ptr<Wing>(new ClusterWing); },
          .add_to_store = AddCopyCommand,
          .add_to_check = AddSharedCheck,
          .add_to_repair = AddSharedRepair,
          .add_to_snapshot = AddSharedSnapshot,
          .add_to_restore = AddSharedRestore};
}

}  // namespace packhouse
