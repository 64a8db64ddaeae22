// What flags say is what the server has: each of them changes its own fields and no other.
#include "service/program/options.h"

#include <cstdlib>
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

TEST_F(OptionsTest, RefusalsNameWhatDoesNotGoTogether) {
  const std::string help = "; packhoused --help lists the flags";
  for (const auto& [words, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--http-tls"}, "--http-tls: needs --tls-cert and --tls-key" + help},
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
           {{"--lame-duck=x"},
            "--lame-duck: 'x' is not a duration from 0s to 24h, such as 30s" + help},
           {{"--lease-duration=1ms"},
            "--lease-duration: '1ms' is not a duration from 1s to 24h, such as 30s" + help},
       }) {
    SCOPED_TRACE(absl::StrJoin(words, " "));
    const auto parsed = Parse(words);
    ASSERT_TRUE(std::holds_alternative<absl::Status>(parsed));
    EXPECT_THAT(std::get<absl::Status>(parsed), StatusIs(absl::StatusCode::kInvalidArgument, why));
  }
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
       }) {
    EXPECT_TRUE(std::holds_alternative<Options>(Parse(words))) << absl::StrJoin(words, " ");
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
