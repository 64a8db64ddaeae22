// What flags say is what the server has: each of them changes its own fields and no other.
#include "service/program/options.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/cgroup_limits.h"
#include "service/program/byte_flag.h"
#include "service/program/flag_checks.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using Fields = std::map<std::string, std::string>;

Fields FieldsOf(const Options& options) {
  const rpc::ServerOptions& server = options.server;
  Fields fields = {{"data_dir", options.data_dir},
                   {"admin_address", server.admin_address},
                   {"may_lack_admin_address", absl::StrCat(server.may_lack_admin_address)},
                   {"is_shared", absl::StrCat(options.store.is_shared)},
                   {"store.max_bytes", absl::StrCat(options.store.max_bytes)},
                   {"max_store_bytes", absl::StrCat(options.max_store_bytes)},
                   {"reflection", absl::StrCat(server.reflection)},
                   {"http_names", absl::StrJoin(options.http_names, "|")},
                   {"dataset_retention", RetentionText(options.dataset_retention)},
                   {"histogram_retention", RetentionText(options.histogram_retention)},
                   {"model_retention", RetentionText(options.model_retention)},
                   {"source_graph_retention", RetentionText(options.source_graph_retention)}};
  for (const auto& [name, duration] : std::vector<std::pair<const char*, absl::Duration>>{
           {"lame_duck", options.lame_duck},
           {"drain_timeout", options.drain_timeout},
           {"max_connection_age", server.max_connection_age},
           {"max_connection_age_grace", server.max_connection_age_grace},
           {"connection_idle_timeout", server.connection_idle_timeout},
           {"stream_idle_timeout", server.stream_idle_timeout},
           {"lease_duration", server.jobs.lease_duration},
           {"epoch_retention", server.jobs.epoch_retention},
           {"gather_joins", server.jobs.gather_joins},
           {"ledger_lease", options.membership.lease}}) {
    fields[name] = absl::FormatDuration(duration);
  }
  return fields;
}

std::variant<Options, int, absl::Status> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "packhoused");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data());
}

Options Parsed(const std::vector<std::string>& words) {
  auto parsed = Parse(words);
  const auto* refused = std::get_if<absl::Status>(&parsed);
  EXPECT_EQ(refused, nullptr) << *refused;
  return std::get<Options>(std::move(parsed));
}

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() { ::unsetenv("XDG_RUNTIME_DIR"); }
};

