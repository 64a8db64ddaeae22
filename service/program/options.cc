#include "service/program/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/cgroup_limits.h"
#include "service/base/command_words.h"
#include "service/base/memory_shares.h"
#include "service/base/status_macros.h"
#include "service/program/byte_flag.h"
#include "service/program/commands/commands.h"
#include "service/program/configuration.h"
#include "service/program/flag_checks.h"
#include "service/program/version.h"
#include "service/program/wing.h"
#include "service/server/http/host_port.h"

namespace packhouse {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string IsGrpcAddress(const std::string& address) {
  constexpr absl::string_view kUnix = "unix:";
  if (absl::StartsWith(address, kUnix)) {
    return address.size() > kUnix.size() ? "" : absl::StrCat("'", address, "' has no path");
  }
  if (const std::string secret = HasSecret(address); !secret.empty()) return secret;
  const auto parsed = http::ParseHostPort(address);
  return parsed.ok()
             ? ""
             : absl::StrCat("'", address,
                            "' is neither host:port nor unix:/path: ", parsed.status().message());
}

std::string IsHttpAddress(const std::string& address) {
  if (address.empty()) return "";
  if (const std::string secret = HasSecret(address); !secret.empty()) return secret;
  const auto parsed = http::ParseHostPort(address);
  return parsed.ok()
             ? ""
             : absl::StrCat("'", address, "' is not host:port: ", parsed.status().message());
}

void AddSecurityOptions(security::SecurityOptions& options, CLI::App& app) {
  app.add_option("--tls-cert", options.tls.certificate,
                 "PEM file of the server's certificate, then those between it and its CA; renewed "
                 "while the server runs. \"\": plain text");
  app.add_option("--tls-key", options.tls.key, "PEM file of its key, without a pass phrase");
  app.add_option("--tls-client-ca", options.tls.client_ca,
                 "PEM file of the CAs that sign clients' certificates. Clients must then show one, "
                 "or a token if there are tokens; \"\": none is asked for");
  app.add_option("--token-file", options.callers.token_file,
                 "file of bearer tokens: in each line a principal and the SHA-256 of its token");
  app.add_option("--jwt-keys", options.callers.jwks_file,
                 "JWKS file of an issuer whose tokens (JWTs) are taken, such as Kubernetes' for "
                 "service accounts");
  app.add_option("--jwt-audience", options.callers.jwt.audience,
                 "the audience that such a token must be for");
  app.add_option("--jwt-issuer", options.callers.jwt.issuer,
                 "the issuer that such a token must name; \"\": any that has the keys");
  app.add_option("--policy", options.policy,
                 "YAML file of roles and quotas (docs/security.md); \"\": everybody may do "
                 "everything");
}

constexpr absl::string_view kAuto = "auto";
// Of sockaddr_un, with its last byte.
constexpr size_t kMostOfSocketPath = 107;

std::string IsAdminAddress(const std::string& address) {
  if (address.empty() || address == kAuto) return "";
  if (const std::string secret = HasSecret(address);
      !secret.empty() && !absl::StartsWith(address, "unix:")) {
    return secret;
  }
  if (absl::StartsWith(address, "unix:") && address.size() > 5) return "";
  return absl::StrCat("'", address,
                      "' is not unix:/path: the permissions of that file say who may administer "
                      "the server");
}

std::string IsLaneAddress(const std::string& address) {
  if (address.empty() || (absl::StartsWith(address, "unix:/") && address.size() > 6)) return "";
  if (const std::string secret = HasSecret(address); !secret.empty()) return secret;
  return absl::StrCat("'", address, "' is not unix:/path: clients get the path from the server");
}

// A socket of this process that needs no flag: in the data folder, or else in the user's folder for
// such. "" if there is neither, or the path would be too long.
std::string AutoAdminAddress(const std::string& data_dir) {
  std::vector<std::string> paths;
  if (!data_dir.empty()) {
    paths.push_back(absl::StrCat(std::filesystem::absolute(data_dir).string(), "/admin.sock"));
  }
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/') {
    paths.push_back(absl::StrCat(runtime, "/packhoused-", ::getpid(), ".sock"));
  }
  for (const std::string& path : paths) {
    if (path.size() <= kMostOfSocketPath) return absl::StrCat("unix:", path);
  }
  return "";
}

