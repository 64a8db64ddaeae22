// The commands of the disk, as they are run: what they print, and with which code they end.
#include "service/program/commands/commands.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command/server_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/program/wing.h"
#include "service/stores/lmdb/stored_keys.h"
#include "tests/data_folder/folder_world.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Ended {
  std::optional<int> code;
  std::string out;
  std::string err;
};

Ended RunWords(std::vector<std::string> words) {
  words.insert(words.begin(), "packhoused");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ended ended;
  ended.code = RunCommand(static_cast<int>(arguments.size()), arguments.data(), PartsOfCommands());
  ended.out = testing::internal::GetCapturedStdout();
  ended.err = testing::internal::GetCapturedStderr();
  return ended;
}

void ExpectEnds(const std::vector<std::string>& words, int code, const std::string& out,
                const std::string& err) {
  SCOPED_TRACE(absl::StrJoin(words, " "));
  const Ended ended = RunWords(words);
  EXPECT_EQ(ended.code, code);
  EXPECT_EQ(ended.out, out);
  EXPECT_EQ(ended.err, err);
}

// It ends with this error.
void ExpectFails(const std::vector<std::string>& words, const std::string& why) {
  ExpectEnds(words, kExitFailure, "", absl::StrCat(ProgramName(), ": ", why, "\n"));
}

TEST(RunCommandTest, FlagsOfAServerAreNone) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"--listen=x"},
                                             {"--listen", "store"},
                                             {"serve", "store"},
                                             {"listen=x", "store"},
                                             {"--insecure", "store", "check"}}) {
    EXPECT_EQ(RunWords(words).code, std::nullopt) << absl::StrJoin(words, " ");
  }
  for (const char* const command : {"store", "policy", "admin"}) {
    EXPECT_EQ(RunWords({"--listen=x", "--lane=y", command}).code, kExitUsage);
    EXPECT_THAT(RunWords({command, "--help"}).out, HasSubstr(absl::StrCat(" ", command)));
    EXPECT_THAT(CommandsHelp(), HasSubstr(absl::StrCat("\n  ", command, " ")));
  }
}

TEST(PolicyCommandTest, ItSaysWhoMayDoWhat) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string file = folder.path() + "/policy.yaml";
  WriteFile(file,
            "version: 1\nroles:\n- {role: trainer, principals: [alice], namespaces: [team]}\n"
            "- {role: admin, principals: [bob], namespaces: ['*']}\n");
  ExpectEnds({"policy", "check", file}, kExitOk,
             file + ": good; principals: 2, namespaces with quotas: 0\n", "");
  for (const auto& [principal, name, rights] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"alice", "team/x", "namespace team: view, train"},
           {"alice", "other/x", "namespace other: nothing"},
           {"bob", "x", "namespace default: view, train, produce, own, administer"}}) {
    ExpectEnds({"policy", "check", file, "--principal", principal, "--name", name}, kExitOk,
               absl::StrCat(principal, " in ", rights, "\n"), "");
  }
  EXPECT_EQ(RunWords({"policy", "check", file, "--name=x"}).code, kExitUsage);
  WriteFile(file, "version: 2\n");
  const Ended bad = RunWords({"policy", "check", file});
  EXPECT_EQ(bad.code, kExitFailure);
  EXPECT_THAT(bad.err, testing::StartsWith(absl::StrCat(ProgramName(), ": ", file, ": ")));
  const Ended gone = RunWords({"policy", "check", file + ".none"});
  EXPECT_EQ(gone.code, kExitFailure);
  EXPECT_THAT(gone.err, HasSubstr("[NOT_FOUND]"));
}

class StoreCommandTest : public FolderTest {
 protected:
  const std::string snapshot_ = folder_.path() + "/snapshot";
};

