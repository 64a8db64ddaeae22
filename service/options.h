// The flags of packhoused, validated once.
#ifndef PACKHOUSE_SERVICE_OPTIONS_H_
#define PACKHOUSE_SERVICE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/rpc/server.h"
#include "service/security/security_files.h"

namespace packhouse {

struct Options {
  rpc::ServerOptions server;
  // The folder of data sets and epochs. Empty: the server has none.
  std::string data_dir;
  // Converts what an earlier release has stored there, and serves nothing.
  bool upgrade_store = false;
  uint64_t max_store_bytes = uint64_t{64} << 30;
  security::SecurityOptions security;
  std::string audit_log;   // Empty: none.
  std::string access_log;  // Empty: none.
  uint64_t access_log_every = 1;
  // Allows plain text from other machines.
  bool insecure = false;
  uint64_t max_source_graph_bytes = uint64_t{64} << 30;
  size_t max_source_graphs = 1024;
  std::string http_address;    // Empty: no HTTP.
  std::string tcp_congestion;  // Empty: the system's.
  absl::Duration lame_duck = absl::Seconds(5);
  absl::Duration drain_timeout = absl::Seconds(30);
  std::string log_level = "info";
};

// The options. Or an exit code, after --help or --version has been printed. Or INVALID_ARGUMENT
// naming the flag, the value and the bound.
std::variant<Options, int, absl::Status> ParseOptions(int argc, char** argv);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_OPTIONS_H_