// Whether only this machine reaches the address.
bool IsLocal(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return absl::StartsWith(host, "127.") || host == "localhost" || host == "[::1]";
}

absl::Status CheckSecurity(const Options& options) {
  const security::TlsPaths& tls = options.security.tls;
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(tls.key.empty() ? "--tls-cert: needs --tls-key"
                                                      : "--tls-key: needs --tls-cert");
  }
  if (!tls.client_ca.empty() && tls.certificate.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca: needs --tls-cert");
  }
  const auto& callers = options.security.callers;
  if (!callers.jwks_file.empty() && callers.jwt.audience.empty()) {
    return absl::InvalidArgumentError(
        "--jwt-keys: needs --jwt-audience, so that tokens for other services are refused");
  }
  if (callers.jwks_file.empty() && (!callers.jwt.audience.empty() || !callers.jwt.issuer.empty())) {
    return absl::InvalidArgumentError("--jwt-audience, --jwt-issuer: need --jwt-keys");
  }
  if (options.http_tls && tls.certificate.empty()) {
    return absl::InvalidArgumentError("--http-tls: needs --tls-cert and --tls-key");
  }
  if (options.http_auth && !callers.has_token_sources() &&
      !(options.http_tls && !tls.client_ca.empty())) {
    return absl::InvalidArgumentError(
        "--http-auth: needs --token-file or --jwt-keys, or --http-tls and --tls-client-ca");
  }
  if (!options.http_address.empty() && !options.http_tls && !options.insecure &&
      !IsLocal(options.http_address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http-listen ", options.http_address,
                     ": other machines may reach it; needs --http-tls, or --insecure for plain "
                     "text"));
  }
  if (tls.certificate.empty() && !options.insecure && !IsLocal(options.server.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", options.server.address,
                     ": other machines may reach it; needs --tls-cert and --tls-key, or --insecure "
                     "for plain text"));
  }
  return absl::OkStatus();
}

// In whole MiB.
uint64_t BudgetWithin(uint64_t memory_bytes) {
  const uint64_t room =
      memory_bytes > kBytesBesideBudget ? (memory_bytes - kBytesBesideBudget) / 115 * 100 : 0;
  return std::max(LeastBudget(rpc::ServerOptions().max_message_bytes), room / kMiB * kMiB);
}

// Of arguments that `app` has parsed and that are none of its flags.
absl::Status UnknownArguments(const CLI::App& app) {
  std::string said;
  for (const std::string& each : app.remaining()) {
    if (IsCommand(each)) {
      return absl::InvalidArgumentError(absl::StrCat(
          each, " is a command, which takes none of these flags: it must be the first word"));
    }
    absl::StrAppend(&said, said.empty() ? "" : "; ",
                    absl::StartsWith(each, "--") ? "there is no flag " : "not expected: ", each,
                    absl::StartsWith(each, "--") ? SuggestionFor(app, each.substr(2)) : "");
  }
  return absl::InvalidArgumentError(absl::StrCat(said, "; packhoused --help lists the flags"));
}

// What flags say in words, until all of them are known.
struct Words {
  std::string lame_duck = "5s";
  std::string drain_timeout = "30s";
  std::string max_connection_age = "0s";
  std::string max_connection_age_grace = "0s";
  std::string lease_duration = "5m";
  std::string stream_idle_timeout = "1h";
  std::string connection_idle_timeout = "1h";
  std::string epoch_retention = "720h";
  std::string dataset_retention = "0s";
  std::string histogram_retention = "0s";
  std::string model_retention = "0s";
  std::string http_names;
};

// What holds where nothing is said: some of it depends on the machine.
Options DefaultOptions() {
  Options options;
  rpc::ServerOptions& server = options.server;
  server.address = "127.0.0.1:50051";
  server.admin_address = std::string(kAuto);
  options.http_address = "127.0.0.1:9464";
  const CgroupLimits cgroup = ReadCgroupLimits();
  const unsigned cores = NumProcessors(cgroup);
  server.stream_threads = cores;
  server.call_threads = cores;
  server.plan_threads = cores;
  options.memory_limit = cgroup.memory_bytes;
  if (cgroup.memory_bytes) {
    server.memory_budget = std::min(server.memory_budget, BudgetWithin(*cgroup.memory_bytes));
  }
  // Longer than a fast disk's commits, and not felt by a worker that begins an epoch.
  server.jobs.gather_joins = absl::Milliseconds(10);
  return options;
}