TEST_F(StoreCommandTest, AFolderIsCheckedCopiedAndRestored) {
  const std::string has =
      "2 data sets, 36 records of the ledger, 2 source graphs, 2 named "
      "histograms, ";
  ExpectEnds({"store", "check", data_dir_}, kExitOk, absl::StrCat(data_dir_, ": ", has, "sound\n"),
             "");
  EXPECT_EQ(nlohmann::json::parse(RunWords({"store", "check", data_dir_, "--json"}).out),
            (nlohmann::json{{"datasets", 2},
                            {"ledger_records", 36},
                            {"source_graphs", 2},
                            {"histograms", 2},
                            {"damages", nlohmann::json::array()}}));
  const Ended taken = RunWords({"store", "snapshot", data_dir_, snapshot_});
  EXPECT_EQ(taken.code, kExitOk);
  const size_t num_files = ReadSnapshotManifest(snapshot_)->files.size();
  EXPECT_THAT(taken.out, MatchesRegex(absl::StrCat(snapshot_, ": ", num_files,
                                                   " files, [0-9,]+ bytes, of which 0 were "
                                                   "there\n")));
  EXPECT_EQ(taken.err, "");
  ExpectFails({"store", "snapshot", data_dir_, snapshot_},
              absl::StrCat("'", snapshot_, "' has a whole snapshot already [ALREADY_EXISTS]"));
  const std::string time = ReadSnapshotManifest(snapshot_)->taken;
  ExpectEnds({"store", "check", snapshot_}, kExitOk,
             absl::StrCat(snapshot_, ": a snapshot of ", time, ", ", num_files, " files, sound\n"),
             "");
  const std::string restored = folder_.path() + "/restored";
  ExpectEnds({"store", "restore", snapshot_, restored}, kExitOk, restored + ": restored\n", "");
  EXPECT_TRUE(ReadContents(restored) == ReadContents(data_dir_));
  EXPECT_EQ(RunWords({"store", "restore", snapshot_, restored}).code, kExitFailure);
  const std::string histograms = snapshot_ + "/files/histograms";
  WriteFile(histograms, "x");
  ExpectEnds(
      {"store", "check", snapshot_}, kExitFailure,
      absl::StrCat(histograms,
                   ": its checksum is not that of the manifest\n"
                   "  costs all named histograms\n",
                   snapshot_, ": a snapshot of ", time, ", ", num_files, " files, 1 damages\n"),
      "");
  EXPECT_EQ(nlohmann::json::parse(RunWords({"store", "check", snapshot_, "--json"}).out),
            (nlohmann::json{{"files", num_files},
                            {"taken", time},
                            {"damages",
                             {{{"file", histograms},
                               {"place", ""},
                               {"what", "its checksum is not that of the manifest"},
                               {"cost", "all named histograms"}}}}}));
}

TEST_F(StoreCommandTest, ADamagedFolderIsRepairedAndCompacted) {
  const std::string ledger = DataFile(DeliveryFolder(data_dir_));
  const std::string nothing = ": nothing to repair in the ledger, and nothing is missing\n";
  ExpectEnds({"store", "repair", data_dir_}, kExitOk, data_dir_ + nothing, "");
  EraseKey(DeliveryFolder(data_dir_), RecordKey(1, 2));
  ExpectEnds({"store", "check", data_dir_}, kExitFailure,
             absl::StrCat(ledger, ", job 'others', record 2: is missing\n  costs job 'others'\n",
                          data_dir_,
                          ": 2 data sets, 36 records of the ledger, 2 source graphs, 2 named "
                          "histograms, 1 damages\n"),
             "");
  ExpectEnds({"store", "repair", data_dir_}, kExitOk,
             absl::StrCat("job 'others', record 2: is missing; it costs job 'others'\n"
                          "lost: job 'others'; its trainers begin anew, or go on from a cursor\n",
                          data_dir_, ": repaired\n"),
             "");
  ExpectFails({"store", "repair", data_dir_, "--drop-source-graph=none"},
              "source graph 'none': there is none [NOT_FOUND]");
  const Ended compacted = RunWords({"store", "compact", data_dir_});
  EXPECT_EQ(compacted.code, kExitOk);
  EXPECT_THAT(compacted.out, MatchesRegex(absl::StrCat(
                                 DatasetsFolder(data_dir_), ": [0-9,]+ bytes, now [0-9,]+\n",
                                 DeliveryFolder(data_dir_), ": [0-9,]+ bytes, now [0-9,]+\n")));
  const std::string none = folder_.path() + "/none";
  const std::string gone = absl::StrCat("there is no data folder '", none, "' [NOT_FOUND]");
  for (const char* const action : {"check", "repair", "compact"}) {
    ExpectFails({"store", action, none}, gone);
  }
  ExpectFails({"store", "snapshot", none, snapshot_}, gone);
  EXPECT_FALSE(std::filesystem::exists(snapshot_));
}