TEST_F(OptionsTest, EachFlagChangesItsOwnFields) {
  const Fields usual = FieldsOf(Parsed({}));
  EXPECT_EQ(usual, (Fields{{"data_dir", ""},
                           {"admin_address", ""},
                           {"may_lack_admin_address", "1"},
                           {"is_shared", "0"},
                           {"store.max_bytes", "0"},
                           {"max_store_bytes", absl::StrCat(uint64_t{64} << 30)},
                           {"reflection", "1"},
                           {"http_names", ""},
                           {"dataset_retention", "inf"},
                           {"histogram_retention", "inf"},
                           {"model_retention", "inf"},
                           {"source_graph_retention", "inf"},
                           {"lame_duck", "5s"},
                           {"drain_timeout", "30s"},
                           {"max_connection_age", "inf"},
                           {"max_connection_age_grace", "inf"},
                           {"connection_idle_timeout", "1h"},
                           {"stream_idle_timeout", "1h"},
                           {"lease_duration", "5m"},
                           {"epoch_retention", "720h"},
                           {"gather_joins", "10ms"},
                           {"ledger_lease", "10s"}}));
  const std::vector<std::pair<std::vector<std::string>, Fields>> laws = {
      {{"--lame-duck=7s"}, {{"lame_duck", "7s"}}},
      {{"--drain-timeout=7s"}, {{"drain_timeout", "7s"}}},
      {{"--max-connection-age=7s"}, {{"max_connection_age", "7s"}}},
      {{"--max-connection-age=1us"}, {{"max_connection_age", "1ms"}}},
      {{"--max-connection-age-grace=7s"}, {{"max_connection_age_grace", "7s"}}},
      {{"--connection-idle-timeout=7s"}, {{"connection_idle_timeout", "7s"}}},
      {{"--connection-idle-timeout=0s"}, {{"connection_idle_timeout", "inf"}}},
      {{"--stream-idle-timeout=7s"}, {{"stream_idle_timeout", "7s"}}},
      {{"--stream-idle-timeout=0s"}, {{"stream_idle_timeout", "inf"}}},
      {{"--lease-duration=7s"}, {{"lease_duration", "7s"}}},
      {{"--epoch-retention=7s"}, {{"epoch_retention", "7s"}}},
      {{"--epoch-retention=0s"}, {{"epoch_retention", "inf"}}},
      {{"--dataset-retention=7h,a=3h"}, {{"dataset_retention", "7h,a=3h"}}},
      {{"--histogram-retention=7h,a=3h"}, {{"histogram_retention", "7h,a=3h"}}},
      {{"--model-retention=7h,a=3h"}, {{"model_retention", "7h,a=3h"}}},
      {{"--source-graph-retention=7h,a=3h"}, {{"source_graph_retention", "7h,a=3h"}}},
      {{"--ledger-lease=7s"}, {{"ledger_lease", "7s"}}},
      {{"--http-names= a.example ,, b"}, {{"http_names", "a.example|b"}}},
      {{"--no-reflection"}, {{"reflection", "0"}}},
      {{"--max-store-bytes=2MiB"},
       {{"max_store_bytes", "2097152"}, {"store.max_bytes", "2097152"}}},
      {{"--admin-listen="}, {{"may_lack_admin_address", "0"}}},
      {{"--admin-listen=unix:/x"}, {{"may_lack_admin_address", "0"}, {"admin_address", "unix:/x"}}},
      {{"--data-dir=/x"}, {{"data_dir", "/x"}, {"admin_address", "unix:/x/admin.sock"}}},
      {{"--store=lmdb:/x"}, {{"data_dir", "/x"}, {"admin_address", "unix:/x/admin.sock"}}},
      {{"--store=lmdb:/x", "--data-dir=/x"},
       {{"data_dir", "/x"}, {"admin_address", "unix:/x/admin.sock"}}},
      {{"--store=s3://b", "--cache-dir=/c", "--ledger=etcd://h", "--advertise=h:1",
        "--signing-key=/k"},
       {{"is_shared", "1"}}},
  };
  for (const auto& [words, changes] : laws) {
    SCOPED_TRACE(absl::StrJoin(words, " "));
    Fields expected = usual;
    for (const auto& [name, value] : changes) expected[name] = value;
    EXPECT_EQ(FieldsOf(Parsed(words)), expected);
  }
}

TEST_F(OptionsTest, ThreadsAndMemoryFollowFromTheMachine) {
  const CgroupLimits limits = ReadCgroupLimits();
  const Options options = Parsed({});
  for (const size_t threads :
       {options.server.stream_threads, options.server.call_threads, options.server.plan_threads}) {
    EXPECT_EQ(threads, NumProcessors(limits));
  }
  EXPECT_EQ(options.memory_limit, limits.memory_bytes);
  const uint64_t most = rpc::ServerOptions().memory_budget;
  if (limits.memory_bytes) {
    EXPECT_LE(options.server.memory_budget, most);
  } else {
    EXPECT_EQ(options.server.memory_budget, most);
  }
}

// A socket's path has at most 107 bytes.
TEST_F(OptionsTest, TheSocketOfAdministratorsIsWhereAPathCanBe) {
  const auto address_of = [](size_t bytes) {
    const std::string end = "/admin.sock";
    return Parsed({absl::StrCat("--data-dir=/", std::string(bytes - end.size() - 1, 'x'))})
        .server.admin_address;
  };
  EXPECT_EQ(address_of(107).size(), 5 + 107U);
  EXPECT_EQ(address_of(108), "");
  ::setenv("XDG_RUNTIME_DIR", "/run/x", 1);
  const std::string of_process = absl::StrCat("unix:/run/x/packhoused-", ::getpid(), ".sock");
  EXPECT_EQ(address_of(108), of_process);
  EXPECT_EQ(Parsed({}).server.admin_address, of_process);
  EXPECT_EQ(Parsed({"--data-dir=/x"}).server.admin_address, "unix:/x/admin.sock");
  ::setenv("XDG_RUNTIME_DIR", "run/x", 1);
  EXPECT_EQ(Parsed({}).server.admin_address, "");
}

// Words, and why they are refused.
using Refusals = std::vector<std::pair<std::vector<std::string>, std::string>>;

constexpr char kHelp[] = "; packhoused --help lists the flags";