void AddListenOptions(Options& options, Words& words, CLI::App& app) {
  rpc::ServerOptions& server = options.server;
  app.add_option("--listen", server.address, "gRPC: host:port (port 0: any) or unix:/path")
      ->check(IsGrpcAddress);
  app.add_option("--admin-listen", server.admin_address,
                 "unix:/path of a socket at which whoever may open it may administer the server; "
                 "\"auto\": admin.sock in --data-dir, else packhoused-PID.sock in "
                 "$XDG_RUNTIME_DIR; \"\": none")
      ->check(IsAdminAddress);
  app.add_option("--lane", server.lane_address,
                 "unix:/path of a socket at which trainers on this host get their batches through "
                 "shared memory (docs/lane.md); \"\": none")
      ->check(IsLaneAddress);
  app.add_flag("--insecure", options.insecure,
               "allows plain text on addresses that other machines reach; without it, such a "
               "--listen needs --tls-cert, and such a --http-listen --http-tls");
  AddSecurityOptions(options.security, app);
  app.add_option("--audit-log", options.audit_log,
                 "file to which a JSON line is appended for each call that changes something or is "
                 "refused; opened anew when it was renamed. \"\": none");
  app.add_option("--access-log", options.access_log, "the same for all calls; \"\": none");
  app.add_option("--access-log-every", options.access_log_every,
                 "of so many calls, one is in --access-log")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--http-listen", options.http_address,
                 "the page, /metrics, /healthz, /readyz: host:port (port 0: any); \"\" for none")
      ->check(IsHttpAddress);
  app.add_option("--http-names", words.http_names,
                 "names under which browsers know that port, with commas between them, as through "
                 "a proxy; \"*\": any. Numeric addresses and localhost need none, nor does TLS");
  app.add_flag("--http-tls", options.http_tls,
               "HTTPS on that port, with the certificate of --tls-cert; clients may show a "
               "certificate that --tls-client-ca has signed");
  app.add_flag("--http-auth", options.http_auth,
               "all of that port but /healthz and /readyz needs a bearer token or a client's "
               "certificate, and the right to view");
  app.add_option(
      "--tcp-congestion", options.tcp_congestion,
      "TCP congestion control of gRPC's connections, e.g. reno or cubic where the system "
      "has bbr and clients are on this machine; \"\" for the system's");
}

// How a server ends, and what it says meanwhile.
void AddLifeOptions(Options& options, Words& words, CLI::App& app) {
  app.add_option(
         "--lame-duck", words.lame_duck,
         "how long everything is still served after SIGTERM, while /readyz and health say that "
         "the server ends: load balancers need this time to notice")
      ->check(DurationFrom(absl::ZeroDuration()));
  app.add_option("--drain-timeout", words.drain_timeout,
                 "how long open streams may work on after the lame-duck time")
      ->check(DurationFrom(absl::ZeroDuration()));
  app.add_option("--max-connection-age", words.max_connection_age,
                 "after about this time a client's next calls use a new connection, perhaps to "
                 "another server; 0s: never")
      ->check(DurationFrom(absl::ZeroDuration()));
  app.add_option("--max-connection-age-grace", words.max_connection_age_grace,
                 "how long calls and streams on such a connection may go on; 0s: without a bound")
      ->check(DurationFrom(absl::ZeroDuration()));
  app.add_option("--log-level", options.log_level, "lowest level that is logged to stderr")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
}

void AddThreadOptions(Options& options, CLI::App& app) {
  rpc::ServerOptions& server = options.server;
  app.add_option("--worker-threads", server.stream_threads, "threads that pack and collate")
      ->check(CLI::Range(1, 1024));
  app.add_option("--call-threads", server.call_threads,
                 "threads that answer unary calls that do not plan")
      ->check(CLI::Range(1, 1024));
  app.add_option("--plan-threads", server.plan_threads,
                 "calls that plan at the same time, such as Plan, Tune and the first Load of an "
                 "epoch; clients take turns")
      ->check(CLI::Range(1, 256));
  app.add_option("--append-threads", server.append_threads,
                 "threads that wait for the disk: at most this many appends share one flush")
      ->check(CLI::Range(1, 256));
}

