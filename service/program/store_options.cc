#include "service/program/store_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/program/byte_flag.h"
#include "service/wings/cluster/shared/s3_address.h"

namespace packhouse {
namespace {

constexpr uint64_t kBytesOfMiB = uint64_t{1} << 20;

absl::Status NotOfS3(const char* flag, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": not with --store s3://: ", why));
}

}  // namespace

void AddStoreOptions(StoreOptions& options, CLI::App& app) {
  SharedDatasetsOptions& shared = options.shared;
  app.add_option("--store", options.uri,
                 "data sets: lmdb:DIR, the same as --data-dir DIR; or s3://BUCKET[/PREFIX], which "
                 "servers share, with --ledger and --cache-dir; \"\": --data-dir");
  app.add_option("--s3-endpoint", shared.endpoint,
                 "https://HOST[:PORT] of that store; \"\": AWS_ENDPOINT_URL_S3 or "
                 "AWS_ENDPOINT_URL, or Amazon's. http:// beyond this machine needs --insecure");
  app.add_option("--s3-region", shared.region,
                 "its region; \"\": AWS_REGION or AWS_DEFAULT_REGION, or us-east-1");
  app.add_option("--s3-credentials", shared.credentials_file,
                 "file of keys as S3's tools have it, section [default], renewed while the server "
                 "runs; \"\": AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN");
  app.add_option("--s3-ca", shared.ca_file,
                 "certificates, in PEM, by which the endpoint's is checked; \"\": the system's");
  app.add_option("--cache-dir", shared.cache_folder,
                 "folder, on a local disk, of this server alone, for copies of what is in s3://");
  app.add_option("--cache-bytes", shared.cache_bytes,
                 "most bytes of that folder; the data sets that are in use at once must fit")
      ->transform(BytesFrom(kBytesOfMiB, uint64_t{1} << 50));
  app.add_option("--sweep-period", options.sweep_period,
                 "time between two looks for objects in s3:// that no data set has");
}

absl::Status ResolveStore(StoreOptions& options, const StoreContext& context) {
  SharedDatasetsOptions& shared = options.shared;
  absl::string_view folder = options.uri;
  if (absl::ConsumePrefix(&folder, "lmdb:")) {
    if (folder.empty()) return absl::InvalidArgumentError("--store lmdb: has no folder");
    if (!context.data_dir->empty() && *context.data_dir != folder) {
      return absl::InvalidArgumentError(
          absl::StrCat("--store ", options.uri, ": --data-dir is ", *context.data_dir));
    }
    *context.data_dir = std::string(folder);
  } else if (!options.uri.empty()) {
    if (const auto address = ParseS3Uri(options.uri); !address.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--store: neither lmdb:DIR nor s3://BUCKET[/PREFIX]: ", address.status().message()));
    }
    shared.uri = options.uri;
  }
  if (!options.is_shared()) {
    for (const auto& [flag, value] :
         {std::pair("--s3-endpoint", &shared.endpoint), std::pair("--s3-region", &shared.region),
          std::pair("--s3-credentials", &shared.credentials_file),
          std::pair("--s3-ca", &shared.ca_file), std::pair("--cache-dir", &shared.cache_folder)}) {
      if (value->empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(flag, ": needs --store s3://BUCKET"));
    }
    return absl::OkStatus();
  }
  if (!context.has_ledger) {
    return absl::InvalidArgumentError(
        "--store s3://: needs --ledger etcd://HOST,...: what is consistent is kept there");
  }
  if (shared.cache_folder.empty()) {
    return absl::InvalidArgumentError("--store s3://: needs --cache-dir");
  }
  if (!context.data_dir->empty()) {
    return NotOfS3("--data-dir", "nothing but the cache is on this machine");
  }
  if (context.has_retention) {
    return NotOfS3("--dataset-retention", "no server knows when the others used a data set");
  }
  if (!absl::ParseDuration(options.sweep_period, &shared.sweep_period) ||
      shared.sweep_period < absl::Seconds(1) || shared.sweep_period > absl::Hours(24)) {
    return absl::InvalidArgumentError(absl::StrCat("--sweep-period: '", options.sweep_period,
                                                   "' is not a duration from 1s to 24h"));
  }
  shared.region = S3RegionOr(shared.region);
  shared.endpoint = S3EndpointOr(shared.endpoint, shared.region);
  PH_RETURN_IF_ERROR(CheckS3Endpoint(shared.endpoint, context.allows_plain_text));
  shared.max_bytes = context.max_store_bytes;
  // At least a largest message, of which --memory-budget has eight.
  shared.memory_bytes = std::max(64 * kBytesOfMiB, context.memory_budget / 8);
  return absl::OkStatus();
}

}  // namespace packhouse