void ExpectRefused(const Refusals& refusals) {
  for (const auto& [words, why] : refusals) {
    SCOPED_TRACE(absl::StrJoin(words, " "));
    const auto parsed = Parse(words);
    ASSERT_TRUE(std::holds_alternative<absl::Status>(parsed));
    EXPECT_THAT(std::get<absl::Status>(parsed), StatusIs(absl::StatusCode::kInvalidArgument, why));
  }
}

// Of a cluster that lacks nothing, and further ones.
std::vector<std::string> WithShared(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"--ledger=etcd://127.0.0.1:1", "--advertise=h:1",
                                  "--signing-key=/k", "--store=s3://bucket", "--cache-dir=/c"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

TEST_F(OptionsTest, RefusalsNameWhatDoesNotGoTogether) {
  const std::string help = kHelp;
  const std::string secret = "it has an '@': it names a host and a port, never a user or password";
  ExpectRefused({
      {{"--http-tls"}, "--http-tls: needs --tls-cert and --tls-key" + help},
      {{"--tls-key=/k"}, "--tls-key: needs --tls-cert" + help},
      {{"--tls-cert=/c"}, "--tls-cert: needs --tls-key" + help},
      {{"--tls-client-ca=/c"}, "--tls-client-ca: needs --tls-cert" + help},
      {{"--jwt-keys=/k"},
       "--jwt-keys: needs --jwt-audience, so that tokens for other services are refused" + help},
      {{"--jwt-issuer=a"}, "--jwt-audience, --jwt-issuer: need --jwt-keys" + help},
      {{"--jwt-audience=a"}, "--jwt-audience, --jwt-issuer: need --jwt-keys" + help},
      {{"--http-auth", "--tls-cert=/c", "--tls-key=/k", "--http-tls"},
       "--http-auth: needs --token-file or --jwt-keys, or --http-tls and --tls-client-ca" + help},
      {{"--listen=unix:"}, "--listen: 'unix:' has no path" + help},
      {{"--listen=u@h:1"}, "--listen: " + secret + help},
      {{"--http-listen=u@h:1"}, "--http-listen: " + secret + help},
      {{"--admin-listen=u@h:1"}, "--admin-listen: " + secret + help},
      {{"--lane=u@h:1"}, "--lane: " + secret + help},
      {{"--advertise=u@h:1"}, "--advertise: " + secret + help},
      {{"--admin-listen=unix:"},
       "--admin-listen: 'unix:' is not unix:/path: the permissions of that file say who may "
       "administer the server" +
           help},
      {{"--lane=unix:/"},
       "--lane: 'unix:/' is not unix:/path: clients get the path from the server" + help},
      {{"--max-store-bytes=1048575"},
       "--max-store-bytes: '1048575' is not from 1MiB to 32TiB" + help},
      {{"--max-store-bytes=33TiB"}, "--max-store-bytes: '33TiB' is not from 1MiB to 32TiB" + help},
      {{"--max-store-bytes=1K"},
       "--max-store-bytes: '1K' is not a number of bytes, such as 4GiB or 4294967296" + help},
      {{"--http-listen=10.0.0.1:1", "--tls-cert=c", "--tls-key=k"},
       "--http-listen 10.0.0.1:1: other machines may reach it; needs --http-tls, or "
       "--insecure for plain text" +
           help},
      {{"--listen=10.0.0.1:1"},
       "--listen 10.0.0.1:1: other machines may reach it; needs --tls-cert and --tls-key, or "
       "--insecure for plain text" +
           help},
      {{"more", "--flgs"}, "not expected: more; there is no flag --flgs" + help},
      {{"--insecure", "store"},
       "store is a command, which takes none of these flags: it must be the first word"},
      {{"--store=lmdb:"}, "--store lmdb: has no folder"},
      {{"--store=lmdb:/x", "--data-dir=/y"}, "--store lmdb:/x: --data-dir is /y"},
      {{"--snapshot-dir=/x"}, "--snapshot-dir: needs --data-dir"},
      {{"--listen=h"},
       "--listen: 'h' is neither host:port nor unix:/path: the port is "
       "missing" +
           help},
      {{"--http-listen=h"}, "--http-listen: 'h' is not host:port: the port is missing" + help},
      {{"--lame-duck=x"}, "--lame-duck: 'x' is not a duration from 0s to 24h, such as 30s" + help},
      {{"--lease-duration=1ms"},
       "--lease-duration: '1ms' is not a duration from 1s to 24h, such as 30s" + help},
  });
}

TEST_F(OptionsTest, RefusalsNameWhatAClusterLacks) {
  const std::string help = kHelp;
  ExpectRefused({
      {{"--ledger-lease=2999ms"},
       "--ledger-lease: '2999ms' is not a duration from 3s to 1h, such as 30s" + help},
      {{"--ledger-lease=61m"},
       "--ledger-lease: '61m' is not a duration from 3s to 1h, such as 30s" + help},
      {{"--advertise=h:1"}, "--advertise: needs --ledger"},
      {{"--ledger-ca=/c"}, "--ledger-ca: needs --ledger"},
      {{"--ledger-cert=/c"}, "--ledger-cert: needs --ledger"},
      {{"--ledger-key=/c"}, "--ledger-key: needs --ledger"},
      {WithShared({"--ledger-cert=/c"}), "--ledger-cert, --ledger-key: each needs the other"},
      {WithShared({"--ledger-key=/c"}), "--ledger-cert, --ledger-key: each needs the other"},
      {WithShared({"--ledger-cert=/c", "--ledger-key=/k"}), "--ledger-cert: needs --ledger-ca"},
      {WithShared({"--advertise=h"}),
       "--advertise: 'h' is not HOST:PORT; --ledger needs it: the port is missing"},
      {WithShared({"--store="}), "--cache-dir: needs --store s3://BUCKET"},
      {WithShared({"--store=", "--cache-dir="}),
       "--ledger: needs --store s3://, or --data-dir, with the data sets, the same for all "
       "servers"},
      {WithShared({"--signing-key="}),
       "--ledger: needs --signing-key, the same for all servers: each takes the others' "
       "cursors"},
      {WithShared({"--store=", "--cache-dir=", "--data-dir=/d", "--snapshot-dir=/s"}),
       "--snapshot-dir: not with --ledger: the jobs are in etcd"},
      {WithShared({"--store=", "--cache-dir=", "--data-dir=/d", "--dataset-retention=1h"}),
       "--dataset-retention: not with --ledger and --data-dir: each server has a copy, which "
       "nothing changes"},
      {{"--s3-endpoint=https://h"}, "--s3-endpoint: needs --store s3://BUCKET"},
      {{"--s3-region=r"}, "--s3-region: needs --store s3://BUCKET"},
      {{"--s3-credentials=/c"}, "--s3-credentials: needs --store s3://BUCKET"},
      {{"--s3-ca=/c"}, "--s3-ca: needs --store s3://BUCKET"},
      {{"--cache-dir=/c"}, "--cache-dir: needs --store s3://BUCKET"},
      {WithShared({"--ledger="}),
       "--store s3://: needs --ledger etcd://HOST,...: what is consistent is kept there"},
      {WithShared({"--cache-dir="}), "--store s3://: needs --cache-dir"},
      {WithShared({"--data-dir=/d"}),
       "--data-dir: not with --store s3://: nothing but the cache is on this machine"},
      {WithShared({"--sweep-period=999ms"}),
       "--sweep-period: '999ms' is not a duration from 1s to 24h"},
      {WithShared({"--sweep-period=1441m"}),
       "--sweep-period: '1441m' is not a duration from 1s to 24h"},
      {WithShared({"--sweep-period=x"}), "--sweep-period: 'x' is not a duration from 1s to 24h"},
  });
}

TEST_F(OptionsTest, WhatGoesTogetherIsTaken) {
  // Addresses that this machine alone reaches, and those that may be reached.
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--listen=unix:/x"},
           {"--listen=127.0.0.2:1"},
           {"--listen=localhost:1"},
           {"--listen=[::1]:1"},
           {"--listen=10.0.0.1:1", "--tls-cert=c", "--tls-key=k"},
           {"--listen=10.0.0.1:1", "--http-listen=10.0.0.1:2", "--insecure"},
           {"--http-listen=10.0.0.1:1", "--tls-cert=c", "--tls-key=k", "--http-tls"},
           {"--http-auth", "--token-file=t"},
           {"--http-auth", "--http-tls", "--tls-cert=c", "--tls-key=k", "--tls-client-ca=a"},
           {"--jwt-keys=k", "--jwt-audience=a", "--jwt-issuer=i"},
           {"--lane=unix:/x"},
           WithShared({}),
           WithShared({"--sweep-period=1s", "--ledger-lease=3s"}),
           WithShared({"--sweep-period=24h", "--ledger-lease=1h", "--dataset-retention=1h"}),
           WithShared({"--ledger-cert=/c", "--ledger-key=/k", "--ledger-ca=/a"}),
           WithShared({"--store=", "--cache-dir=", "--data-dir=/d"}),
           {"--max-store-bytes=1MiB"},
           {"--max-store-bytes=32TiB"},
           {"--admin-listen=unix:/a@b"},
       }) {
    EXPECT_TRUE(std::holds_alternative<Options>(Parse(words))) << absl::StrJoin(words, " ");
  }
}