// What is stored, and where.
void AddDataOptions(Options& options, CLI::App& app) {
  app.add_option("--data-dir", options.data_dir,
                 "folder, on a local disk, of data sets, epochs and source graphs; \"\" for none");
  app.add_option("--snapshot-dir", options.snapshot_dir,
                 "folder below which clients with the right to may have snapshots of --data-dir "
                 "written, each in a folder of its name; \"\": none");
  app.add_option("--store", options.store.uri,
                 "data sets: lmdb:DIR, the same as --data-dir DIR; or s3://BUCKET[/PREFIX], which "
                 "servers share, with --ledger and --cache-dir; \"\": --data-dir");
  app.add_option(
         "--max-store-bytes", options.max_store_bytes,
         "most bytes of all data sets on the disk, of which a quarter more is mapped; or in "
         "s3://, where there is no bound if it is not given")
      ->transform(BytesFrom(kMiB, uint64_t{1} << 45));
}

void AddEpochOptions(Options& options, Words& words, CLI::App& app) {
  rpc::ServerOptions& server = options.server;
  app.add_option("--lease-duration", words.lease_duration,
                 "how long a dynamic worker may be silent before its batches go to others")
      ->check(DurationFrom(absl::Seconds(1)));
  app.add_option("--max-epochs", server.jobs.max_epochs,
                 "most epochs of all jobs that are unfinished or remembered")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--max-epochs-per-client", server.jobs.max_epochs_per_client,
                 "most of these that one client has opened")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--epoch-retention", words.epoch_retention,
                 "epochs that nobody has used for this long are forgotten; 0s: never")
      ->check(DurationFrom(absl::ZeroDuration(), absl::Hours(24 * 3660)));
  app.add_option("--dataset-retention", words.dataset_retention,
                 "data sets that nobody has used for this long are deleted; 0s: never. Also for "
                 "single namespaces: 720h,drafts=24h")
      ->check(IsRetention);
  app.add_option("--histogram-retention", words.histogram_retention, "the same of named histograms")
      ->check(IsRetention);
  app.add_option("--model-retention", words.model_retention, "the same of measured models")
      ->check(IsRetention);
}

// Bounds of calls, streams and connections.
void AddCallOptions(Options& options, Words& words, CLI::App& app) {
  rpc::ServerOptions& server = options.server;
  app.add_option("--max-message-bytes", server.max_message_bytes, "largest message, either way")
      ->transform(BytesFrom(4 * kMiB, uint64_t{1} << 30));
  app.add_option("--max-streams", server.admission.max_streams, "most streams open at once")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--max-calls", server.admission.max_calls, "most unary calls at once")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--max-streams-per-client", server.admission.max_streams_per_client,
                 "most open streams of one client (a principal, else an address); half of "
                 "--max-streams if not "
                 "given; set both to the same if all clients come through one proxy")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--max-calls-per-client", server.admission.max_calls_per_client,
                 "most unary calls of one client at once, half of which may plan; half of "
                 "--max-calls if not given")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option(
         "--max-streams-per-connection", server.max_streams_per_connection,
         "most calls and streams of one connection; clients keep further ones at their side "
         "until others are over, so open a channel of its own for each few long streams")
      ->check(CLI::Range(1, 100'000));
  app.add_option(
         "--max-connections", server.max_connections,
         "most connections at once; the last eighth of them is for clients that have few. If not "
         "given, as many as memory is put by for: an eighth of --memory-budget and 96 MiB, at 18 "
         "KiB "
         "for each of --max-streams-per-connection; if given, what is missing is taken off the "
         "budget")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option(
         "--max-connections-per-client", server.max_connections_per_client,
         "most connections of one client, told by its address; half of --max-connections if "
         "not given; as many where all come through one proxy")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--connection-idle-timeout", words.connection_idle_timeout,
                 "how long a connection may be open without a call; 0s for ever")
      ->check(DurationFrom(absl::ZeroDuration()));
  app.add_option("--max-health-watches", server.max_health_watches,
                 "most streams of grpc.health.v1.Health.Watch at once, half of them of one client")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--stream-idle-timeout", words.stream_idle_timeout,
                 "how long a stream may be idle in both directions; 0s: for ever")
      ->check(DurationFrom(absl::ZeroDuration()));
}

