#include "service/program/wings/address_flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "service/program/byte_flag.h"

namespace packhouse {

void AddLedgerFlags(std::string& roots_file, std::string& certificate_file, std::string& key_file,
                    std::string& user, CLI::App& app) {
  app.add_option("--ledger-ca", roots_file,
                 "certificates, in PEM, by which etcd's are checked; \"\": plain text");
  app.add_option("--ledger-cert", certificate_file,
                 "certificate, in PEM, that etcd is shown; needs --ledger-key");
  app.add_option("--ledger-key", key_file, "its private key, in PEM");
  if (const char* given = std::getenv("PACKHOUSE_ETCD_USER"); given != nullptr) user = given;
}

void AddS3Flags(SharedDatasetsOptions& shared, CLI::App& app) {
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
  app.add_option("--cache-bytes", shared.cache_bytes,
                 "most bytes of --cache-dir; the data sets that are in use at once must fit")
      ->transform(BytesFrom(uint64_t{1} << 20, uint64_t{1} << 50));
}

void AddAddressFlags(StoreAddress& address, CLI::App& command) {
  command.add_option("--ledger", address.ledger.uri, "etcd://HOST[:PORT],...[/PREFIX]; for s3://");
  AddLedgerFlags(address.ledger.roots_file, address.ledger.certificate_file,
                 address.ledger.key_file, address.ledger.user, command);
  command.add_flag("--insecure", address.allows_plain_text,
                   "Plain text to --s3-endpoint beyond this machine");
  address.cache_parent = std::filesystem::temp_directory_path();
  command
      .add_option("--cache-dir", address.cache_parent,
                  "In which a folder for a time keeps what is read from s3://")
      ->capture_default_str();
  AddS3Flags(address.shared, command);
}

}  // namespace packhouse