TEST_F(StoreCommandTest, WhatIsSealedIsCopied) {
  const std::string from = "lmdb:" + data_dir_;
  const std::string to = absl::StrCat("lmdb:", folder_.path(), "/copy");
  const std::string left_out =
      "open: left out, since it is open\ngraph/open: left out, since the source graph is open\n";
  for (const bool again : {false, true}) {
    const Ended ended = RunWords({"store", "copy", from, to, "--all"});
    EXPECT_EQ(ended.code, kExitOk);
    EXPECT_EQ(ended.err, left_out);
    EXPECT_THAT(
        ended.out,
        MatchesRegex(absl::StrCat(
            "sealed: 60 graphs in 3 records, of which ", again ? "3" : "0", " were there\n", to,
            ": 1 data sets\ngraph/sealed: a source graph of [0-9,]+ "
            "bytes, of which ",
            again ? "[0-9,]+" : "0", " were there\n", to, ": 1 source graphs\n")));
  }
  ExpectEnds({"store", "copy", from, to, "sealed"}, kExitOk,
             absl::StrCat("sealed: 60 graphs in 3 records, of which 3 were there\n", to,
                          ": 1 data sets\n"),
             "");
  const std::string names =
      absl::StrCat(ProgramName(),
                   ": names of data sets, --source-graph with one of a source graph, or --all\n"
                   "Run with --help for the options.\n");
  ExpectEnds({"store", "copy", from, to}, kExitUsage, "", names);
  ExpectEnds({"store", "copy", from, to, "sealed", "--all"}, kExitUsage, "", names);
  ExpectEnds({"store", "copy", from, to, "--source-graph=g", "--all"}, kExitUsage, "", names);
  const std::string empty = folder_.path() + "/empty";
  const std::string no_store =
      absl::StrCat("'", empty, "' is no data folder: there are no data sets in it [NOT_FOUND]");
  ExpectFails({"store", "copy", "lmdb:" + empty, to, "--all"}, no_store);
  for (const char* const option : {"sealed2", "--source-graph=sealed2"}) {
    const Ended unknown = RunWords({"store", "copy", from, to, option});
    EXPECT_EQ(unknown.code, kExitFailure);
    EXPECT_THAT(unknown.err, HasSubstr("sealed2"));
    EXPECT_THAT(unknown.err, HasSubstr("[NOT_FOUND]"));
  }
  ExpectFails({"store", "copy", data_dir_, to, "--all"},
              "a store is lmdb:DIR, a server's data folder, or s3://BUCKET[/PREFIX] "
              "[INVALID_ARGUMENT]");
}

TEST_F(StoreCommandTest, AddressesOfWhatServersShare) {
  const std::string neither =
      "s4://x is neither a folder nor s3://BUCKET[/PREFIX] [INVALID_ARGUMENT]";
  const std::string needs = "a store in S3 needs --ledger etcd://HOST,... [INVALID_ARGUMENT]";
  for (const auto& [store, why] :
       {std::pair(std::string("s4://x"), neither), std::pair(std::string("s3://b"), needs)}) {
    for (const char* const action : {"check", "repair"}) ExpectFails({"store", action, store}, why);
    ExpectFails({"store", "snapshot", store, snapshot_}, why);
    ExpectFails({"store", "restore", snapshot_, store}, why);
  }
  ExpectFails({"store", "repair", "s3://b", "--drop-source-graph=g"},
              "--drop-source-graph: is for folders, not for s3://b [INVALID_ARGUMENT]");
  ExpectFails({"store", "snapshot", data_dir_, snapshot_, "--ledger=etcd://h"},
              absl::StrCat("--ledger: is for s3://, not for ", data_dir_, " [INVALID_ARGUMENT]"));
  EXPECT_FALSE(std::filesystem::exists(snapshot_));
}

// Words of the command line go before the environment's.
TEST(CredentialsToUseTest, FlagsGoBeforeVariables) {
  for (const char* const name : {"CA", "CERT", "KEY", "SERVER_NAME"}) {
    ::setenv(absl::StrCat("PACKHOUSE_TLS_", name).c_str(), absl::StrCat("v-", name).c_str(), 1);
  }
  ::setenv("PACKHOUSE_TOKEN", "secret", 1);
  client::Credentials& given = client::CredentialsOfCommand();
  given = {};
  PH_ASSERT_OK_AND_ASSIGN(const client::Credentials usual, client::CredentialsToUse());
  EXPECT_EQ(usual.tls_ca, "v-CA");
  EXPECT_EQ(usual.token, "secret");
  given.tls = true;
  given.tls_ca = "a";
  given.tls_cert = "b";
  given.tls_key = "c";
  given.tls_server_name = "d";
  given.token_file = "e";
  PH_ASSERT_OK_AND_ASSIGN(const client::Credentials used, client::CredentialsToUse());
  EXPECT_TRUE(used.tls);
  EXPECT_EQ(used.tls_ca, "a");
  EXPECT_EQ(used.tls_cert, "b");
  EXPECT_EQ(used.tls_key, "c");
  EXPECT_EQ(used.tls_server_name, "d");
  EXPECT_EQ(used.token_file, "e");
  EXPECT_EQ(used.token, "");
  given = {};
  for (const char* const name : {"TLS_CA", "TLS_CERT", "TLS_KEY", "TLS_SERVER_NAME", "TOKEN"}) {
    ::unsetenv(absl::StrCat("PACKHOUSE_", name).c_str());
  }
}

TEST(FailTest, AFlagOfTheServerIsExplained) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(client::Fail(absl::NotFoundError("x")), kExitFailure);
  EXPECT_EQ(client::Fail(absl::ResourceExhaustedError("--memory-budget: x")), kExitFailure);
  const std::string name = ProgramName();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            name + ": x [NOT_FOUND]\n" + name +
                ": --memory-budget: x; --memory-budget is a flag of packhoused: start one with "
                "more, and name it with --server [RESOURCE_EXHAUSTED]\n");
}

}  // namespace
}  // namespace packhouse
