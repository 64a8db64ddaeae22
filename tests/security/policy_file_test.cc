// The policy as a file: what it gives, how it is refused, and that a broken one changes nothing.
#include "service/access/security/policy_file.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::security {
namespace {

using ::testing::HasSubstr;

constexpr char kPolicy[] = R"(
version: 1
roles:
  - role: trainer
    principals: [alice, "system:serviceaccount:ml:train"]
    namespaces: [team-a, default]
  - {role: admin, principals: [root], namespaces: ["*"]}
  - {role: viewer, principals: ["*"], namespaces: [open]}
namespaces:
  team-a:
    quotas: {disk_bytes: 2GiB, datasets: 100, streams: 7, source_graphs: 5, histograms: 6,
             epochs: 8, pending_bytes: 3KiB, planning: 25%}
  "*":
    quotas: {streams: 3}
)";

TEST(PolicyFileTest, GivesWhatItSays) {
  PH_ASSERT_OK_AND_ASSIGN(const Policy policy, ParsePolicy(kPolicy));
  EXPECT_TRUE(policy.Allows("alice", Right::kTrain, "team-a"));
  EXPECT_TRUE(policy.Allows("alice", Right::kView, "default"));
  EXPECT_FALSE(policy.Allows("alice", Right::kProduce, "team-a"));
  EXPECT_FALSE(policy.Allows("alice", Right::kView, "team-b"));
  EXPECT_TRUE(policy.Allows("system:serviceaccount:ml:train", Right::kTrain, "team-a"));
  EXPECT_TRUE(policy.Allows("root", Right::kAdminister, "team-b"));
  EXPECT_TRUE(policy.Allows("", Right::kView, "open"));
  EXPECT_FALSE(policy.Allows("", Right::kTrain, "open"));
  EXPECT_EQ(policy.QuotasOf("team-a").disk_bytes, uint64_t{2} << 30);
  EXPECT_EQ(policy.QuotasOf("team-a").streams, 7);
  EXPECT_EQ(policy.QuotasOf("team-a"), (Quotas{uint64_t{2} << 30, 100, 5, 6, 8, 7, 3072, 0.25}));
  EXPECT_EQ(policy.QuotasOf("other").datasets, std::nullopt);
  EXPECT_EQ(policy.QuotasOf("other").streams, 3);
}

