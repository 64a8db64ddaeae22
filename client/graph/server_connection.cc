#include "client/graph/server_connection.h"

// Includes all of CLI11 here, since its virtual tables are emitted in every file that does.
#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cpp/channel.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr std::chrono::minutes kCallTimeout{10};

}  // namespace

Credentials& CredentialsOfCommand() {
  static Credentials& credentials = *new Credentials();
  return credentials;
}

absl::StatusOr<Credentials> CredentialsToUse() {
  absl::StatusOr<Credentials> used = CredentialsFromEnvironment();
  if (!used.ok()) return used;
  const Credentials& given = CredentialsOfCommand();
  used->tls |= given.tls;
  for (const auto& [flag, field] :
       {std::pair(&given.tls_ca, &used->tls_ca), std::pair(&given.tls_cert, &used->tls_cert),
        std::pair(&given.tls_key, &used->tls_key),
        std::pair(&given.tls_server_name, &used->tls_server_name),
        std::pair(&given.token_file, &used->token_file)}) {
    if (!flag->empty()) *field = *flag;
  }
  if (!given.token_file.empty()) used->token.clear();
  return used;
}

ExitCode Fail(const absl::Status& status) {
  // A server's words, which name a flag that no command has.
  if (!absl::StrContains(status.message(), "--memory-budget: ")) return packhouse::Fail(status);
  return packhouse::Fail(absl::Status(
      status.code(), absl::StrCat(status.message(),
                                  "; --memory-budget is a flag of packhoused: start one with more, "
                                  "and name it with --server")));
}

absl::StatusOr<ServerConnection> ConnectToServer(const std::string& address) {
  std::unique_ptr<LocalServer> own;
  ChannelOptions options;
  // The command's own server is reached by nobody else.
  options.secured_by = Credentials();
  if (!address.empty()) {
    absl::StatusOr<Credentials> credentials = CredentialsToUse();
    if (!credentials.ok()) return credentials.status();
    options.secured_by = *std::move(credentials);
  }
  if (address.empty()) {
    absl::StatusOr<std::unique_ptr<LocalServer>> local = LocalServer::Start();
    if (!local.ok()) return local.status();
    own = *std::move(local);
  }
  absl::StatusOr<Servers> servers =
      ConnectToServers(address.empty() ? own->address() : address, kConnectTimeout, options);
  if (!servers.ok()) return servers.status();
  return ServerConnection{std::move(own), servers->current(), *std::move(servers)};
}

std::chrono::system_clock::time_point CallDeadline() {
  return std::chrono::system_clock::now() + kCallTimeout;
}

void AddServerOption(std::string& address, CLI::App& command) {
  command.add_option("--server", address,
                     "HOST:PORT or unix:PATH of a packhoused, or several of a cluster with commas "
                     "between them; without it one is started for this command alone");
  Credentials& credentials = CredentialsOfCommand();
  const auto add = [&command](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->group("Security");
  };
  command
      .add_flag(
          "--tls", credentials.tls,
          "TLS with the system's CAs. The environment may say all this too: PACKHOUSE_TLS_CA ...")
      ->group("Security");
  add("--tls-ca", credentials.tls_ca, "PEM file of the CAs of the server's certificate");
  add("--tls-cert", credentials.tls_cert, "PEM file of the client's certificate");
  add("--tls-key", credentials.tls_key, "PEM file of its key");
  add("--tls-server-name", credentials.tls_server_name,
      "the name in the server's certificate, if it is not the address's");
  add("--token-file", credentials.token_file, "file with a bearer token");
}

}  // namespace packhouse::client
