#include "client/command/server_options.h"

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

absl::StatusOr<Servers> ConnectAsCommand(const std::string& addresses,
                                         const Credentials& credentials) {
  ChannelOptions options;
  options.secured_by = credentials;
  return ConnectToServers(addresses, kConnectTimeout, options);
}

void AddServerOption(std::string& address, const std::string& otherwise, CLI::App& command) {
  command
      .add_option(
          "--server", address,
          absl::StrCat("HOST:PORT or unix:PATH of a packhoused, or several of a cluster with "
                       "commas between them",
                       otherwise.empty() ? "" : "; ", otherwise))
      ->type_name("ADDRESS")
      ->required(otherwise.empty());
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