// Sets variables of the process until its end.
class Variables {
 public:
  explicit Variables(const Fields& values) : values_(values) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  const Fields values_;
};

TEST_F(OptionsTest, AFileGoesBeforeDefaultsVariablesBeforeItAndFlagsBeforeThem) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string file = folder.path() + "/packhoused.toml";
  std::ofstream(file) << "lame-duck = '3s'\ndrain-timeout = \"4s\"\nreflection = false\n"
                         "max-store-bytes = 2097152\nlease-duration = '5s'\n";
  const std::string other = folder.path() + "/other.toml";
  std::ofstream(other) << "lame-duck = '8s'\ninsecure = true\naccess-log-every = 5\n";
  const Variables variables({{"PACKHOUSED_CONFIG", other},
                             {"PACKHOUSED_DRAIN_TIMEOUT", "6s"},
                             {"PACKHOUSED_LEASE_DURATION", "6s"},
                             {"PACKHOUSED_HTTP_AUTH", ""},
                             {"PACKHOUSED_PORT_50051_TCP_ADDR", "10.0.0.7"},
                             {"PACKHOUSED_OTHER_SERVICE_PORT_GRPC", "50051"},
                             {"PACKHOUSED", "/usr/bin"}});
  const Options of_variable = Parsed({});
  EXPECT_EQ(of_variable.lame_duck, absl::Seconds(8));
  EXPECT_TRUE(of_variable.insecure);
  EXPECT_EQ(of_variable.access_log_every, 5U);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--lease-duration=7s", "--config", file},
                                             {"--config=" + file, "--lease-duration=7s"}}) {
    const Options options = Parsed(words);
    EXPECT_EQ(options.lame_duck, absl::Seconds(3));
    EXPECT_EQ(options.drain_timeout, absl::Seconds(6));
    EXPECT_EQ(options.server.jobs.lease_duration, absl::Seconds(7));
    EXPECT_EQ(options.store.max_bytes, 2 << 20);
    EXPECT_FALSE(options.server.reflection);
    EXPECT_FALSE(options.http_auth);
    EXPECT_FALSE(options.insecure);
  }
}