void AddMemoryOptions(Options& options, CLI::App& app) {
  rpc::ServerOptions& server = options.server;
  app.add_option("--max-pending-bytes", server.streams.max_pending_bytes,
                 "most bytes of graphs waiting in one stream")
      ->transform(BytesFrom(kMiB, uint64_t{1} << 40));
  app.add_option("--memory-budget", server.memory_budget,
                 "most bytes that all streams and calls hold together: a quarter each for waiting "
                 "graphs, unsent responses, requests that are not accepted, and work (plans, "
                 "epochs, named histograms); at least eight times --max-message-bytes. If not "
                 "given, 4GiB, or what the memory limit of a container has room for")
      ->transform(BytesFrom(kMiB, uint64_t{1} << 44));
  app.add_option(
         "--max-total-pending-bytes", server.max_total_pending_bytes,
         "most bytes of graphs that wait in all streams together, and of responses that Tune "
         "has yet to send; 1/4 of --memory-budget if not given")
      ->transform(BytesFrom(kMiB, uint64_t{1} << 44));
  app.add_option(
         "--max-graphs-per-batch", server.streams.max_graphs_per_batch,
         "most graphs in a batch, whatever the client's limits; fewer if their ids and sizes "
         "would take more than 1/8 of --max-message-bytes")
      ->check(CLI::Range(uint64_t{1}, (uint64_t{1} << 31) - 1));
}

void AddOtherOptions(Options& options, CLI::App& app) {
  rpc::ServerOptions& server = options.server;
  app.add_flag("--reflection,!--no-reflection", server.reflection,
               "lets clients ask for the services and their messages, as grpcurl does")
      ->default_str(server.reflection ? "true" : "false");
  app.add_flag("--channelz", server.channelz,
               "lets those who may administer the server ask what gRPC knows of its connections "
               "(grpc.channelz.v1)");
  app.add_option(
      "--signing-key", options.signing_key,
      "file with the key that signs cursors and page tokens, 64 hexadecimal digits; made "
      "if there is none. \"\": signing.key in --data-dir. Servers with the same key take "
      "each other's");
  app.add_option("--max-histograms", server.histograms.max_histograms, "most named histograms")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--max-measured-models", options.max_measured_models,
                 "most pairs of a model and a device whose batches' cost is kept")
      ->check(CLI::Range(1, 10'000));
}

// Fills the options from the command line, the environment and the file of --config. The exit code
// if the process is to end: --help, --version and --print-config print.
absl::StatusOr<std::optional<int>> FillOptions(int argc, char** argv, Options& options,
                                               Words& words) {
  CLI::App app("packhoused: packs graphs into full, padded batches, over gRPC");
  app.set_version_flag("--version", kVersion);
  app.option_defaults()->always_capture_default();
  // Of a flag that is given twice, the last counts: an image or a script may set some beforehand.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddListenOptions(options, words, app);
  AddLifeOptions(options, words, app);
  AddThreadOptions(options, app);
  AddDataOptions(options, app);
  AddEpochOptions(options, words, app);
  AddCallOptions(options, words, app);
  AddMemoryOptions(options, app);
  AddOtherOptions(options, app);
  for (const auto& wing : options.wings) wing->AddFlags(options, app);
  AddAbsentFlags(app);
  app.footer(CommandsHelp());
  std::string config;
  bool print_config = false;
  app.add_option("--config", config,
                 "TOML file of these flags, without their dashes. Variables go before it, such as "
                 "PACKHOUSED_MAX_STREAMS, and the command line before them");
  app.add_flag("--print-config", print_config,
               "prints all flags with their values, as such a file");
  std::vector<std::string> environment;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    environment.emplace_back(*each);
  }
  absl::StatusOr<std::vector<std::string>> arguments =
      WithConfiguration(app, {argv + 1, argv + argc}, environment);
  if (!arguments.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.status().message(), "; packhoused --help lists the flags"));
  }
  PH_RETURN_IF_ERROR(RefuseAbsentFlags(*arguments));
  try {
    ParseWords(app, *arguments);
  } catch (const CLI::ExtrasError&) {
    return UnknownArguments(app);
  } catch (const CLI::ParseError& error) {
    // --help and --version are such errors, too, and print.
    if (error.get_exit_code() == 0) return app.exit(error);
    return absl::InvalidArgumentError(
        absl::StrCat(error.what(), "; packhoused --help lists the flags"));
  }
  if (print_config) {
    std::fputs(ConfigurationOf(app).c_str(), stdout);
    return 0;
  }
  if (app.count("--max-store-bytes") != 0) options.store.max_bytes = options.max_store_bytes;
  return std::nullopt;
}

