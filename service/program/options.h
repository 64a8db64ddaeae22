// The flags of packhoused, validated once.
#ifndef PACKHOUSE_SERVICE_PROGRAM_OPTIONS_H_
#define PACKHOUSE_SERVICE_PROGRAM_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/access/security/security_files.h"
#include "service/program/membership.h"
#include "service/server/services/server_options.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

class Wing;

// --store.
struct StoreOptions {
  std::string uri;
  // Whether it is one that servers share.
  bool is_shared = false;
  // --max-store-bytes; 0: not given.
  uint64_t max_bytes = 0;
};

// What a process takes besides its --memory-budget and 15 % of it (deploy/README.md).
inline constexpr uint64_t kBytesBesideBudget = uint64_t{128} << 20;

struct Options {
  // Those that were built; with their flags.
  std::vector<std::shared_ptr<Wing>> wings;
  rpc::ServerOptions server;
  // The folder of data sets and epochs. Empty: the server has none.
  std::string data_dir;
  // Data sets that nobody has used for this long are deleted.
  Retention dataset_retention;
  // The same of named histograms and of measured models.
  Retention histogram_retention;
  Retention model_retention;
  // Of source graphs: a wing's, for several of them.
  Retention source_graph_retention;
  // Below which snapshots of it are written. Empty: clients can take none.
  std::string snapshot_dir;
  StoreOptions store;
  uint64_t max_store_bytes = uint64_t{64} << 30;
  // Shares the jobs with other servers, if its `ledger` is set.
  MembershipOptions membership;
  security::SecurityOptions security;
  std::string signing_key;  // Empty: "signing.key" in the data folder.
  std::string audit_log;    // Empty: none.
  std::string access_log;   // Empty: none.
  uint64_t access_log_every = 1;
  // Allows plain text from other machines, on both ports.
  bool insecure = false;
  size_t max_measured_models = 256;
  // Of a wing's, for several of them.
  uint64_t max_source_graph_bytes = uint64_t{64} << 30;
  size_t max_source_graphs = 1024;
  std::string http_address;             // Empty: no HTTP.
  std::vector<std::string> http_names;  // HttpSecurity::names.
  bool http_tls = false;                // By the certificate of `security.tls`.
  bool http_auth = false;               // HttpAdmission::demands_credentials.
  std::string tcp_congestion;           // Empty: the system's.
  absl::Duration lame_duck = absl::Seconds(5);
  absl::Duration drain_timeout = absl::Seconds(30);
  std::string log_level = "info";
  std::optional<uint64_t> memory_limit;  // Of the cgroup, in bytes.
};

// The options. Or an exit code, after --help or --version has been printed. Or INVALID_ARGUMENT
// naming the flag, the value and the bound.
std::variant<Options, int, absl::Status> ParseOptions(int argc, char** argv);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_OPTIONS_H_