TEST_F(OptionsTest, WhatIsNoSettingIsNamedWithItsLineAndTheNearestFlag) {
  const std::string help = "; packhoused --help lists the flags";
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string file = folder.path() + "/packhoused.toml";
  const auto refused = [](const std::vector<std::string>& words) {
    const auto parsed = Parse(words);
    const auto* const status = std::get_if<absl::Status>(&parsed);
    return status == nullptr ? absl::OkStatus() : *status;
  };
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"\nmax_streams = 3",
            "2: 'max_streams' is no flag of packhoused (did you mean "
            "--max-streams?)"},
           {"nothing-like-it = 3", "1: 'nothing-like-it' is no flag of packhoused"},
           {"lame-duck = [3]",
            "1: 'lame-duck' is neither a text nor a number nor a truth value"}}) {
    std::ofstream(file) << text;
    EXPECT_EQ(refused({"--config", file}),
              absl::InvalidArgumentError(absl::StrCat("--config ", file, ": line ", why, help)))
        << text;
  }
  for (const char* const name : {"config", "print-config", "help", "version"}) {
    std::ofstream(file) << name << " = 'x'";
    EXPECT_THAT(std::string(refused({"--config", file}).message()),
                testing::StartsWith(absl::StrCat("--config ", file, ": line 1: '", name,
                                                 "' is for the command line alone")));
  }
  std::ofstream(file) << "max-calls = 0.5";
  EXPECT_THAT(std::string(refused({"--config", file}).message()),
              testing::HasSubstr("--max-calls: "));
  std::ofstream(file) << "a = 1\na = 2";
  EXPECT_THAT(std::string(refused({"--config", file}).message()),
              testing::StartsWith(absl::StrCat("--config ", file, ": line 2: ")));
  const std::string gone = folder.path() + "/none";
  EXPECT_THAT(std::string(refused({"--config", gone}).message()),
              testing::StartsWith(absl::StrCat("--config ", gone, ": line ")));
  {
    const Variables variables(Fields{{"PACKHOUSED_MAX_STREAM", "3"}});
    EXPECT_EQ(refused({}), absl::InvalidArgumentError(
                               "PACKHOUSED_MAX_STREAM: there is no flag --max-stream of packhoused "
                               "(did you mean --max-streams?)" +
                               help));
  }
  for (const auto& [word, nearest] : std::vector<std::pair<std::string, std::string>>{
           {"--lame-dock", "lame-duck"},
           {"--amelduck", "lame-duck"},
           {"--amedck", ""},
           {"--lame-dukc=5s", "lame-duck"},
           {"--lane-duck=--insecure", "lame-duck"},
           {"--lan", "lane"},
           {"--l", ""},
           {"--max-connection-ages-grade", "max-connection-age-grace"}}) {
    EXPECT_EQ(refused({word}),
              absl::InvalidArgumentError(absl::StrCat(
                  "there is no flag ", word,
                  nearest.empty() ? "" : absl::StrCat(" (did you mean --", nearest, "?)"), help)));
  }
}