// Where the data sets are: a folder, or what a wing takes.
absl::Status ResolveStore(Options& options) {
  absl::string_view folder = options.store.uri;
  if (absl::ConsumePrefix(&folder, "lmdb:")) {
    if (folder.empty()) return absl::InvalidArgumentError("--store lmdb: has no folder");
    if (!options.data_dir.empty() && options.data_dir != folder) {
      return absl::InvalidArgumentError(
          absl::StrCat("--store ", options.store.uri, ": --data-dir is ", options.data_dir));
    }
    options.data_dir = std::string(folder);
    return absl::OkStatus();
  }
  if (folder.empty()) return absl::OkStatus();
  for (const auto& wing : options.wings) {
    if (wing->TakesStore(folder)) {
      options.store.is_shared = true;
      return absl::OkStatus();
    }
  }
  const AbsentWing* const absent = AbsentWingOfStore(folder);
  return absl::InvalidArgumentError(absl::StrCat(
      "--store ", folder, ": ", absent == nullptr ? "is not lmdb:DIR" : absent->WhyNot()));
}

// What the words mean, and whether all that is said goes together.
absl::Status ResolveOptions(const Words& words, Options& options) {
  rpc::ServerOptions& server = options.server;
  PH_RETURN_IF_ERROR(ResolveStore(options));
  options.dataset_retention = ParseRetention(words.dataset_retention).value_or(Retention());
  if (!options.snapshot_dir.empty() && options.data_dir.empty()) {
    return absl::InvalidArgumentError("--snapshot-dir: needs --data-dir");
  }
  for (const auto& wing : options.wings) PH_RETURN_IF_ERROR(wing->CheckFlags(options));
  if (server.admin_address == kAuto) {
    server.may_lack_admin_address = true;
    server.admin_address = AutoAdminAddress(options.data_dir);
  }
  // Checked above.
  options.http_names = absl::StrSplit(words.http_names, ',', absl::SkipWhitespace());
  for (std::string& name : options.http_names) absl::StripAsciiWhitespace(&name);
  (void)absl::ParseDuration(words.lame_duck, &options.lame_duck);
  (void)absl::ParseDuration(words.drain_timeout, &options.drain_timeout);
  for (const auto& [text, duration] :
       {std::pair(&words.max_connection_age, &server.max_connection_age),
        std::pair(&words.max_connection_age_grace, &server.max_connection_age_grace),
        std::pair(&words.connection_idle_timeout, &server.connection_idle_timeout)}) {
    absl::Duration parsed;
    (void)absl::ParseDuration(*text, &parsed);
    if (parsed != absl::ZeroDuration()) *duration = std::max(parsed, absl::Milliseconds(1));
  }
  (void)absl::ParseDuration(words.lease_duration, &server.jobs.lease_duration);
  (void)absl::ParseDuration(words.stream_idle_timeout, &server.stream_idle_timeout);
  if (server.stream_idle_timeout == absl::ZeroDuration()) {
    server.stream_idle_timeout = absl::InfiniteDuration();
  }
  options.histogram_retention = ParseRetention(words.histogram_retention).value_or(Retention());
  options.model_retention = ParseRetention(words.model_retention).value_or(Retention());
  PH_RETURN_IF_ERROR(CheckRetention("--dataset-retention", options.dataset_retention, options));
  (void)absl::ParseDuration(words.epoch_retention, &server.jobs.epoch_retention);
  if (server.jobs.epoch_retention == absl::ZeroDuration()) {
    server.jobs.epoch_retention = absl::InfiniteDuration();
  }
  return absl::OkStatus();
}

}  // namespace

std::variant<Options, int, absl::Status> ParseOptions(int argc, char** argv) {
  Options options = DefaultOptions();
  options.wings = MakeWings();
  Words words;
  const absl::StatusOr<std::optional<int>> ended = FillOptions(argc, argv, options, words);
  if (!ended.ok()) return ended.status();
  if (ended->has_value()) return **ended;
  if (const absl::Status status = CheckSecurity(options); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(), "; packhoused --help lists the flags"));
  }
  if (absl::Status status = ResolveOptions(words, options); !status.ok()) return status;
  return options;
}

}  // namespace packhouse