TEST(PolicyFileTest, WhatIsWrongIsNamedWithItsLine) {
  const std::string head = "version: 1\n";
  for (const auto& [text, why] : {
           std::pair(std::string(""), "is no map"),
           std::pair(std::string("roles: []"), "'version: 1'"),
           std::pair(std::string("version: 2"), "'version: 1'"),
           std::pair(std::string("version: [1]"), "'version: 1'"),
           std::pair(head + "roles: [{role: [viewer], principals: [a], namespaces: [b]}]",
                     "role '' is none"),
           std::pair(head + "namespaces: {a: {quotas: {disk_bytes: [1]}}}", "'disk_bytes' is no"),
           std::pair(head + "role: []", "line 2: the policy has an unknown key 'role'"),
           std::pair(head + "roles: []\nroles: []", "line 3: the policy has the key 'roles' twice"),
           std::pair(head + "roles:\n- {role: boss, principals: [a], namespaces: [b]}",
                     "line 3: role 'boss' is none of viewer"),
           std::pair(head + "roles:\n- {role: viewer, namespaces: [b]}", "no list 'principals'"),
           std::pair(head + "roles:\n- {role: viewer, principals: [], namespaces: [b]}",
                     "no list 'principals'"),
           std::pair(head + "roles:\n- {role: viewer, principals: [a], namespaces: [b/c]}",
                     "namespace 'b/c' is not"),
           std::pair(head + "roles:\n- {role: viewer, principals: ['a b'], namespaces: [b]}",
                     "principal 'a b' is not"),
           std::pair(head + "namespaces: {a: {quotas: {bytes: 1}}}", "unknown key 'bytes'"),
           std::pair(head + "namespaces: {a: {quotas: {streams: 1GiB}}}", "'streams' is no whole"),
           std::pair(head + "namespaces: {a: {quotas: {disk_bytes: -1}}}", "'disk_bytes' is no"),
           std::pair(head + "namespaces: {a: {quotas: {disk_bytes: 99999999999TiB}}}",
                     "is no whole"),
           std::pair(head + "namespaces: {a: {quotas: {planning: 0}}}", "'planning' is no share"),
           std::pair(head + "namespaces: {a: {quotas: {planning: 101%}}}",
                     "'planning' is no share"),
           std::pair(head + "namespaces: {a: {quotas: {planning: nan}}}", "'planning' is no share"),
           std::pair(head + "namespaces: {a: {quota: {}}}", "unknown key 'quota'"),
           std::pair(head + "namespaces: {a: {quotas: {disk_bytes: 16777216TiB}}}", "is no whole"),
           std::pair(head + "namespaces: {a: {quotas: {planning: [1]}}}", "'planning' is no share"),
           std::pair(head + "namespaces: {a: {quotas: [streams]}}", "quotas is no map"),
           std::pair(head + "namespaces: [a]", "'namespaces' is no map"),
           std::pair(head + "namespaces: {a: 1}", "namespace a is no map"),
           std::pair(head + "namespaces: {a: {}, a: {}}", "has the key 'a' twice"),
           std::pair(head + "namespaces:\n  b/c: {}", "line 3: namespace 'b/c' is not"),
           std::pair(head + "roles: [viewer]", "a role is no map"),
           std::pair(head + "roles: [{name: viewer}]", "a role has an unknown key 'name'"),
           std::pair(head + "roles: [{principals: [a], namespaces: [b]}]", "role '' is none"),
           std::pair(head + "roles: [{role: viewer, principals: a, namespaces: [b]}]",
                     "no list 'principals'"),
           std::pair(head + "roles: [{role: viewer, principals: [[a]], namespaces: [b]}]",
                     "a name in 'principals' is no text"),
           std::pair(head + "roles: [{role: viewer, principals: [a], namespaces: [{}]}]",
                     "a name in 'namespaces' is no text"),
           std::pair(head + "roles: [{role: viewer, principals: [a]}]", "no list 'namespaces'"),
           std::pair(head + "roles: [", "it is no YAML"),
           std::pair(head + "---\nnamespaces: {a: {quotas: {datasets: 1}}}\n",
                     "line 3: a second document begins"),
           std::pair(head + "...\nroles: []\n", "a second document begins"),
           std::pair(head + "---\nroles: [", "it is no YAML"),
           std::pair(
               head + "roles:\n- {role: viewer, principals: ['spiffe://x/*'], namespaces: [b]}",
               "has a '*', which means all"),
           std::pair(head + "roles:\n- {role: viewer, principals: [J\xF6rg], namespaces: [b]}",
                     "line 3: it is not UTF-8"),
           std::pair(head + "roles:\n- {role: viewer, principals: [\"a\\u200b\"], namespaces: [b]}",
                     "without blanks and control characters"),
           std::pair(
               head + "roles:\n- {role: viewer, principals: [\"a\\u00a0b\"], namespaces: [b]}",
               "without blanks and control characters"),
           std::pair(std::string("v\0e\0r\0", 6), "line 1: it is not UTF-8"),
           std::pair(std::string(), "the policy is no map"),
           std::pair(head + "[a]: 1", "line"),
           std::pair(head + "roles: *x", "it is no YAML"),
       }) {
    SCOPED_TRACE(text);
    const absl::Status status = ParsePolicy(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST(PolicyFileTest, NumbersHaveUnits) {
  for (const auto& [text, bytes] :
       {std::pair("7", uint64_t{7}), std::pair("1KiB", uint64_t{1} << 10),
        std::pair("1MiB", uint64_t{1} << 20), std::pair("1GiB", uint64_t{1} << 30),
        std::pair("16777215TiB", uint64_t{16777215} << 40)}) {
    PH_ASSERT_OK_AND_ASSIGN(
        const Policy policy,
        ParsePolicy(
            absl::StrCat("version: 1\nnamespaces: {a: {quotas: {disk_bytes: ", text, "}}}")));
    EXPECT_EQ(policy.QuotasOf("a").disk_bytes, bytes);
  }
  for (const auto& [text, share] :
       {std::pair("100%", 1.0), std::pair("1", 1.0), std::pair("0.5%", 0.005)}) {
    PH_ASSERT_OK_AND_ASSIGN(
        const Policy policy,
        ParsePolicy(absl::StrCat("version: 1\nnamespaces: {a: {quotas: {planning: ", text, "}}}")));
    EXPECT_EQ(policy.QuotasOf("a").planning, share);
  }
}

TEST(PolicyFileTest, AnEmptyDocumentIsNone) {
  EXPECT_THAT(ParsePolicy("---\nversion: 1\n---\n"), IsOk());
  EXPECT_THAT(ParsePolicy("version: 1\nnamespaces: {a: {}}\n"), IsOk());
  EXPECT_THAT(PolicyFile::Open("/none/policy").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'/none/policy'")));
  EXPECT_THAT(ParsePolicy("# ours\n---\nversion: 1\n...\n"), IsOk());
}

// Whoever writes a file in place makes it empty first, and then writes it piece by piece. No piece
// counts, however whole it looks.
TEST(PolicyFileTest, WhatIsBeingWrittenInPlaceChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/policy.yaml";
  const std::string text = kPolicy;
  WriteText(path, text);
  PH_ASSERT_OK_AND_ASSIGN(const auto file, PolicyFile::Open(path));
  const auto before = file->authorizer()->policy();
  for (size_t size = 0; size < text.size(); ++size) {
    WriteText(path, text.substr(0, size));
    file->Look().IgnoreError();
    ASSERT_EQ(file->authorizer()->policy(), before) << text.substr(0, size);
  }
  WriteText(path, text);
  EXPECT_FALSE(*file->Look());
  EXPECT_FALSE(*file->Look());
  EXPECT_TRUE(file->is_at_rest());
  WriteText(path, "version: 1\n");
  EXPECT_FALSE(*file->Look());
  EXPECT_FALSE(file->is_at_rest());
  EXPECT_EQ(file->authorizer()->policy(), before);
  EXPECT_TRUE(*file->Look());
  EXPECT_TRUE(file->is_at_rest());
  EXPECT_NE(file->authorizer()->policy(), before);
  // Who asks for it has written it.
  WriteText(path, text);
  EXPECT_TRUE(*file->Reload());
}

TEST(PolicyFileTest, AByteOrderMarkIsNotPartOfIt) {
  const TemporaryFolder folder;
  WriteText(folder.path() + "/policy.yaml", absl::StrCat("\xEF\xBB\xBF", kPolicy));
  EXPECT_THAT(PolicyFile::Open(folder.path() + "/policy.yaml"), IsOk());
}

TEST(PolicyFileTest, ABrokenFileKeepsThePolicyInUse) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/policy.yaml";
  WriteText(path, kPolicy);
  PH_ASSERT_OK_AND_ASSIGN(const auto file, PolicyFile::Open(path));
  const auto allowed = [&] {
    return file->authorizer()
        ->Check("alice", {Right::kTrain, Demand::Where::kNamed, "data set", "team-a/x"})
        .ok();
  };
  EXPECT_TRUE(allowed());
  WriteText(path, "version: 1\nroles: 3\n");
  const absl::Status broken = file->Reload().status();
  EXPECT_THAT(std::string(broken.message()), HasSubstr("policy.yaml': line 2: 'roles' is no list"));
  EXPECT_TRUE(allowed());
  std::filesystem::remove(path);
  EXPECT_EQ(file->Reload().status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(allowed());
  WriteText(path, "version: 1\n");
  EXPECT_TRUE(*file->Reload());
  EXPECT_FALSE(allowed());
}

}  // namespace
}  // namespace packhouse::security