// As a file that can be read again.
TEST_F(OptionsTest, WhatIsPrintedSaysEachFlag) {
  const auto printed = [](std::vector<std::string> words) {
    words.push_back("--print-config");
    testing::internal::CaptureStdout();
    const auto parsed = Parse(words);
    std::string text = testing::internal::GetCapturedStdout();
    EXPECT_EQ(std::get<int>(parsed), 0);
    return text;
  };
  const std::string usual = printed({});
  for (const char* const line :
       {"lame-duck = \"5s\"\n", "reflection = true\n", "insecure = false\n",
        "access-log-every = 1\n", "data-dir = \"\"\n", "listen = \"127.0.0.1:50051\"\n"}) {
    EXPECT_THAT(usual, testing::HasSubstr(line));
  }
  for (const char* const none : {"config = ", "help = ", "version = ", "max-connections = "}) {
    EXPECT_THAT("\n" + usual, testing::Not(testing::HasSubstr(absl::StrCat("\n", none))));
  }
  const std::string given =
      printed({"--data-dir=/a\\b \"c\"", "--insecure", "--no-reflection", "--max-connections=7",
               "--access-log-every=3", "--access-log-every=9", "--lame-duck=9s", "--lame-duck=1s"});
  for (const char* const line :
       {"data-dir = \"/a\\\\b \\\"c\\\"\"\n", "insecure = true\n", "reflection = false\n",
        "max-connections = 7\n", "access-log-every = 9\n", "lame-duck = \"1s\"\n"}) {
    EXPECT_THAT(given, testing::HasSubstr(line));
  }
}

TEST(ByteFlagTest, BytesHaveUnits) {
  constexpr uint64_t kTiB = uint64_t{1} << 40;
  for (const auto& [text, bytes] : std::vector<std::pair<std::string, uint64_t>>{
           {"0", 0},
           {"5b", 5},
           {"7KB", 7'000},
           {"7MB", 7'000'000},
           {"7GB", 7'000'000'000},
           {"7TB", 7'000'000'000'000},
           {"7 kib", 7 << 10},
           {"7mi", 7 << 20},
           {"7GiB", uint64_t{7} << 30},
           {"0.5KiB", 512},
           {"8388607TiB", 8388607 * kTiB},
           {"8191.5TiB", 8191 * kTiB + kTiB / 2},
           {"9223372036854775807", (uint64_t{1} << 63) - 1}}) {
    EXPECT_EQ(ParseBytes(text).value_or(1), bytes) << text;
  }
  for (const std::string text : {"", "B", "7PiB", "7KiBB", "7K", "1.5", "1..5KiB", "8388608TiB",
                                 "8192.0TiB", "9223372036854775808", "-1"}) {
    EXPECT_THAT(ParseBytes(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("'", text,
                                      "' is not a number of bytes, such as 4GiB or 4294967296")));
  }
  for (const auto& [bytes, text] :
       std::vector<std::pair<uint64_t, std::string>>{{0, "0"},
                                                     {1023, "1023"},
                                                     {1024, "1KiB"},
                                                     {1536, "1536"},
                                                     {uint64_t{3} << 20, "3MiB"},
                                                     {uint64_t{3} << 30, "3GiB"},
                                                     {5000 * kTiB, "5000TiB"}}) {
    EXPECT_EQ(BytesText(bytes), text);
  }
}

}  // namespace
}  // namespace packhouse

// Not that of the program, whose library has it too.
int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
